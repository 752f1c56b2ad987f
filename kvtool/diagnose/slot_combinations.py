"""Which slots stand together in the way of how many tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from kvtool.diagnose.slots import Slot

MOST_CHAINS = 4096
_KEEP = MOST_CHAINS // 2

Chain = tuple[Slot, ...]


class Chains:
    """Tokens by the distinct slots that stand before them, in the order in which they stand there; bounded.

    `tokens` are those that are blocked, `hits` those that a cache would give in whole blocks if the slots were closed.
    """

    def __init__(self) -> None:
        self.tokens: Counter[Chain] = Counter()
        self.hits: Counter[Chain] = Counter()

    def add(self, chain: Chain, tokens: int) -> None:
        """Count tokens behind these slots."""
        self.tokens[chain] += tokens
        if len(self.tokens) > MOST_CHAINS:
            self._merge()

    def promise(self, chain: Chain, hits: int) -> None:
        """Count what closing these slots would add to the hits of a request in which all but the last of them are closed."""
        self.hits[chain] += hits
        if len(self.hits) > MOST_CHAINS:
            self._merge()

    def scale(self, weight: float) -> None:
        """Count every token as so many."""
        for counts in (self.tokens, self.hits):
            for chain in counts:
                counts[chain] = round(counts[chain] * weight)

    def predicted(self, slots: Collection[Slot]) -> int:
        """Hits behind nothing but these slots."""
        closed = frozenset(slots)
        return sum(hits for chain, hits in self.hits.items() if closed.issuperset(chain))

    def behind(self, slot: Slot) -> int:
        """Tokens before which a slot stands, whichever others stand there, too."""
        return sum(tokens for chain, tokens in self.tokens.items() if slot in chain)

    def _merge(self) -> None:
        """Keep the weightiest half; what was behind another chain counts behind the longest kept one that it begins with.

        A chain without such a beginning goes to the slot that it begins with, so no token is lost.
        """
        kept = {chain for chain, _ in self.tokens.most_common(_KEEP)}
        self.tokens = _merged(self.tokens, kept)
        self.hits = _merged(self.hits, kept)


def _merged(counts: Counter[Chain], kept: Collection[Chain]) -> Counter[Chain]:
    merged: Counter[Chain] = Counter()
    for chain, count in counts.items():
        length = next((n for n in range(len(chain), 0, -1) if chain[:n] in kept), 1)
        merged[chain[:length]] += count
    return merged
