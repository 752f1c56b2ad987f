"""The groups of a model's layers in `kvtool size`, and why they and their blocks are what they are."""

from __future__ import annotations

from kvtool.results.documents.size import SizedGroup, SizeDocument
from kvtool.text.terminal.numbers import size
from kvtool.text.terminal.table import Column

_KINDS = {"full": "full attention", "mla": "MLA", "sliding": "window", "chunked": "chunks", "mamba": "states"}


def several(report: SizeDocument) -> bool:
    """Whether there is more to a model than one group of layers whose blocks hold tokens."""
    return (
        len(report.groups) != 1
        or report.groups[0].count > 1
        or report.groups[0].kind in ("sliding", "chunked", "mamba")
    )


def group_table(report: SizeDocument) -> tuple[list[Column], list[list[str]]]:
    """Columns and rows: equal groups in one row."""
    columns = [
        Column("layers", "<"),
        Column("groups"),
        Column("of layers", keep=2),
        Column("block"),
        Column("page", keep=1),
        Column("a request's blocks", keep=3),
    ]
    return columns, [_row(group) for group in report.groups]


def _row(group: SizedGroup) -> list[str]:
    of = sorted(set(group.layers), reverse=True)
    held = group.blocks_per_request
    return [
        group_name(group),
        str(group.count),
        " and ".join(map(str, of)),
        f"{group.block_size:,}",
        " and ".join(size(page) for page in group.page_bytes),
        "" if held is None else f"{held:,}" if group.count == 1 else f"{group.count} x {held:,}",
    ]


def group_name(group: SizedGroup) -> str:
    """The kind, and how far its layers see."""
    reach = group.window if group.window is not None else group.chunk
    return _KINDS[group.kind] if reach is None else f"{_KINDS[group.kind]} of {reach:,}"


def plan_notes(report: SizeDocument) -> list[str]:
    """What of the plan differs from a model of plain attention."""
    notes = []
    if not report.groups:
        notes.append("its layers keep no KV cache")
    if report.caching_off is not None:
        notes.append(f"prefix caching is off: {report.caching_off}")
    if report.block_reason is not None:
        notes.append(f"block {report.block_size:,}: {report.block_reason}")
    if report.one_group_reason is not None:
        notes.append(f"one group: {report.one_group_reason}; windows and chunks keep all tokens")
    if not report.prefix_caching:
        return notes
    if report.hit_unit != report.block_size or any(group.kind == "mamba" for group in report.groups):
        notes.append(
            f"hits end on multiples of {report.hit_unit:,} tokens: a shared beginning that is shorter is never hit"
        )
    if report.keeps_prompt_ends_only:
        kinds = {"sliding": "windows", "mamba": "states"}
        what = " and ".join(dict.fromkeys(kinds[group.kind] for group in report.groups if group.kind in kinds))
        notes.append(
            f"kept: {what} of the end of each prompt only (vLLM's default, prefix_cache_retention_interval 0): "
            "of prompts with the same beginning, the third is the first to hit"
        )
    return notes
