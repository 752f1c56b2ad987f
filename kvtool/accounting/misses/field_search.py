"""Find the field of records that separates unexplained misses from hits best, and better than chance.

Each field is tried by each of its values and by its changes from the request before in the session. Fisher's exact test says how
likely chance separates as well; it is corrected (Bonferroni) for all that was tried. Requests of one session are not independent:
values are drawn inside of each session, and from session to session each is one observation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, lgamma

import numpy as np

from kvtool.results.misses import FieldSeparation

_LEVEL = 0.01
"""The chance, over all fields together, of a field that only seems to separate."""
_MOST_FIELDS = 256
_MOST_VALUES = 32
"""Values of a field with sums of their own; a field with more is tried by its changes alone."""
_MOST_SESSIONS = 2_000
"""Sessions whose latest fields are kept: bounds on memory."""
_MOST_ENDED = 5_000
"""Sessions that are compared."""

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
    """Sums of a field by its values (None: too many of them) and of its changes; and the sessions with each (None: a change)."""

    values: dict[str, MissesAndHits] | None = field(default_factory=dict)
    changed: MissesAndHits = field(default_factory=MissesAndHits)
    alone: dict[str, MissesAndHits] = field(default_factory=dict)
    """By value, the requests without a session."""
    sessions: dict[str | None, _SessionsWith] = field(default_factory=dict)


@dataclass(slots=True)
class _SessionsWith:
    """Sessions with a value: all of whose requests have it, and others with what is exchangeable in them."""

    always: list[int] = field(default_factory=list)
    sometimes: list[int] = field(default_factory=list)
    parts: list[tuple[MissesAndHits, MissesAndHits]] = field(default_factory=list)
    """Of sessions with misses and hits: the units with the value, and all units."""


@dataclass(slots=True)
class _Session:
    """A session: its latest fields, its requests, and by field and value (None: a change) the units that were counted.

    Requests in a row with one value are one unit: what lasts says no more than once that both came together.
    """

    fields: dict[str, str]
    requests: MissesAndHits = field(default_factory=MissesAndHits)
    followed: MissesAndHits = field(default_factory=MissesAndHits)
    runs: dict[str, tuple[str, bool]] = field(default_factory=dict)
    units: dict[str, dict[str | None, MissesAndHits]] = field(default_factory=dict)

    def add(self, now: dict[str, str], *, missed: bool) -> None:
        """Count a request of the session, by the values of these fields."""
        for path in {**self.runs, **now}:
            value = now.get(path, ABSENT)
            known = self.runs.get(path)
            if known is None and self.requests.misses + self.requests.hits:
                known = ABSENT, self.requests.misses > 0
            if known is not None and known[0] != value:
                self.end(path, known)
                known = None
            self.runs[path] = value, missed or (known is not None and known[1])
        self.requests.add(missed=missed)

    def end(self, path: str, run: tuple[str, bool]) -> None:
        """Count a run of one value as a unit."""
        units = self.units.setdefault(path, {})
        if len(units) <= _MOST_VALUES:
            units.setdefault(run[0], MissesAndHits()).add(missed=run[1])


class FieldSearch:
    """Take the fields of each request that missed for no known cause, or read all that it could."""

    def __init__(self) -> None:
        self._all = MissesAndHits()
        self._followed = MissesAndHits()
        """Requests with another one before them in their session."""
        self._alone = MissesAndHits()
        """Requests without a session: each is one of its own."""
        self._fields: dict[str, _FieldSums] = {}
        self._open: dict[str, _Session] = {}
        self._ended: list[MissesAndHits] = []
        """The requests of each session that ended."""

    def add(self, session: str | None, fields: Fields, *, missed: bool | None) -> None:
        """Enter a request; `missed` is None for one that says nothing about unexplained misses."""
        now = dict(fields)
        known = None if session is None else self._open.pop(session, None)
        before, known = (None, _Session(now)) if known is None else (known.fields, known)
        if missed is not None:
            self._count(session, now, before, known, missed=missed)
        if session is not None:
            known.fields = now
            self._open[session] = known
            if len(self._open) > _MOST_SESSIONS:
                self._end(self._open.pop(next(iter(self._open))))

    def _count(
        self, session: str | None, now: dict[str, str], before: dict[str, str] | None, known: _Session, *, missed: bool
    ) -> None:
        self._all.add(missed=missed)
        if session is None:
            self._alone.add(missed=missed)
        else:
            known.add({path: now[path] for path in now if self._has_values(path)}, missed=missed)
        for path, value in now.items():
            sums = self._sums(path)
            if sums is not None and sums.values is not None:
                sums.values.setdefault(value, MissesAndHits()).add(missed=missed)
                if session is None:
                    sums.alone.setdefault(value, MissesAndHits()).add(missed=missed)
                if len(sums.values) > _MOST_VALUES:
                    self._forget_values(path, known)
        if before is None:
            return
        self._followed.add(missed=missed)
        known.followed.add(missed=missed)
        for path in {**before, **now}:
            if now.get(path) != before.get(path) and (sums := self._sums(path)) is not None:
                sums.changed.add(missed=missed)
                known.units.setdefault(path, {}).setdefault(None, MissesAndHits()).add(missed=missed)

    def _end(self, session: _Session) -> None:
        """Enter a session in the sums of its fields."""
        if len(self._ended) >= _MOST_ENDED or not session.requests.misses + session.requests.hits:
            return
        for path, run in session.runs.items():
            session.end(path, run)
        number = len(self._ended)
        self._ended.append(session.requests)
        for path, units in session.units.items():
            sums = self._fields[path]
            of_values = [each for value, each in units.items() if value is not None]
            whole = MissesAndHits(sum(each.misses for each in of_values), sum(each.hits for each in of_values))
            for value, each in units.items():
                found = sums.sessions.setdefault(value, _SessionsWith())
                among = session.followed if value is None else whole
                if value is not None:
                    (found.always if len(of_values) == 1 else found.sometimes).append(number)
                if among.misses and among.hits and (each.misses, each.hits) != (among.misses, among.hits):
                    found.parts.append((each, among))

    def _has_values(self, path: str) -> bool:
        sums = self._sums(path)
        return sums is not None and sums.values is not None

    def _forget_values(self, path: str, known: _Session) -> None:
        """Try a field with too many values by its changes alone; `known` is the session that has the last of these."""
        sums = self._fields[path]
        sums.values = None
        sums.alone.clear()
        sums.sessions = {None: sums.sessions[None]} if None in sums.sessions else {}
        for session in (known, *self._open.values()):
            session.runs.pop(path, None)
            if (units := session.units.pop(path, None)) is not None and None in units:
                session.units[path] = {None: units[None]}

    def _sums(self, path: str) -> _FieldSums | None:
        if path not in self._fields and len(self._fields) >= _MOST_FIELDS:
            return None
        return self._fields.setdefault(path, _FieldSums())

    def separation(self, searches: int = 1) -> FieldSeparation | None:
        """Return the field that separates best; None where chance may separate as well in one of so many searches."""
        if not self._all.misses:
            return None
        while self._open:
            self._end(self._open.pop(next(iter(self._open))))
        tried = 0
        best: tuple[float, int, str, str | None, MissesAndHits, MissesAndHits] | None = None
        for path, sums in self._fields.items():
            groups: list[tuple[str | None, MissesAndHits, MissesAndHits]] = [(None, sums.changed, self._followed)]
            if sums.values is not None:
                groups += [(value, each, self._all) for value, each in _with_absent(sums.values, self._all).items()]
            for value, each, total in groups:
                if not 1 < each.misses + each.hits < total.misses + total.hits:
                    continue  # in all requests, or in one alone as an identifier or a time: it separates nothing
                chances = self._chances(sums, value)
                tried += len(chances)
                found = min(chances, default=1.0), len(path), path, value, each, total
                if best is None or found[:3] < best[:3]:
                    best = found
        tried *= searches
        if best is None or not best[4].misses or best[0] * tried > _LEVEL:
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

    def _chances(self, sums: _FieldSums, value: str | None) -> list[float]:
        """Return the chances that a value separates as well by chance inside of sessions, and from session to session.

        Requests of one session are not independent: from session to session each is one observation, of whether it misses more
        than all requests do.
        """
        found = sums.sessions.get(value, _SessionsWith())
        chances = [chance_within(found.parts)] if found.parts else []
        if value is None:
            return chances
        misses, of_all = self._all.misses, self._all.misses + self._all.hits

        def observed(numbers: Iterable[int], alone: MissesAndHits) -> MissesAndHits:
            some = [self._ended[number] for number in numbers]
            missed = sum(each.misses * of_all > misses * (each.misses + each.hits) for each in some)
            return MissesAndHits(alone.misses + missed, alone.hits + len(some) - missed)

        with_it, mixed = set(found.always), set(found.sometimes)
        if value == ABSENT:
            with_it |= set(range(len(self._ended))).difference(
                *(one for each in sums.sessions.values() for one in (each.always, each.sometimes))
            )
        part = observed(with_it, _with_absent(sums.alone, self._alone).get(value, MissesAndHits()))
        total = observed(set(range(len(self._ended))) - mixed, self._alone)
        if 0 < part.misses + part.hits < total.misses + total.hits:
            chances.append(chance_of(part, total))
        return chances


def _with_absent(values: Mapping[str, MissesAndHits], total: MissesAndHits) -> dict[str, MissesAndHits]:
    """Return the sums by value, those of the requests without the field included."""
    misses, hits = (sum(getattr(each, name) for each in values.values()) for name in ("misses", "hits"))
    return {**values, ABSENT: MissesAndHits(total.misses - misses, total.hits - hits)}


def chance_within(parts: Sequence[tuple[MissesAndHits, MissesAndHits]]) -> float:
    """Return how likely parts of sessions, drawn at random inside of each, have at least as many misses in all."""
    found = sum(part.misses for part, _ in parts)
    usual = sum((part.misses + part.hits) * whole.misses / (whole.misses + whole.hits) for part, whole in parts)
    if found <= usual:
        return 1.0
    least, chances = 0, np.ones(1)
    for part, whole in parts:
        drawn, misses, hits = part.misses + part.hits, whole.misses, whole.hits
        first, last = max(0, drawn - hits), min(drawn, misses)
        all_draws = _log_choose(misses + hits, drawn)
        draws = [_log_choose(misses, each) + _log_choose(hits, drawn - each) for each in range(first, last + 1)]
        least, chances = least + first, np.convolve(chances, np.exp(np.array(draws) - all_draws))
    return min(float(chances[max(found - least, 0) :].sum()), 1.0)


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
