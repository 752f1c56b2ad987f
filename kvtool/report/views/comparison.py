"""Changes between two results: rates and times, where the tokens went, groups and causes."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.accounting.ledger.fates import FATES
from kvtool.report.views.section import Table, TableColumn
from kvtool.results.comparison import CauseMove, Comparison, ConfigMove, GroupMove, Outcome, TimeMove, WorkloadMove
from kvtool.text.terminal.numbers import percent, plural, shares

_VERBS: dict[Outcome, str] = {"fell": "fell", "rose": "rose", "same": "is unchanged"}
_NAMES = {
    "capacity_blocks": "capacity (blocks)",
    "ttl_seconds": "time to live (seconds)",
    "provider_as_of": "provider's rules as of",
}


def sentence(comparison: Comparison) -> str:
    """Return which way hit rates went; of findings alone how many are new."""
    if not comparison.workloads:
        counts = {change: sum(move.change == change for move in comparison.findings) for change in ("new", "gone")}
        return f"{plural(counts['new'], 'new finding')}, {counts['gone']:,} resolved"
    several = len(comparison.workloads) > 1
    rates = [
        f"{f'{workload.name} ' if several else ''}{_rates(workload.total)}"
        for workload in comparison.workloads
        if workload.outcome == comparison.outcome
    ]
    text = f"Hit rate {_VERBS[comparison.outcome]}: {', '.join(rates)}"
    return text if comparison.comparable else f"{text}. NOT COMPARABLE: the configuration differs, too"


def _rates(total: GroupMove) -> str:
    if total.hit.old == total.hit.new:
        return percent(total.hit.new)
    return f"{percent(total.hit.old)} -> {percent(total.hit.new)} ({points(total.hit.difference)} points)"


def only_in_one(comparison: Comparison) -> list[str]:
    """Return a sentence for each workload that only one result has."""
    return [
        f"Only in the {which} result, not compared: {name}"
        for which, names in (("old", comparison.only_old), ("new", comparison.only_new))
        for name in names
    ]


def points(difference: float) -> str:
    """Return a difference of ratios in points, with its sign; only zero is 0.0."""
    shown = f"{100 * difference:+.1f}"
    if shown in ("+0.0", "-0.0"):
        return "0.0" if not difference else "<+0.1" if difference > 0 else ">-0.1"
    return shown


def warnings(workload: WorkloadMove) -> list[str]:
    """Return what must be known before any figure is read."""
    found = []
    for effect, label in (("rates", "NOT COMPARABLE"), ("times", "Times are not comparable")):
        moves = [_config(move) for move in workload.config if move.effect == effect]
        if moves:
            found.append(f"{label}: {', '.join(moves)}")
    for partial, which in ((workload.old_partial, "old"), (workload.new_partial, "new")):
        if partial:
            found.append(f"PARTIAL: the {which} run was interrupted and covers only some requests")
    return found


def _config(move: ConfigMove) -> str:
    """Return a change: `block size 16 -> 32`."""
    name = _NAMES.get(move.key, move.key.replace("_", " "))
    return f"{name} {_value(move.old)} -> {_value(move.new)}"


def _value(value: str | int | float | bool | None) -> str:
    if value is None or isinstance(value, bool):
        return "none" if value is None else "on" if value else "off"
    return str(value)


def totals_table(total: GroupMove) -> Table:
    """Return rates, times to the first token, and counts."""
    rows = [
        (name, percent(move.old), percent(move.new), f"{points(move.difference)} pts")
        for name, move in (("Hit rate", total.hit), ("Maximum as written", total.reachable))
    ]
    times = total.predicted_ttft
    for name, time in (("p50", times.p50), ("p90", times.p90), ("p99", times.p99)):
        if time.old is not None or time.new is not None:
            rows.append((f"TTFT {name}, predicted", _milliseconds(time.old), _milliseconds(time.new), _relative(time)))
    for name, old, new in (
        ("Requests", total.old_requests, total.new_requests),
        ("Prompt tokens", total.old_prompt_tokens, total.new_prompt_tokens),
    ):
        rows.append((name, f"{old:,}", f"{new:,}", f"{new - old:+,}" if new != old else "same"))
    return Table("Totals", (TableColumn(""), *_numbers("Old", "New", "Change")), rows)


def _numbers(*heads: str) -> list[TableColumn]:
    return [TableColumn(head, "number") for head in heads]


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:,.1f} ms"


def _relative(time: TimeMove) -> str:
    old, new = time.old, time.new
    if old is None or new is None:
        return ""
    if old == new:
        return "same"
    return f"{100 * (new / old - 1):+.1f}%" if old else ""


def fates_table(total: GroupMove) -> Table:
    """Return fates that have any tokens, with shares that add up; hits first, then the greatest changes."""
    moves = [(name, move) for name, move in total.fates.items() if move.old_tokens or move.new_tokens]
    moves.sort(key=lambda pair: (pair[0] != "hit", -abs(pair[1].difference), pair[0]))
    old, new = ([move.old_tokens for _, move in moves], [move.new_tokens for _, move in moves])
    rows = [
        (FATES.get(name, name), f"{move.old_tokens:,}", f"{move.new_tokens:,}", *of_both, points(move.difference))
        for (name, move), *of_both in zip(moves, shares(old), shares(new), strict=True)
    ]
    columns = (
        TableColumn("Token breakdown"),
        *(TableColumn(head, "number", keep=0, only="terminal") for head in ("Old", "New")),
        *_numbers("Old share", "New share", "Points"),
    )
    return Table("Token breakdown", columns, rows)


def groups_table(groups: Sequence[GroupMove], most: int) -> Table:
    """Return groups, the greatest changes first."""
    ordered = sorted(groups, key=lambda group: -abs(group.hit.difference))
    rows = [_group(group) for group in ordered[:most]]
    columns = [
        TableColumn("Group", "code", cut=True),
        TableColumn("Requests", "number", keep=2, only="terminal"),
        *_numbers("Hit rate old", "Hit rate new", "Points"),
        *(TableColumn(head, "number", keep=1, only="terminal") for head in ("Maximum old", "Maximum new")),
        TableColumn("TTFT p50", "number", keep=0, only="terminal"),
    ]
    if any(row[-1] for row in rows):
        columns.append(TableColumn(""))
    else:
        rows = [row[:-1] for row in rows]
    return Table("Groups", tuple(columns), rows, more=max(len(groups) - most, 0))


def _group(group: GroupMove) -> tuple[str, ...]:
    word = "new" if not group.old_requests else "gone" if not group.new_requests else ""
    return (
        group.name,
        "->".join(f"{count:,}" for count in dict.fromkeys((group.old_requests, group.new_requests))),
        percent(group.hit.old) if group.old_requests else "-",
        percent(group.hit.new) if group.new_requests else "-",
        points(group.hit.difference) if not word else "",
        percent(group.reachable.old) if group.old_requests else "-",
        percent(group.reachable.new) if group.new_requests else "-",
        _relative(group.predicted_ttft.p50),
        word,
    )


def moved_causes(moves: Sequence[CauseMove], most: int) -> tuple[list[CauseMove], list[str]]:
    """Return at most so many causes that moved, those that cost more first, and how many others there are."""
    moved = sorted((move for move in moves if move.change != "same"), key=lambda move: not is_worse(move))
    rest = [f"{len(moved) - most:,} more in the JSON"] if len(moved) > most else []
    if same := len(moves) - len(moved):
        rest.append(f"{same:,} unchanged")
    return moved[:most], rest


def is_worse(move: CauseMove) -> bool:
    """Return whether a cause is new or costs more."""
    return move.change in ("new", "more")


def cause_text(move: CauseMove) -> str:
    """Return place, code, cause, and its cost before and now."""
    place = move.path
    if move.line:
        place += f":{move.line}" + (f":{move.column}" if move.column else "")
    subject = f"variable {move.variable}, {move.name}" if move.variable is not None else move.name
    group = f" {move.group}:" if move.group else ""
    text = f"{place}: {move.code}{group} {subject}"
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
    change = f"{percent(move.old_share)} -> {percent(move.new_share)} of all tokens"
    return f"{change} ({points(move.difference)} pts)"
