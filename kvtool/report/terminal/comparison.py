"""The terminal view of a `Comparison`, no wider than the console."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.report.outputs import in_root
from kvtool.report.terminal.findings import put_excerpt
from kvtool.report.terminal.lines import put_head, shown_path
from kvtool.report.terminal.render import print_table
from kvtool.report.views.comparison import (
    cause_text,
    fates_table,
    groups_table,
    is_worse,
    moved_causes,
    only_in_one,
    sentence,
    totals_table,
    warnings,
)
from kvtool.results.comparison import CauseMove, Comparison, GroupMove, Outcome, WorkloadMove
from kvtool.results.finding import Finding
from kvtool.results.show_text import ShowText
from kvtool.text.terminal.console import ascii_only, is_plain, put, sanitize, say
from kvtool.text.terminal.numbers import percent, plural

if TYPE_CHECKING:
    from rich.console import Console

_MOST_GROUPS = 40
_MOST_CAUSES = 20
_STYLES: dict[Outcome, str] = {"fell": "bold red", "rose": "bold green", "same": "bold"}


def print_comparison(console: Console, comparison: Comparison, *, show_text: ShowText, read_files: bool = True) -> None:
    """Print what makes workloads incomparable, rates and times, fates, groups and causes of each; the sentence last.

    With `read_files` the lines of new and grown causes are shown as they are in the files now.
    """
    plain = ascii_only(console)
    put_head(console, ["kvtool compare", f"{comparison.old} {'->' if plain else '→'} {comparison.new}"])
    for text in only_in_one(comparison):
        say(console, sanitize(text, ascii_only=plain), indent=0, style="bold yellow")
    for workload in comparison.workloads:
        put(console)
        _workload(console, workload, several=len(comparison.workloads) > 1, show_text=show_text, read_files=read_files)
    _causes(console, comparison.findings, show_text=show_text, read_files=read_files)
    put(console)
    last = sanitize(sentence(comparison), ascii_only=plain)
    say(console, last, indent=0, hang=4, style=_STYLES[comparison.outcome])


def _workload(
    console: Console, workload: WorkloadMove, *, several: bool, show_text: ShowText, read_files: bool
) -> None:
    plain = ascii_only(console)
    if several or workload.name != workload.old_name:
        names = dict.fromkeys((workload.old_name, workload.name))
        say(console, " -> ".join(shown_path(name, plain) for name in names), indent=0, style="bold")
    for text in warnings(workload):
        say(console, sanitize(text, ascii_only=plain), indent=0, style="bold red" if "NOT" in text else "yellow")
    if several and not workload.config and all(_is_unmoved(group) for group in (workload.total, *workload.groups)):
        hit, requests = percent(workload.total.hit.new), plural(workload.total.new_requests, "request")
        say(console, f"Unchanged: hit rate {hit}, {requests}")
        if all(cause.change == "same" for cause in workload.causes):
            return
    else:
        print_table(console, totals_table(workload.total))
        put(console)
        print_table(console, fates_table(workload.total))
        if len(workload.groups) > 1 or any(
            not group.old_requests or not group.new_requests for group in workload.groups
        ):
            put(console)
            print_table(console, groups_table(workload.groups, _MOST_GROUPS))
    _causes(console, workload.causes, show_text=show_text, read_files=read_files)


def _is_unmoved(group: GroupMove) -> bool:
    """Return whether all figures are as before."""
    times, tokens = group.predicted_ttft, (group.hit, group.reachable, *group.fates.values())
    return (
        group.old_requests == group.new_requests
        and group.old_prompt_tokens == group.new_prompt_tokens
        and all(move.old_tokens == move.new_tokens for move in tokens)
        and all(time.old == time.new for time in (times.p50, times.p90, times.p99))
    )


def _causes(console: Console, moves: Sequence[CauseMove], *, show_text: ShowText, read_files: bool) -> None:
    """Print what is new or costs more with its line, then what costs less or is gone; the rest is counted."""
    if not moves:
        return
    plain = ascii_only(console)
    shown, rest = moved_causes(moves, _MOST_CAUSES)
    put(console)
    put(console, "  Causes", "bold")
    for move in shown:
        worse = is_worse(move)
        label = f"{move.change}:" if is_plain(console) else f"{move.change:<4} "
        text = sanitize(f"{label} {cause_text(move)}", ascii_only=plain)
        say(console, text, hang=6, style="bold red" if worse else "green")
        if worse and read_files and move.in_source and move.line and move.width and in_root(move.path):
            put_excerpt(console, _as_finding(move), plain=plain, show_text=show_text)
    for text in rest:
        say(console, text, style="dim")


def _as_finding(move: CauseMove) -> Finding:
    """Return as much of a finding as it takes to show its line."""
    return Finding.of(
        code=move.code,
        severity="info",
        group=move.group,
        path=move.path,
        line=move.line,
        column=move.column,
        message="" if move.variable is None else f"variable `{move.variable}`",
        tokens_lost=move.new_tokens,
        fix="",
        in_source=True,
        width=move.width,
    )
