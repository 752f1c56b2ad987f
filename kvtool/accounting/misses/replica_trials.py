"""Rerun the requests of a user's own server under hypotheses that a log does not state: several replicas, answers not cached.

A hypothesis counts if it gives the reported read of nearly every request, hits included, not only of the misses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from kvtool.accounting.misses.prompt_states import CHUNK
from kvtool.results.misses import Hypothesis

_MOST_REPLICAS = 8
_MOST_NAMES = 200_000
"""Names of pieces of prompts that are kept: a bound on memory and time; a longer log is not rerun."""
_AGREE = 0.9
"""Least share of the requests, and of the misses, whose read a hypothesis gives."""
_FEWEST = 3
"""Least misses that are worth a hypothesis: fewer agree by chance."""

Routing = Literal["round-robin", "any"]


@dataclass(frozen=True, slots=True)
class KeptRead:
    """A request with its reported read. `names` are those of the beginnings of its prompt, `answer` those that its answer adds.

    Tokens are ours: the read, and the difference that is still rounding. `numbers` are those of its misses without a cause.
    """

    session: str | None
    names: tuple[int, ...]
    answer: tuple[int, ...]
    read: float
    least: float
    numbers: tuple[int, ...]
    unkept: bool
    """Whether it read up to the end of an earlier prompt, before the answer."""


@dataclass(slots=True)
class _Outcome:
    """For each request whether its read is that of the hypothesis, and whether it is one that only an old replica gives."""

    agrees: list[bool]
    stale: list[bool]


class ReplicaTrials:
    """Keep requests in their order, and test hypotheses on all of them."""

    def __init__(self) -> None:
        self._kept: list[KeptRead] = []
        self._names = 0

    @property
    def has_given_up(self) -> bool:
        """Whether the log is too long to be rerun: then nothing is kept."""
        return self._names > _MOST_NAMES

    def add(self, kept: KeptRead) -> None:
        """Enter the next request."""
        self._names += 1 + len(kept.names) + len(kept.answer)
        if self.has_given_up:
            self._kept.clear()
        else:
            self._kept.append(kept)

    def found(self) -> tuple[Hypothesis, frozenset[int]] | None:
        """Return the first hypothesis that agrees with the reports, and the numbers of the misses that it explains."""
        misses = [bool(kept.numbers) for kept in self._kept]
        unkept = sum(kept.unkept for kept in self._kept)
        if self.has_given_up or max(sum(misses), unkept) < _FEWEST:
            return None
        if unkept >= _FEWEST:
            outcome = self._run(1, "round-robin", answers=False)
            if (found := self._judged(outcome, [kept.unkept for kept in self._kept])) is not None:
                return Hypothesis(cause="answer_not_kept", replicas=1, routing=None, **found), frozenset()
        if sum(misses) < _FEWEST:
            return None
        for routing in ("round-robin", "any"):
            for replicas in range(2, _MOST_REPLICAS + 1):
                outcome = self._run(replicas, routing, answers=True)
                found = self._judged(outcome, misses)
                if found is None or (routing == "any" and 2 * self._stale(outcome, misses) < sum(misses)):
                    continue
                told = "round-robin" if routing == "round-robin" else None
                hypothesis = Hypothesis(cause="replicas", replicas=replicas, routing=told, **found)
                return hypothesis, frozenset(self._explained(outcome))
        return None

    @staticmethod
    def _stale(outcome: _Outcome, misses: Sequence[bool]) -> int:
        return sum(stale and missed for stale, missed in zip(outcome.stale, misses, strict=True))

    def _explained(self, outcome: _Outcome) -> Iterator[int]:
        for kept, agrees in zip(self._kept, outcome.agrees, strict=True):
            if agrees:
                yield from kept.numbers

    @staticmethod
    def _judged(outcome: _Outcome, misses: Sequence[bool]) -> dict[str, int] | None:
        agree, count = sum(outcome.agrees), len(outcome.agrees)
        explained = sum(agrees and missed for agrees, missed in zip(outcome.agrees, misses, strict=True))
        if agree < _AGREE * count or explained < _AGREE * sum(misses):
            return None
        return {"explained": explained, "misses": sum(misses), "agree": agree, "requests": count}

    def _run(self, replicas: int, routing: Routing, *, answers: bool) -> _Outcome:
        """Return what each request reads from the replica that it is sent to: in turn, or whichever gives the reported read.

        A free choice explains any read of nothing by a replica that is still empty. Only a read of an old state of the session,
        of more than other sessions have, is evidence then: it is `stale`.
        """
        caches: list[dict[int, str | None]] = [{} for _ in range(replicas)]
        outcome = _Outcome([], [])
        for number, kept in enumerate(self._kept):
            if routing == "round-robin":
                at = number % replicas
                length = _longest(kept.names, caches[at])
            else:
                lengths = [_longest(kept.names, cache) for cache in caches]
                at = min(range(replicas), key=lambda each: abs(lengths[each] * CHUNK - kept.read))
                length = lengths[at]
            outcome.agrees.append(abs(length * CHUNK - kept.read) <= kept.least)
            owner = caches[at][kept.names[length - 1]] if length else None
            latest = max((_longest(kept.names, cache) for cache in caches), default=0) if routing == "any" else length
            outcome.stale.append(owner is not None and owner == kept.session and length < latest)
            cache = caches[at]
            for name in (*kept.names, *(kept.answer if answers else ())):
                cache[name] = kept.session if cache.get(name, kept.session) == kept.session else None
        return outcome


def _longest(names: Sequence[int], cache: dict[int, str | None]) -> int:
    """Return how many pieces of the longest beginning are in a cache."""
    low, high = 0, len(names)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if names[middle - 1] in cache else (low, middle - 1)
    return low
