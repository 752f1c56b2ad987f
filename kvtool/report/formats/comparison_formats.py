"""A comparison as a file: JSON, markdown for a pull request, text, or a picture of the terminal view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import StringIO
from typing import TYPE_CHECKING

from kvtool.accounting.ledger.fates import FATES
from kvtool.report.formats.svg import svg_of
from kvtool.report.markdown.text import code, prose
from kvtool.report.terminal.comparison import cause_text, fate_rows, points, print_comparison, sentence, warnings
from kvtool.report.write_options import WriteOptions
from kvtool.results.comparison import CauseMove, Comparison, GroupMove, WorkloadMove
from kvtool.results.model import dump
from kvtool.text.terminal.console import make_console
from kvtool.text.terminal.numbers import percent

if TYPE_CHECKING:
    from rich.console import Console

_MOST_ROWS = 30


def _text(comparison: Comparison, options: WriteOptions) -> str:
    file = StringIO()
    print_comparison(
        make_console(file=file, color="never", width=options.width), comparison, show_text="none", read_files=False
    )
    return file.getvalue()


def _svg(comparison: Comparison, options: WriteOptions) -> str:
    def show(console: Console) -> None:
        print_comparison(console, comparison, show_text="none", read_files=False)

    return svg_of(show, "kvtool compare", options.width)


def _json(comparison: Comparison, _options: WriteOptions) -> str:
    return dump(comparison)


def _markdown(comparison: Comparison, _options: WriteOptions) -> str:
    """Headings, tables and lists; names and paths cannot become markup, mentions or links."""
    lines = [f"### kvtool: {prose(sentence(comparison))}", ""]
    for what, names in (("old", comparison.only_old), ("new", comparison.only_new)):
        lines += [f"- only in the {what} result, so not compared: {code(name)}" for name in names]
    for workload in comparison.workloads:
        lines += _workload(workload, several=len(comparison.workloads) > 1)
    lines += _causes(comparison.findings)
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines) + "\n"


FORMATTERS: Mapping[str, Callable[[Comparison, WriteOptions], str]] = {
    "json": _json,
    "markdown": _markdown,
    "text": _text,
    "svg": _svg,
}
"""By the names of formats."""


def _workload(workload: WorkloadMove, *, several: bool) -> list[str]:
    lines = [f"#### {code(workload.name)}", ""] if several else []
    told = warnings(workload)
    lines += [f"> **{prose(text)}**" for text in told] + ([""] if told else [])
    total = workload.total
    lines += ["| | old | new | change |", "|---|---:|---:|---:|"]
    for name, move in (("Hit rate", total.hit), ("Reachable", total.reachable)):
        lines.append(f"| {name} | {percent(move.old)} | {percent(move.new)} | {points(move.difference)} pts |")
    for name, old, new in (
        ("Requests", total.old_requests, total.new_requests),
        ("Prompt tokens", total.old_prompt_tokens, total.new_prompt_tokens),
    ):
        lines.append(f"| {name} | {old:,} | {new:,} | {f'{new - old:+,}' if new != old else 'same'} |")
    p50 = total.predicted_ttft.p50
    if p50.old is not None and p50.new is not None:
        lines.append(f"| TTFT p50, predicted | {1000 * p50.old:,.1f} ms | {1000 * p50.new:,.1f} ms | |")
    lines.append("")
    if len(workload.groups) > 1:
        lines += _groups(workload.groups)
    return [*lines, *_fates(total), *_causes(workload.causes)]


def _groups(groups: list[GroupMove]) -> list[str]:
    ordered = sorted(groups, key=lambda group: -abs(group.hit.difference))
    lines = ["| group | hit old | hit new | points |", "|---|---:|---:|---:|"]
    for group in ordered[:_MOST_ROWS]:
        old = percent(group.hit.old) if group.old_requests else "new"
        new = percent(group.hit.new) if group.new_requests else "gone"
        lines.append(f"| {code(group.name, cell=True)} | {old} | {new} | {points(group.hit.difference)} |")
    if len(ordered) > _MOST_ROWS:
        lines += ["", f"and {len(ordered) - _MOST_ROWS:,} more groups"]
    return [*lines, ""]


def _fates(total: GroupMove) -> list[str]:
    lines = ["<details><summary>Where prompt tokens went</summary>", ""]
    lines += ["| | old | new | points |", "|---|---:|---:|---:|"]
    lines += [
        f"| {FATES.get(name) or code(name, cell=True)} | {old} | {new} | {points(move.difference)} |"
        for name, move, old, new in fate_rows(total)
    ]
    return [*lines, "", "</details>", ""]


def _causes(moves: list[CauseMove]) -> list[str]:
    moved = [move for move in moves if move.change != "same"]
    moved.sort(key=lambda move: move.change not in ("new", "more"))
    lines = [f"- {prose(cause_text(move))}" for move in moved[:_MOST_ROWS]]
    if len(moved) > _MOST_ROWS:
        lines.append(f"- and {len(moved) - _MOST_ROWS:,} more")
    if same := len(moves) - len(moved):
        lines.append(f"- {same:,} as before")
    return [*lines, ""] if lines else []
