"""Counts of a server from one scrape to the next, and whether it is the same server still."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.metrics.counters import EngineCounters, Scrape
from kvtool.measure.servers.metrics.exposition import BucketCounts

Break = Literal["restart", "several servers"]
_SKEW = 5.0
"""Seconds that clocks of two machines may be apart."""
_SOONEST_START = 1.0
"""Seconds in which no process ends, starts, loads a model and answers."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Counts of all engines together, by the names of `metric_names`; a name that is missing was not reported."""

    counts: Mapping[str, int] = field(default_factory=dict)
    histograms: Mapping[str, BucketCounts] = field(default_factory=dict)
    seconds: float | None = None
    """Between the scrapes, where the times of both are known."""
    broken: Break | None = None
    """After a restart, counts are those since the server's new start; of several servers there are none."""

    def get(self, name: str) -> int | None:
        """Return a count; None where it is not reported."""
        return self.counts.get(name)

    @property
    def hit_rate(self) -> float | None:
        """Return tokens found in the cache, of those looked up; None where none were."""
        queries, hits = self.get(names.QUERIES), self.get(names.HITS)
        return hits / queries if queries and hits is not None else None

    def plus(self, other: Counted) -> Counted:
        """Return both one after the other."""
        counts = {name: self.counts.get(name, 0) + other.counts.get(name, 0) for name in {*self.counts, *other.counts}}
        histograms = dict(self.histograms)
        for name, buckets in other.histograms.items():
            histograms[name] = histograms[name].plus(buckets) if name in histograms else buckets
        seconds = [each.seconds for each in (self, other) if each.seconds is not None]
        return Counted(counts, histograms, sum(seconds) if seconds else None, self.broken or other.broken)


def counted_between(before: Scrape, after: Scrape) -> Counted:
    """Return the counts of `after` less those of `before`.

    A counter never falls and its `_created` never moves while a process lives. Where they do, the server was started again; or
    several are at one URL: its counters began before the first scrape was taken, or before those of the first one did; or they
    fell sooner than a server can start.
    """
    seconds = after.at - before.at if before.at is not None and after.at is not None else None
    broken = _break(before, after)
    if broken == "several servers":
        return Counted(seconds=seconds, broken=broken)
    found = Counted()
    for key, now in after.engines.items():
        then = None if broken else before.engines.get(key)
        found = found.plus(_since(then, now))
    return Counted(found.counts, found.histograms, seconds, broken)


def since_start(scrape: Scrape) -> Counted:
    """Return all that the engines of a server have counted since they were started."""
    found = Counted()
    for engine in scrape.engines.values():
        found = found.plus(Counted(engine.counts, engine.histograms))
    return found


def _break(before: Scrape, after: Scrape) -> Break | None:
    if before.of is not after.of or not before.engines.keys() & after.engines.keys():
        return "several servers"
    found: Break | None = None
    for key, now in after.engines.items():
        then = before.engines.get(key)
        if then is None:
            continue
        if then.created is not None and now.created is not None and then.created != now.created:
            if now.created < then.created or (before.at is not None and now.created < before.at - _SKEW):
                return "several servers"
            found = "restart"
        elif any(now.counts.get(name, 0) < count for name, count in then.counts.items()):
            soon = before.at is not None and after.at is not None and after.at - before.at < _SOONEST_START
            found = "several servers" if soon and now.created is None else "restart"
    return found


def _since(then: EngineCounters | None, now: EngineCounters) -> Counted:
    if then is None:
        return Counted(now.counts, now.histograms)
    counts = {name: count - then.counts.get(name, 0) for name, count in now.counts.items()}
    histograms = {}
    for name, buckets in now.histograms.items():
        grown = buckets.minus(then.histograms[name]) if name in then.histograms else buckets
        if grown is not None:
            histograms[name] = grown
    return Counted(counts, histograms)
