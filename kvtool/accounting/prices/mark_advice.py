"""Decide for each prefix of several requests whether a mark pays, and for which time, by the gaps between its own uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from kvtool.accounting.caches.calibration_ratio import Scale
from kvtool.accounting.caches.provider_cache import ScopedTree
from kvtool.accounting.caches.timed_tree import TimedNode
from kvtool.accounting.prices.price_row import MILLION, Rates

WAYS = ("unmarked", "5m", "1h")


@dataclass(frozen=True, slots=True)
class MarkedPrefix:
    """The tokens of one edge of a tree, its requests, and their cost each way; `end` is the length of the whole prefix."""

    tokens: int
    end: int
    requests: int
    costs: tuple[Decimal, Decimal, Decimal]

    @property
    def best(self) -> int:
        """The number of the cheapest way; of equals the first."""
        return min(range(3), key=lambda way: self.costs[way])


def marked_prefixes(scoped: ScopedTree, rates: Rates, scale: Scale) -> Iterable[tuple[TimedNode, MarkedPrefix]]:
    """Return every edge of a tree. One too short to be stored costs the same each way."""
    for node in scoped.tree.nodes():
        own = int((node.ids >= 0).sum())
        tokens = scale.theirs_of(node.start + own) - scale.theirs_of(node.start)
        if tokens <= 0:
            continue
        stored = scale.theirs_of(node.stop) >= scoped.rules.minimum
        costs = _costs(node, tokens, rates, stored=stored)
        yield node, MarkedPrefix(tokens, scale.theirs_of(node.stop), 1 + node.uses, costs)


def _costs(node: TimedNode, tokens: int, rates: Rates, *, stored: bool) -> tuple[Decimal, Decimal, Decimal]:
    uses = 1 + node.uses
    plain = uses * tokens * rates.input / MILLION
    if not stored or not node.uses:
        return (
            plain,
            plain if not stored else tokens * rates.write / MILLION,
            plain if not stored else tokens * rates.write_1h / MILLION,
        )
    five = ((uses - node.within_short) * rates.write + node.within_short * rates.read) * tokens / MILLION
    hour = ((uses - node.within_long) * rates.write_1h + node.within_long * rates.read) * tokens / MILLION
    return plain, five, hour
