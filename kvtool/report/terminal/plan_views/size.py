"""The table of `kvtool size`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.engine.prediction.accelerators import BATCH_LIMITS_SOURCE
from kvtool.report.terminal.lines import put_head, put_next
from kvtool.results.documents.size import AcceleratorRoom, SizedGroup, SizeDocument
from kvtool.text.terminal.console import ascii_only, put, say
from kvtool.text.terminal.numbers import in_words, size
from kvtool.text.terminal.table import Column, put_table, table

if TYPE_CHECKING:
    from rich.console import Console


_SHORT = 3
"""Most accelerators without enough memory that are named."""


def print_size(console: Console, report: SizeDocument, command: Sequence[str]) -> None:
    """Print header, table and notes, no wider than the console; `command` is proposed as the next."""
    plain = ascii_only(console)
    each = report.max_model_len
    head = [
        f"kvtool size {report.model}",
        f"KV cache {report.kv_cache_dtype}",
        f"block {report.block_size}",
        *([f"max-model-len {each:,}"] if each is not None else []),
        *([f"tensor parallel {report.tensor_parallel}"] if report.tensor_parallel > 1 else []),
        f"{100 * report.gpu_memory_utilization:g}% of the memory",
    ]
    put_head(console, head)
    put(console)
    if several(report):
        put_table(console, *group_table(report))
        put(console)
    columns = [
        Column("accelerator", "<"),
        Column("memory", keep=1),
        Column("weights", keep=0),
        Column("KV cache"),
        Column("blocks", keep=2),
        Column("tokens"),
        *([Column("requests")] if each is not None else []),
    ]
    rows = [_cells(room, None if several(report) else report.block_size) for room in report.accelerators]
    for line in table(columns, rows, console.width, ascii_only=plain):
        put(console, line)
    put(console)
    for note in (*plan_notes(report), *_notes(report)):
        say(console, note, hang=2, style="dim")
    if command:
        put(console)
        lacks = not any(room.fits for room in report.accelerators)
        todo = "split the model over more accelerators" if lacks else "compare a smaller KV cache type"
        put_next(console, todo, command[1:])


def _cells(room: AcceleratorRoom, block_size: int | None) -> list[str]:
    """Blocks and tokens are those that requests can use, as `--capacity` and the report of a profile count them; of several groups
    (`block_size` is None) tokens are vLLM's count."""
    cells = [room.name, size(room.memory_bytes), size(room.weight_bytes)]
    if room.available_bytes is None:
        cells += ["does not fit", "", ""]
    else:
        blocks = room.usable_blocks or 0
        tokens = room.tokens if block_size is None else blocks * block_size
        cells += [size(room.available_bytes), f"{blocks:,}", "" if tokens is None else f"{tokens:,}"]
    if room.fits_max_model_len is not None:
        some = "" if room.max_concurrency is None else f"{room.max_concurrency:,.1f}"
        cells.append(some if room.fits_max_model_len else "none" if room.fits else "")
    return cells


def _notes(report: SizeDocument) -> list[str]:
    some = report.accelerators[0]
    per_block = some.bytes_per_block
    one = " on each accelerator" if report.tensor_parallel > 1 else ""
    many = several(report)
    each = "" if many else f"{size(per_block / report.block_size)} a token, "
    notes = [f"KV cache: {each}{size(per_block)} a block{one}" + (", whichever group takes it" if many else "")]
    if report.kv_cache_dtype != report.native_dtype:
        notes[0] += (
            f"; {report.capacity_gain:.2f} times the {'requests' if many else 'blocks'} of {report.native_dtype}"
        )
    if len(report.accelerators) == 1:
        estimated = f"{size(some.activation_bytes_estimate)} of activations"
        notes[0] += f"; {estimated} and {size(some.graph_bytes_estimate)} of CUDA graphs are estimates"
        return [*notes, *_lacks(report)]
    notes.append("blocks: usable by requests, as in --capacity. vLLM's own count has one more, the null block")
    if many and report.max_model_len is not None:
        notes.append(
            "tokens: vLLM's KV cache size, those of all requests that fit. It is less than blocks times block size"
        )
    if report.max_model_len is not None:
        notes.append(
            f"requests: how many fit at once, with {report.max_model_len:,} tokens each and no shared prefix "
            "(vLLM's maximum concurrency)"
        )
    else:
        notes.append("--max-model-len N shows how many requests of N tokens fit at once")
    notes += _lacks(report)
    notes.append("memory: from the data sheet. vLLM finds up to 10% less on the device")
    steps: dict[str, list[str]] = {}
    for room in report.accelerators:
        limits = f"{room.max_num_batched_tokens:,} tokens and {room.max_num_seqs:,} requests"
        steps.setdefault(limits, []).append(room.name)
    said = "; ".join(f"{limits} on {', '.join(names)}" for limits, names in steps.items())
    notes.append(f"limits of a step in {BATCH_LIMITS_SOURCE}: {said}")
    most = [min, max] if len({room.activation_bytes_estimate for room in report.accelerators}) > 1 else [max]
    activations = " to ".join(size(of(room.activation_bytes_estimate for room in report.accelerators)) for of in most)
    estimates = f"{activations} for activations, {size(some.graph_bytes_estimate)} for CUDA graphs"
    notes.append(f"Blocks of the KV cache are exact. Weights are from the config. Estimates: {estimates}")
    return notes


def _lacks(report: SizeDocument) -> list[str]:
    """Return where the model does not fit, and how its weights are stored."""
    notes: list[str] = []
    too_small = [room for room in report.accelerators if room.fits and room.fits_max_model_len is False]
    if too_small:
        longest = ", ".join(f"{room.name} {room.longest_request:,}" for room in too_small)
        notes.append(
            f"none: vLLM does not start with this --max-model-len. Longest request that fits: {longest} tokens"
        )
    if lacking := sorted((room for room in report.accelerators if not room.fits), key=lambda room: room.lacking_bytes):
        short = ", ".join(f"{room.name} {size(room.lacking_bytes)}" for room in lacking[:_SHORT])
        rest = f"; {len(lacking) - _SHORT} others need even more" if len(lacking) > _SHORT else ""
        notes.append(f"does not fit: needs more memory ({short}{rest}), or more accelerators (--tensor-parallel)")
    if report.weights_note is not None:
        notes.append(f"weights: {report.weights_note}")
    return notes


_KINDS = {"full": "full attention", "mla": "MLA", "sliding": "window", "chunked": "chunks", "mamba": "states"}


def several(report: SizeDocument) -> bool:
    """Return whether a model has more than one group of layers whose blocks contain tokens."""
    return (
        len(report.groups) != 1
        or report.groups[0].count > 1
        or report.groups[0].kind in ("sliding", "chunked", "mamba")
    )


def group_table(report: SizeDocument) -> tuple[list[Column], list[list[str]]]:
    """Return columns and rows: equal groups in one row."""
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
        in_words(map(str, of)),
        f"{group.block_size:,}",
        in_words(size(page) for page in group.page_bytes),
        "" if held is None else f"{held:,}" if group.count == 1 else f"{group.count} x {held:,}",
    ]


def group_name(group: SizedGroup) -> str:
    """Return the kind, and how far its layers see."""
    reach = group.window if group.window is not None else group.chunk
    return _KINDS[group.kind] if reach is None else f"{_KINDS[group.kind]} of {reach:,}"


def plan_notes(report: SizeDocument) -> list[str]:
    """Return how the plan differs from that of a model with plain attention."""
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
        notes.append(f"hits end on multiples of {report.hit_unit:,} tokens. A shorter shared prefix never hits")
    if report.keeps_prompt_ends_only:
        kinds = {"sliding": "windows", "mamba": "states"}
        what = in_words(dict.fromkeys(kinds[group.kind] for group in report.groups if group.kind in kinds))
        notes.append(
            f"kept: only the {what} at the end of each prompt (vLLM's default, prefix_cache_retention_interval 0). "
            "The third prompt with the same prefix is the first to hit"
        )
    return notes
