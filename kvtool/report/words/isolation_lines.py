"""What a report says of tenants, in words and figures: what keeping them apart costs, and what they can tell of each other."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.report.words.money_lines import MoneyTable, told_money
from kvtool.results.isolation import Isolation
from kvtool.text.terminal.numbers import duration, plural

MOST_PAIRS = 5


@dataclass(frozen=True, slots=True)
class IsolationView:
    """Sentences, and tables of pairs of tenants and of lines of source; the latter for pages only."""

    title: str
    lines: tuple[str, ...]
    pairs: MoneyTable | None
    sources: MoneyTable | None


def isolation_view(told: Isolation) -> IsolationView:
    """The price of isolation, and who sees most of whom."""
    cost = f", {told_money(told.cost, 'USD')} more" if told.cost is not None else ""
    apart = f"{told.lost_tokens:,} less{cost}" if told.lost_tokens else "as many"
    times = ""
    if told.predicted_ttft is not None and told.isolated_ttft is not None:
        times = f"; predicted TTFT p50 {duration(told.predicted_ttft)}, then {duration(told.isolated_ttft)}"
    each = f"with a salt or key each {told.isolated_hit_tokens:,}: {apart}{times}"
    pairs = tuple((pair.owner, pair.reader, f"{pair.tokens:,}") for pair in told.pairs[:MOST_PAIRS])
    sources = tuple((f"{line.path}:{line.line}", f"{line.tokens:,}") for line in told.lines[:MOST_PAIRS])
    return IsolationView(
        f"{plural(told.tenants, 'tenant')} in one cache, and kept apart",
        (
            f"{told.shared_hit_tokens:,} tokens hit; {each}",
            f"with the salt only behind what all of them send {told.behind_public_hit_tokens:,}",
        ),
        MoneyTable("Who hits what another sent", ("Sent first by", "hit by", "tokens"), pairs) if pairs else None,
        MoneyTable("Where it stands", ("Line", "tokens"), sources) if sources else None,
    )
