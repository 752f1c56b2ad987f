"""A ticket for a provider's support, in Markdown: misses that nothing in the log explains, without any text of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from kvtool.accounting.log_clock import moment_of
from kvtool.accounting.prices.bill import shown_money
from kvtool.report.markdown.render import table_lines
from kvtool.report.views.section import Cell, Table, TableColumn
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.misses import MissEvent
from kvtool.text.terminal.numbers import duration, plural


class TicketMiss(NamedTuple):
    """A miss by exclusion. `time` is UTC in ISO 8601, where the log has a clock."""

    event: MissEvent
    time: str | None
    currency: str

    @property
    def id(self) -> str:
        """What the provider calls the request, where it is known."""
        return self.event.provider_id or self.event.request


def ticket_misses(result: CheckResult) -> list[TicketMiss]:
    """Return the misses of all reports that are left to the provider, in their order."""
    found = []
    for report in result.reports:
        if report.misses is None:
            continue
        currency = "USD" if report.money is None else report.money.currency
        for event in report.misses.events:
            if event.cause == "provider":
                moment = None if event.time is None else moment_of(report.misses.began, event.time)
                found.append(TicketMiss(event, None if moment is None else moment.isoformat(), currency))
    return found


def write(result: CheckResult, options: WriteOptions) -> str:
    """Return the ticket."""
    del options
    misses = ticket_misses(result)
    lines = ["# Cached prompts that were not read", ""]
    if not misses:
        return "\n".join([*lines, "No miss is left to the provider: the log explains each one, or reports none.", ""])
    tokens = f"{sum(each.event.tokens for each in misses):,} prompt tokens"
    lines += [
        f"{plural(len(misses), 'request')} did not read {tokens} that an earlier request had cached{_lost(misses)}.",
        "As far as the log shows, each began with the same text, cache key and settings as the earlier request.",
        "",
    ]
    unproven = sum(each.event.certainty != "excluded" for each in misses)
    if unproven:
        lines += [f"The log does not hold the whole prompt of {plural(unproven, 'request')}.", ""]
    lines += table_lines(_table(misses))
    return "\n".join(
        [
            *lines,
            "",
            "Gap: the time since the earlier request. Prefix: a hash of the shared tokens, by kvtool's tokenizer.",
            "",
        ]
    )


def _lost(misses: Sequence[TicketMiss]) -> str:
    costs = [Decimal(each.event.cost) for each in misses if each.event.cost is not None]
    return f" ({shown_money(sum(costs, Decimal(0)), misses[0].currency)})" if costs else ""


def _table(misses: Sequence[TicketMiss]) -> Table:
    columns = (
        TableColumn("Time (UTC)"),
        TableColumn("Request", "code"),
        TableColumn("Model", "code"),
        TableColumn("Gap", "number"),
        TableColumn("Tokens", "number"),
        TableColumn("Extra cost", "number"),
        TableColumn("Prefix", "code"),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            each.time or "",
            each.id,
            each.event.model or "",
            "" if each.event.gap is None else duration(each.event.gap),
            f"{each.event.tokens:,}",
            "" if each.event.cost is None else shown_money(Decimal(each.event.cost), each.currency),
            each.event.prefix or "",
        )
        for each in misses
    ]
    return Table("Misses", columns, rows)
