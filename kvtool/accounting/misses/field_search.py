"""Find the field of records that separates unexplained misses from hits best, and better than chance.

Each field is tried by each of its values and by its changes from the request before in the session. Fisher's exact test says how
likely chance separates as well; it is corrected (Bonferroni) for all that was tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, lgamma

from kvtool.results.misses import FieldSeparation

_LEVEL = 0.01
"""The chance, over all fields together, of a field that only seems to separate."""
_MOST_FIELDS = 256
_MOST_VALUES = 32
"""Values of a field with sums of their own; a field with more is tried by its changes alone."""
_MOST_SESSIONS = 2_000
"""Sessions whose latest fields are kept: bounds on memory."""

ABSENT = "(absent)"
"""The value of a field in requests without it."""

Fields = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class MissesAndHits:
    misses: int = 0
    hits: int = 0

    def add(self, *, missed: bool) -> None:
        self.misses += missed
        self.hits += not missed


@dataclass(slots=True)
class _FieldSums:
    """Sums of a field by its values (None: too many of them) and of its changes."""

    values: dict[str, MissesAndHits] | None = field(default_factory=dict)
    changed: MissesAndHits = field(default_factory=MissesAndHits)


class FieldSearch:
    """Take the fields of each request that missed for no known cause, or read all that it could."""

    def __init__(self) -> None:
        self._all = MissesAndHits()
        self._followed = MissesAndHits()
        """Requests with another one before them in their session."""
        self._fields: dict[str, _FieldSums] = {}
        self._before: dict[str, dict[str, str]] = {}

    def add(self, session: str | None, fields: Fields, *, missed: bool | None) -> None:
        """Enter a request; `missed` is None for one that says nothing about unexplained misses."""
        now = dict(fields)
        before = None if session is None else self._before.pop(session, None)
        if session is not None:
            self._before[session] = now
            if len(self._before) > _MOST_SESSIONS:
                del self._before[next(iter(self._before))]
        if missed is None:
            return
        self._all.add(missed=missed)
        for path, value in fields:
            sums = self._sums(path)
            if sums is not None and sums.values is not None:
                sums.values.setdefault(value, MissesAndHits()).add(missed=missed)
                if len(sums.values) > _MOST_VALUES:
                    sums.values = None
        if before is None:
            return
        self._followed.add(missed=missed)
        for path in {**before, **now}:
            if now.get(path) != before.get(path) and (sums := self._sums(path)) is not None:
                sums.changed.add(missed=missed)

    def _values(self, values: Mapping[str, MissesAndHits]) -> dict[str, MissesAndHits]:
        """Return the sums by value, those of the requests without the field included."""
        with_it = values.values()
        misses, hits = (sum(getattr(each, name) for each in with_it) for name in ("misses", "hits"))
        return {**values, ABSENT: MissesAndHits(self._all.misses - misses, self._all.hits - hits)}

    def _sums(self, path: str) -> _FieldSums | None:
        if path not in self._fields and len(self._fields) >= _MOST_FIELDS:
            return None
        return self._fields.setdefault(path, _FieldSums())

    def separation(self, searches: int = 1) -> FieldSeparation | None:
        """Return the field that separates best; None where chance may separate as well in one of so many searches."""
        tried = 0
        best: tuple[float, int, str, str | None, MissesAndHits, MissesAndHits] | None = None
        for path, sums in self._fields.items():
            groups: list[tuple[str | None, MissesAndHits, MissesAndHits]] = [(None, sums.changed, self._followed)]
            if sums.values is not None:
                groups += [(value, each, self._all) for value, each in self._values(sums.values).items()]
            for value, each, total in groups:
                if not 0 < each.misses + each.hits < total.misses + total.hits:
                    continue  # in all requests or in none: it separates nothing
                tried += 1
                found = chance_of(each, total), len(path), path, value, each, total
                if best is None or found[:3] < best[:3]:
                    best = found
        tried *= searches
        if best is None or best[0] * tried > _LEVEL:
            return None
        chance, _, path, value, each, total = best
        return FieldSeparation(
            field=path,
            value=value,
            misses=total.misses,
            misses_with=each.misses,
            hits=total.hits,
            hits_with=each.hits,
            chance=min(chance * tried, 1.0),
            tried=tried,
        )


def chance_of(part: MissesAndHits, total: MissesAndHits) -> float:
    """Return how likely a part of this size, drawn at random, has at least as many misses (Fisher's exact test, one-sided)."""
    drawn, misses, requests = part.misses + part.hits, total.misses, total.misses + total.hits
    most = min(drawn, misses)
    whole = _log_choose(requests, drawn)
    return min(
        sum(
            exp(_log_choose(misses, number) + _log_choose(requests - misses, drawn - number) - whole)
            for number in range(max(part.misses, drawn - (requests - misses)), most + 1)
        ),
        1.0,
    )


def _log_choose(number: int, of: int) -> float:
    return lgamma(number + 1) - lgamma(of + 1) - lgamma(number - of + 1)
