"""Choose the requests of a large workload whose causes are searched in another run: the search takes most of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from kvtool.accounting.ledger.totals import GroupTotals

MOST_LOOKED_AT = 2_048
"""Requests of a group, or somewhat more, whose causes are searched when a fix is tried."""
_TOGETHER = 256
"""Requests in a row that are searched: those shortly before a request show what it is like."""


def one_in(groups: Iterable[GroupTotals], *, most: int = MOST_LOOKED_AT) -> dict[str, int]:
    """Return for each group the number of runs of requests, of which one is searched, so that these have `most` requests or
    somewhat more."""
    return {group.name: -(-group.requests // most) for group in groups}


class CauseSample:
    """Choose runs of requests, all over the workload; the same ones in every pass."""

    def __init__(self, every: Mapping[str, int], groups: Collection[str] | None = None) -> None:
        """Create the sample. `every` is that number of runs by group; other groups are searched in full. None but `groups` are
        searched, if given."""
        self._groups = None if groups is None else frozenset(groups)
        self._every = every
        self._requests: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._searched_tokens: Counter[str] = Counter()

    def take(self, group: str, tokens: int) -> bool:
        """Return whether the next request of a group is searched."""
        if self._groups is not None and group not in self._groups:
            return False
        chosen = self._requests[group] // _TOGETHER % max(self._every.get(group, 1), 1) == 0
        self._requests[group] += 1
        self._tokens[group] += tokens
        self._searched_tokens[group] += tokens * chosen
        return chosen

    def weights(self) -> Iterator[tuple[str, float]]:
        """Return the groups that were searched in part, and the number of tokens that one of this part represents."""
        for group, looked_at in self._searched_tokens.items():
            if 0 < looked_at < self._tokens[group]:
                yield group, self._tokens[group] / looked_at
