"""The terminal view of a `Comparison`: what moved, the loudest first, no wider than the console."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.accounting.ledger.fates import FATES
from kvtool.report.outputs import in_root
from kvtool.report.terminal.findings import put_excerpt
from kvtool.report.terminal.next_command import shorten_middle
from kvtool.report.terminal.shown_path import shown_path
from kvtool.results.comparison import CauseMove, Comparison, ConfigMove, GroupMove, Outcome, RateMove, WorkloadMove
from kvtool.results.finding import Finding
from kvtool.results.show_text import ShowText
from kvtool.text.terminal.console import ascii_only, cell_width, fold, is_plain, pack, put, sanitize, say
from kvtool.text.terminal.numbers import percent, plural, shares
from kvtool.text.terminal.table import Column, put_table, room_for_first

if TYPE_CHECKING:
    from rich.console import Console

_MOST_GROUPS = 40
_MOST_CAUSES = 20
_HANG = 8
_STYLES: dict[Outcome, str] = {"fell": "bold red", "rose": "bold green", "same": "bold"}
_VERBS: dict[Outcome, str] = {"fell": "FELL", "rose": "ROSE", "same": "SAME"}
_NAMES = {
    "capacity_blocks": "capacity (blocks)",
    "ttl_seconds": "time to live (seconds)",
    "provider_as_of": "provider's rules as of",
}


def print_comparison(console: Console, comparison: Comparison, *, show_text: ShowText, read_files: bool = True) -> None:
    """Header, then for each workload what makes it incomparable, rates and times, fates, groups and causes; the sentence last.

    With `read_files` the lines of new and grown causes are shown as they are in the files now.
    """
    plain = ascii_only(console)
    arrow = "->" if plain else "→"
    names = [sanitize(name, ascii_only=plain) for name in (comparison.old, comparison.new)]
    head = ["kvtool compare", f"{names[0]} {arrow} {names[1]}"]
    for line in pack(head, console.width, separator=" | " if plain else " · ", indent=2):
        put(console, line, "bold")
    for what, only in (("old", comparison.only_old), ("new", comparison.only_new)):
        for name in only:
            text = f"only in the {what} result, so not compared: {shown_path(name, plain)}"
            say(console, text, indent=0, style="bold yellow")
    for workload in comparison.workloads:
        put(console)
        _workload(console, workload, several=len(comparison.workloads) > 1, show_text=show_text, read_files=read_files)
    if comparison.findings:
        put(console)
        _causes(console, comparison.findings, show_text=show_text, read_files=read_files)
    put(console)
    told = sanitize(sentence(comparison), ascii_only=plain)
    say(console, told, indent=0, hang=4, style=_STYLES[comparison.outcome])


def sentence(comparison: Comparison) -> str:
    """The last line: which way hit rates went; of findings alone how many are new."""
    if not comparison.workloads:
        counts = {change: sum(move.change == change for move in comparison.findings) for change in ("new", "gone")}
        return f"{plural(counts['new'], 'new finding')}, {counts['gone']:,} gone"
    told = [
        f"{workload.name if len(comparison.workloads) > 1 else 'hit rate'} {_rates(workload.total)}"
        for workload in comparison.workloads
        if workload.outcome == comparison.outcome
    ]
    text = f"{_VERBS[comparison.outcome]} {', '.join(told)}"
    return text if comparison.comparable else f"{text}; NOT COMPARABLE: another configuration, not only other prompts"


def _rates(total: GroupMove) -> str:
    if total.hit.old == total.hit.new:
        return percent(total.hit.new)
    return f"{percent(total.hit.old)} -> {percent(total.hit.new)} ({points(total.hit.difference)} points)"


def points(difference: float) -> str:
    """A difference of ratios in points, with its sign; only nothing is 0.0."""
    shown = f"{100 * difference:+.1f}"
    if shown in ("+0.0", "-0.0"):
        return "0.0" if not difference else "<+0.1" if difference > 0 else ">-0.1"
    return shown


def config_text(move: ConfigMove) -> str:
    """`block size 16 -> 32`."""
    name = _NAMES.get(move.key, move.key.replace("_", " "))
    return f"{name} {_value(move.old)} -> {_value(move.new)}"


def _value(value: str | int | float | bool | None) -> str:
    if value is None or isinstance(value, bool):
        return "none" if value is None else "on" if value else "off"
    return str(value)


def warnings(workload: WorkloadMove) -> list[str]:
    """What has to be known before any figure is read."""
    found = []
    for effect, what in (("rates", "NOT COMPARABLE"), ("times", "times are not comparable")):
        moves = [config_text(move) for move in workload.config if move.effect == effect]
        if moves:
            found.append(f"{what}: {', '.join(moves)}")
    for partial, which in ((workload.old_partial, "old"), (workload.new_partial, "new")):
        if partial:
            found.append(f"PARTIAL: the {which} run was interrupted; its figures are of a part of the requests")
    return found


def _workload(
    console: Console, workload: WorkloadMove, *, several: bool, show_text: ShowText, read_files: bool
) -> None:
    plain = ascii_only(console)
    if several or workload.name != workload.old_name:
        names = dict.fromkeys((workload.old_name, workload.name))
        say(console, " -> ".join(shown_path(name, plain) for name in names), indent=0, style="bold")
    for text in warnings(workload):
        say(console, sanitize(text, ascii_only=plain), indent=0, style="bold red" if "NOT" in text else "yellow")
    if several and not workload.config and all(_unmoved(group) for group in (workload.total, *workload.groups)):
        hit, requests = percent(workload.total.hit.new), plural(workload.total.new_requests, "request")
        say(console, f"as before: hit rate {hit}, {requests}")
        if any(cause.change != "same" for cause in workload.causes):
            put(console)
            _causes(console, workload.causes, show_text=show_text, read_files=read_files)
        return
    _totals(console, workload)
    put(console)
    _fates(console, workload.total)
    if len(workload.groups) > 1 or any(not group.old_requests or not group.new_requests for group in workload.groups):
        put(console)
        _groups(console, workload.groups, plain)
    if workload.causes:
        put(console)
        _causes(console, workload.causes, show_text=show_text, read_files=read_files)


def _unmoved(group: GroupMove) -> bool:
    """Whether every figure is what it was."""
    times, tokens = group.predicted_ttft, (group.hit, group.reachable, *group.fates.values())
    return (
        group.old_requests == group.new_requests
        and group.old_prompt_tokens == group.new_prompt_tokens
        and all(move.old_tokens == move.new_tokens for move in tokens)
        and all(time.old == time.new for time in (times.p50, times.p90, times.p99))
    )


def _totals(console: Console, workload: WorkloadMove) -> None:
    total = workload.total
    rows = [
        (name, percent(move.old), percent(move.new), f"{points(move.difference)} pts")
        for name, move in (("Hit rate", total.hit), ("Reachable", total.reachable))
    ]
    times = total.predicted_ttft
    for name, time in (("p50", times.p50), ("p90", times.p90), ("p99", times.p99)):
        if time.old is not None or time.new is not None:
            change = _relative(time.old, time.new)
            rows.append((f"TTFT {name} predicted", _milliseconds(time.old), _milliseconds(time.new), change))
    for name, old, new in (
        ("Requests", total.old_requests, total.new_requests),
        ("Prompt tokens", total.old_prompt_tokens, total.new_prompt_tokens),
    ):
        rows.append((name, f"{old:,}", f"{new:,}", f"{new - old:+,}" if new != old else "same"))
    put_table(console, [Column("", "<"), Column("old"), Column("new"), Column("change")], rows)


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:,.1f} ms"


def _relative(old: float | None, new: float | None) -> str:
    if old is None or new is None:
        return ""
    if old == new:
        return "same"
    return f"{100 * (new / old - 1):+.1f}%" if old else ""


def fate_rows(total: GroupMove) -> list[tuple[str, RateMove, str, str]]:
    """Fates that have any tokens, with their old and new shares, which add up; hits first, then what moved most."""
    moves = [(name, move) for name, move in total.fates.items() if move.old_tokens or move.new_tokens]
    moves.sort(key=lambda pair: (pair[0] != "hit", -abs(pair[1].difference), pair[0]))
    old = shares([move.old_tokens for _, move in moves])
    new = shares([move.new_tokens for _, move in moves])
    return [(*pair, before, after) for pair, before, after in zip(moves, old, new, strict=True)]


def _fates(console: Console, total: GroupMove) -> None:
    columns = [
        Column("Where prompt tokens went", "<"),
        Column("old"),
        Column("new"),
        Column("old share"),
        Column("new share"),
        Column("points"),
    ]
    rows = [
        (
            FATES.get(name, sanitize(name, ascii_only=ascii_only(console))),
            f"{move.old_tokens:,}",
            f"{move.new_tokens:,}",
            old,
            new,
            points(move.difference),
        )
        for name, move, old, new in fate_rows(total)
    ]
    _put_pairs(console, columns, rows, [(1, 2)])


def _groups(console: Console, groups: Sequence[GroupMove], plain: bool) -> None:
    """The greatest changes first."""
    room = max(console.width // 4, 12)
    ordered = sorted(groups, key=lambda group: -abs(group.hit.difference))
    columns = [
        Column("Group", "<"),
        Column("reqs"),
        Column("hit old"),
        Column("hit new"),
        Column("points"),
        Column("reach old"),
        Column("reach new"),
        Column("TTFT p50"),
        Column("", "<"),
    ]
    rows = []
    for group in ordered[:_MOST_GROUPS]:
        word = "new" if not group.old_requests else "gone" if not group.new_requests else ""
        requests = [f"{count:,}" for count in dict.fromkeys((group.old_requests, group.new_requests))]
        p50 = group.predicted_ttft.p50
        rows.append(
            (
                shorten_middle(sanitize(group.name, ascii_only=plain), room, ascii_only=plain),
                "->".join(requests),
                percent(group.hit.old) if group.old_requests else "-",
                percent(group.hit.new) if group.new_requests else "-",
                points(group.hit.difference) if not word else "",
                percent(group.reachable.old) if group.old_requests else "-",
                percent(group.reachable.new) if group.new_requests else "-",
                _relative(p50.old, p50.new),
                word,
            )
        )
    told = len(columns) if any(row[-1] for row in rows) else -1
    _put_pairs(console, columns[:told], [row[:told] for row in rows], [(7,), (5, 6), (1,)])
    if len(groups) > _MOST_GROUPS:
        put(console, f"  and {len(groups) - _MOST_GROUPS:,} more groups: --json has them all", "dim")


def _put_pairs(
    console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]], spare: Sequence[tuple[int, ...]]
) -> None:
    """Print a table; where it is too wide without those columns that go together, one set of them after the other."""
    dropped: set[int] = set()
    for places in ((), *spare):
        dropped.update(places)
        kept = [place for place in range(len(columns)) if place not in dropped]
        shown, cells = [columns[place] for place in kept], [[row[place] for place in kept] for row in rows]
        room = room_for_first(shown, cells, console.width)
        if is_plain(console) or room >= max(cell_width(text) for text in (shown[0].title, *(row[0] for row in cells))):
            break
    put_table(console, shown, cells)


def _causes(console: Console, moves: Sequence[CauseMove], *, show_text: ShowText, read_files: bool) -> None:
    """What is new or costs more with its line, then what costs less or is gone; the rest is counted."""
    plain = ascii_only(console)
    moved = [move for move in moves if move.change != "same"]
    ordered = sorted(moved, key=lambda move: move.change not in ("new", "more"))
    put(console, "  Causes" if not is_plain(console) else "Causes", "bold")
    for move in ordered[:_MOST_CAUSES]:
        worse = move.change in ("new", "more")
        style = "bold red" if worse else "green"
        text = cause_text(move, plain)
        if is_plain(console):
            text = text.replace(f"{move.change:<4}  ", f"{move.change}: ", 1)
        for line in fold(f"  {sanitize(text, ascii_only=plain)}", console.width, indent=_HANG):
            put(console, line, style)
        if worse and read_files and move.in_source and move.line and move.width and in_root(move.path):
            put_excerpt(console, _as_finding(move), plain=plain, show_text=show_text)
    if len(ordered) > _MOST_CAUSES:
        say(console, f"and {len(ordered) - _MOST_CAUSES:,} more: --json has them all", style="dim")
    if same := len(moves) - len(moved):
        say(console, f"{same:,} as before", style="dim")


def cause_text(move: CauseMove, plain: bool = False) -> str:
    """Change, place, code, what it is and what it costs, before and now."""
    place = shown_path(move.path, plain)
    if move.line:
        place += f":{move.line}" + (f":{move.column}" if move.column else "")
    subject = f"variable {move.variable}, {move.name}" if move.variable is not None else move.name
    group = f" {move.group}:" if move.group else ""
    text = f"{move.change:<4}  {place}: {move.code}{group} {subject}"
    if move.part and move.variable is None and not move.in_source:
        text += f" in {move.part}"
    cost = _cost(move)
    moved = f" (was line {move.old_line})" if move.change != "gone" and move.old_line not in (0, move.line) else ""
    return f"{text}{moved}{f'; {cost}' if cost else ''}"


def _cost(move: CauseMove) -> str:
    if move.change == "new":
        return f"{move.new_tokens:,} tokens, {percent(move.new_share)}" if move.new_tokens else ""
    if move.change == "gone":
        return f"was {move.old_tokens:,} tokens, {percent(move.old_share)}" if move.old_tokens else ""
    change = f"{percent(move.old_share)} -> {percent(move.new_share)} of the tokens"
    return f"{change} ({points(move.difference)} pts)"


def _as_finding(move: CauseMove) -> Finding:
    """As much of a finding as it takes to show its line."""
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
