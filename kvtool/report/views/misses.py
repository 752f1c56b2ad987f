"""What usage reports of every prompt token: read, missed by cause, or new; and the largest misses."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from decimal import Decimal

from kvtool.accounting.log_clock import moment_of
from kvtool.accounting.misses.advised_change import first_change, keeps_no_answers
from kvtool.accounting.prices.bill import shown_money
from kvtool.report.views.facts import log_name, request_name
from kvtool.report.views.section import Cell, Figure, Section, Table, TableColumn
from kvtool.report.views.time_to_live import compaction_sentence, ttl_sentence
from kvtool.results.misses import (
    MISS_CAUSES,
    CacheMisses,
    FieldSeparation,
    MissCause,
    MissEvent,
    MissRow,
    MissRows,
    ReportAgreement,
    hypothesis_in_words,
    local_times_in_words,
    sum_rows,
)
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import duration, percent, plural
from kvtool.workload.logs.records.incomplete_prompts import NO_PROMPT, SUMMED

_MOST_CASES = 10
_AT_RECORD = re.compile(r"^.+?:\d+, ")
"""The record before a place in it."""
UNKNOWN = "unknown"
MOST_ROWS = 20
"""They fit on a screen."""


def view(report: Report) -> Section | None:
    """Return every reported prompt token in one row, and the largest misses; None where nothing was missed."""
    misses = report.misses
    if misses is None:
        return None
    rows = misses.rows
    by_event = rows is not None and rows.by == "event"
    is_plain = misses.predictable and not (misses.unreported or misses.rule_contradictions)
    if rows is None and not misses.by_cause and is_plain:
        return None
    currency = "USD" if report.money is None else report.money.currency
    priced = any(total.cost is not None for total in misses.by_cause.values())
    unruled = misses.requests > report.totals.requests
    tables = [_breakdown(misses, currency, priced=priced, unruled=unruled)]
    if by_event:
        tables += [_events(misses, currency, log_name(report), priced=priced)] if misses.events else []
    elif rows is not None:
        tables.append(miss_rows(rows, currency))
    if misses.by_cause and not by_event:
        tables.append(_largest(misses, currency, log_name(report), priced=priced))
    notes = [f"{text}." for text in misses.rule_contradictions]
    notes += (
        [agreement_in_words(misses.calibration, advises_change=_advises_change(report, misses))]
        if misses.predictable and misses.calibration.requests
        else []
    )
    if misses.unreported:
        notes.append(f"Cache reads are unknown for {plural(misses.unreported, 'request')}: no figure includes them.")
    notes += local_times_in_words(misses.local_times, misses.zoned_times)
    if (found := misses.hypothesis) is not None:
        notes.append(
            f"A rerun {hypothesis_in_words(found)} explains {found.explained:,} of {found.misses:,} misses: "
            f"it gives the reported read of {found.agree:,} of {plural(found.requests, 'request')}."
        )
    if (told := misses.diagnosis) is not None:
        notes.append(
            f"The provider reports a cause for {plural(told.misses, 'request')}; "
            f"kvtool's own evidence gives the same cause for {f'{told.agree:,}' if told.agree else 'none'}."
        )
    notes += [] if misses.separation is None else [f"{separation_in_words(misses.separation)}. This is no proof."]
    sentences = (ttl_sentence(misses.ttl, currency), compaction_sentence(misses.compactions, currency))
    notes += [text for text in sentences if text]
    return Section("misses", "Reported token breakdown", tables=tables, notes=tuple(notes))


def _breakdown(misses: CacheMisses, currency: str, *, priced: bool, unruled: bool) -> Table:
    """Return a table in which each prompt token is in one row: read, missed for a cause, or sent for the first time.

    `unruled`: for some requests no cache rules are known, so nobody knows what of them was cached.
    """
    whole = max(misses.prompt_tokens, 1)

    def row(name: str, tokens: int, events: int | None = None, cost: str | None = None) -> tuple[Cell, ...]:
        money = (_money(cost, currency),) if priced else ()
        return name, f"{tokens:,}", percent(tokens / whole), "" if events is None else f"{events:,}", *money

    rows = [row("read from the cache", misses.read)]
    rows += [row(MISS_CAUSES[cause], each.tokens, each.events, each.cost) for cause, each in misses.by_cause.items()]
    without = bool(misses.unknown_fields) and {NO_PROMPT, SUMMED}.issuperset(misses.unknown_fields)
    first = "first use, or no cache rules known" if unruled else "first use"
    name = "not read from the cache" if without and not misses.predictable else first
    unknown = ", or unknown" if misses.unjudged else ""
    rows.append(row(f"{name}{unknown}", max(misses.prompt_tokens - misses.promised, 0)))
    columns = (
        TableColumn("Reported token breakdown"),
        TableColumn("tokens", "number"),
        TableColumn("share", "number"),
        TableColumn("requests", "number", keep=0),
        *((TableColumn("extra cost", "number"),) if priced else ()),
    )
    return Table("Reported token breakdown", columns, rows)


def miss_rows(rows: MissRows, currency: str, most: int = MOST_ROWS) -> Table:
    """Return a row for each session, project, model or day, the costliest first; of those after `most` the sum."""
    shown, rest = list(rows.rows[:most]), rows.rows[most:]
    if rest:
        shown.append(sum_rows(f"{len(rest):,} more", rest))
    priced = any(row.paid is not None for row in rows.rows)
    columns = (
        TableColumn(rows.by.title(), "code", cut=True),
        TableColumn("requests", "number"),
        TableColumn("hit rate", "number"),
        TableColumn("computed again", "number"),
        TableColumn("paid", "number", keep=1),
        TableColumn("lost", "number"),
        TableColumn("costliest cause", keep=2),
    )
    table = Table(f"Misses by {rows.by}", columns, [_row(row, currency) for row in shown], sorts=f"{rows.by}s")
    return table if priced else _without(table, ("paid", "lost"))


def _without(table: Table, heads: tuple[str, ...]) -> Table:
    kept = [place for place, column in enumerate(table.columns) if column.head not in heads]
    columns = tuple(table.columns[place] for place in kept)
    return replace(table, columns=columns, rows=[tuple(row[place] for place in kept) for row in table.rows])


def _row(row: MissRow, currency: str) -> tuple[Cell, ...]:
    cause = next(iter(row.by_cause), None)
    return (
        row.key,
        f"{row.requests + row.unreported:,}",
        UNKNOWN if row.hit_rate is None else percent(row.hit_rate),
        UNKNOWN if row.missed is None else Figure(f"{row.missed:,}", row.missed),
        _money(row.paid, currency) or UNKNOWN,
        lost_money(row, currency),
        "" if cause is None else MISS_CAUSES[cause],
    )


def lost_money(row: MissRow, currency: str = "USD") -> str:
    """Return what the misses of a row cost: unknown where a price or the misses are, and nothing without a miss."""
    return _money(row.cost, currency) or ("" if row.missed == 0 else UNKNOWN)


def _events(misses: CacheMisses, currency: str, log: str, *, priced: bool) -> Table:
    """Return every miss in the order of the log, a line each."""
    rows: list[tuple[Cell, ...]] = [
        (
            request_name(event.request, log),
            _moment(event, misses.began),
            "" if event.gap is None else Figure(duration(event.gap), event.gap),
            Figure(f"{event.tokens:,}", event.tokens),
            *((_money(event.cost, currency),) if priced else ()),
            MISS_CAUSES[event.cause],
            event.certainty,
            event.detail,
        )
        for event in misses.events
    ]
    columns = (
        TableColumn("Request", cut=True),
        TableColumn("time", "word", keep=3),
        TableColumn("after", "number", keep=2),
        TableColumn("tokens", "number"),
        *((TableColumn("extra cost", "number", keep=4),) if priced else ()),
        TableColumn("cause"),
        TableColumn("certainty", keep=1),
        TableColumn("evidence", keep=0),
    )
    return Table("Misses by event", columns, rows, sorts="misses")


def _moment(event: MissEvent, began: float | None) -> str:
    if event.time is None:
        return ""
    moment = moment_of(began, event.time)
    return duration(event.time) if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def _largest(misses: CacheMisses, currency: str, log: str, *, priced: bool) -> Table:
    """Return a row for each cause with its evidence and place in the request, however many requests it cost tokens; at one place
    that of the first request."""
    alike: dict[tuple[str, str], list[MissEvent]] = {}
    for event in misses.events:
        alike.setdefault((event.cause, _AT_RECORD.sub("", event.place or "") or event.detail), []).append(event)
    shown = sorted(alike.values(), key=lambda each: -_tokens(each))[:_MOST_CASES]
    several = any(len(events) > 1 for events in shown)
    rows: list[tuple[Cell, ...]] = []
    for events in shown:
        first, costs = events[0], [Decimal(event.cost) for event in events if event.cost is not None]
        gap = first.gap if len(events) == 1 else None
        rows.append(
            (
                request_name(first.request, log),
                *((f"{len(events):,}",) if several else ()),
                "" if gap is None else duration(gap),
                Figure(f"{_tokens(events):,}", _tokens(events)),
                *((shown_money(sum(costs, Decimal(0)), currency) if costs else "",) if priced else ()),
                ", ".join(dict.fromkeys(event.certainty for event in events)),
                _cause_at(first, log),
            )
        )
    columns = (
        TableColumn("Largest misses (first)" if several else "Largest misses", cut=True),
        *((TableColumn("requests", "number", keep=3),) if several else ()),
        TableColumn("after", "number", keep=1),
        TableColumn("tokens", "number"),
        *((TableColumn("extra cost", "number", keep=2),) if priced else ()),
        TableColumn("certainty", keep=0),
        TableColumn("cause", "prose"),
    )
    more = len(misses.events) - sum(len(events) for events in shown)
    table = Table("Largest misses", columns, rows, more=more)
    return (
        table
        if any(len(events) == 1 and events[0].gap is not None for events in shown)
        else _without(table, ("after",))
    )


def _tokens(events: Sequence[MissEvent]) -> int:
    return sum(event.tokens for event in events)


def _cause_at(event: MissEvent, log: str) -> str:
    """Return a cause with its place in the request and its evidence; that alone where it has all words of the cause."""
    cause, detail, place = MISS_CAUSES[event.cause], event.detail, _place(event, log)
    said, _, more = detail.removeprefix("changed: ").partition(": ")
    if set(cause.split()) <= set(said.split()):
        told = detail if said != f"the {cause}" else ", ".join(filter(None, (cause, more)))
    else:
        told = f"{cause}{',' if place else ':'} {detail.removeprefix('changed: ')}"
    return f"{place}: {told}" if place else told


def _place(event: MissEvent, log: str) -> str:
    """Return the place of a miss in its request."""
    return (event.place or "").removeprefix(f"{request_name(event.request, log)}, ")


def _money(amount: str | None, currency: str) -> str:
    return "" if amount is None else shown_money(Decimal(amount), currency)


_MOST_GROUPS = 3


def _advises_change(report: Report, misses: CacheMisses) -> bool:
    """Return whether the causes explain the difference: the answer says what to change, or that no request can."""
    if any(each.rerun is not None for each in report.findings):
        return False
    return keeps_no_answers(misses) or bool(first_change(misses, hosted=report.hosted))


def agreement_in_words(found: ReportAgreement, *, advises_change: bool = False) -> str:
    """Say how well prediction and report agree, and what follows; `advises_change`: the answer names a cause to mend."""
    share = percent(found.agree / found.requests)
    said = f"Prediction and report agree within a block for {share} of {plural(found.requests, 'request')}."
    if found.advises:
        return said
    groups = ", ".join(found.differing[:_MOST_GROUPS]) + ("…" if len(found.differing) > _MOST_GROUPS else "")
    of = f" of group{'s' * (len(found.differing) > 1)} {groups}" if groups else ""
    if advises_change:
        return f"{said} No edit{of} is verified: the reports differ from the rules."
    return f"{said} kvtool advises no change{of} from predictions. First find out why reports and rules differ."


def separation_in_words(found: FieldSeparation) -> str:
    """Say how a field separates misses without a known cause from hits."""
    if found.value is None:
        follow, does = f"follow a change of `{found.field}`", "does" if found.hits_with == 1 else "do"
    else:
        follow, does = f"have `{found.field}` {found.value}", "has" if found.hits_with == 1 else "have"
    of = f"{found.misses_with:,} of {found.misses:,} unexplained misses {follow}"
    return f"{of}; {found.hits_with:,} of {plural(found.hits, 'hit')} {does}"


def causes_in_short(report: Report, mended: Collection[MissCause] = (), most: int = 3) -> str:
    """Name the costliest causes, in one line, and one of the `mended`; where there are several, with what they are sorted by: their
    costs, else tokens."""
    misses = report.misses
    assert misses is not None
    if len(misses.by_cause) == 1:
        return MISS_CAUSES[next(iter(misses.by_cause))]
    currency = "USD" if report.money is None else report.money.currency
    shown = list(misses.by_cause)[:most]
    named_next = next((cause for cause in misses.by_cause if cause in mended), None)
    if named_next is not None and named_next not in shown:
        shown[-1] = named_next
    named = [
        f"{MISS_CAUSES[cause]} ({f'{total.tokens:,}' if total.cost is None else shown_money(Decimal(total.cost), currency)})"
        for cause, total in ((cause, misses.by_cause[cause]) for cause in shown)
    ]
    left = len(misses.by_cause) - len(shown)
    return ", ".join(named) + (f", {plural(left, 'more cause')}" if left > 0 else "")
