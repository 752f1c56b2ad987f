"""Which requests of a large workload are looked at for causes when it is run again: finding them takes most of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from kvtool.accounting.ledger.totals import GroupTotals

MOST_LOOKED_AT = 2_048
"""Requests of a group, or somewhat more, whose causes are looked for when a fix is tried."""
_TOGETHER = 256
"""Requests in a row that are looked at: what a request is like is seen by those shortly before it."""


def one_in(groups: Iterable[GroupTotals], *, most: int = MOST_LOOKED_AT) -> dict[str, int]:
    """For each group, of how many runs of requests one is looked at, so that these have `most` requests or somewhat more."""
    return {group.name: -(-group.requests // most) for group in groups}


class Looks:
    """Chooses runs of requests, all over the workload; the same ones in every pass."""

    def __init__(self, every: Mapping[str, int]) -> None:
        """`every`: of how many runs one is looked at, by group; of groups that are not named, all are."""
        self._every = every
        self._seen: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._looked_at: Counter[str] = Counter()

    def take(self, group: str, tokens: int) -> bool:
        """Whether the next request of a group is looked at."""
        chosen = self._seen[group] // _TOGETHER % max(self._every.get(group, 1), 1) == 0
        self._seen[group] += 1
        self._tokens[group] += tokens
        self._looked_at[group] += tokens * chosen
        return chosen

    def weights(self) -> Iterator[tuple[str, float]]:
        """The groups of which a part was looked at, and the tokens that a token of this part stands for."""
        for group, looked_at in self._looked_at.items():
            if 0 < looked_at < self._tokens[group]:
                yield group, self._tokens[group] / looked_at
