"""Misses that reported usage shows: sums by cause, and the largest ones."""

from __future__ import annotations

from decimal import Decimal

from kvtool.accounting.prices.bill import shown_money
from kvtool.report.views.section import Figure, Section, Table, TableColumn
from kvtool.results.misses import MISS_CAUSES, MissEvent
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import duration, plural

_MOST_EVENTS = 10


def view(report: Report) -> Section | None:
    """Return a table of the causes and one of the largest misses; None where nothing was missed."""
    misses = report.misses
    if misses is None or not (misses.by_cause or misses.rule_contradictions):
        return None
    currency = "USD" if report.money is None else report.money.currency
    priced = any(total.cost is not None for total in misses.by_cause.values())
    cost = (TableColumn("cost", "number"),) if priced else ()
    causes = Table(
        "Cached and not read",
        (TableColumn("Cached and not read"), TableColumn("requests", "number"), TableColumn("tokens", "number"), *cost),
        [
            (
                MISS_CAUSES[cause],
                f"{total.events:,}",
                f"{total.tokens:,}",
                *((_money(total.cost, currency),) if priced else ()),
            )
            for cause, total in misses.by_cause.items()
        ],
    )
    largest = sorted(misses.events, key=lambda event: -event.tokens)[:_MOST_EVENTS]
    shown = sorted(largest, key=misses.events.index)
    events = Table(
        "Largest misses",
        (
            TableColumn("Request", cut=True),
            TableColumn("after", "number", keep=2),
            TableColumn("tokens", "number"),
            *cost,
            TableColumn("cause", "prose"),
        ),
        [
            (
                event.request,
                "" if event.gap is None else duration(event.gap),
                Figure(f"{event.tokens:,}", event.tokens),
                *((_money(event.cost, currency),) if priced else ()),
                _cause(event),
            )
            for event in shown
        ],
        more=len(misses.events) + misses.left_out - len(shown),
    )
    notes = [f"{text}." for text in misses.rule_contradictions]
    if misses.unknown_fields:
        notes.append(f"Not in this log: {'; '.join(misses.unknown_fields)}.")
    return Section(
        "misses", "Cached and not read", tables=(causes, events) if misses.by_cause else (), notes=tuple(notes)
    )


def _cause(event: MissEvent) -> str:
    return f"{MISS_CAUSES[event.cause]} ({event.certainty}): {event.detail}"


def _money(amount: str | None, currency: str) -> str:
    return "" if amount is None else shown_money(Decimal(amount), currency)


def causes_in_short(report: Report, most: int = 3) -> str:
    """Name the costliest causes with their tokens, in one line."""
    misses = report.misses
    assert misses is not None
    named = [f"{MISS_CAUSES[cause]} {total.tokens:,}" for cause, total in list(misses.by_cause.items())[:most]]
    left = len(misses.by_cause) - most
    return "; ".join(named) + (f"; {plural(left, 'more cause')}" if left > 0 else "")
