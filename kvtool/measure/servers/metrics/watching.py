"""A server's counters over time: the last seconds, all since kvtool attached, restarts, and what the server's log prints."""

from __future__ import annotations

from collections import deque
from typing import Literal

from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.metrics.counted_between import Counted, counted_between, since_start
from kvtool.measure.servers.metrics.counters import Scrape

State = Literal["counting", "no answer", "restarted", "several servers"]
LOGGED_REQUESTS = 1000
"""Over how many of the last requests the hit rate in the log of vLLM is."""
_KEPT = 4096
"""Points of the counters that are kept to look back by requests."""


class Watching:
    """Takes one scrape after the other; a scrape that fails is told by `missed`."""

    def __init__(self, first: Scrape, *, window: float) -> None:
        self._window = window
        self._recent: deque[Scrape] = deque([first])
        self._first: Scrape | None = first
        self._before = Counted()
        self._looked: deque[tuple[int, int, int]] = deque(maxlen=_KEPT)
        self._attached = first.at
        self.state: State = "counting"
        self.message = "; ".join(first.notes)
        self.restarts = 0
        self._remember(first)

    @property
    def last(self) -> Scrape:
        """The newest scrape."""
        return self._recent[-1]

    def scraped(self, scrape: Scrape) -> None:
        """The next scrape. Of several servers behind one URL nothing can be added up, from then on."""
        if self.state == "several servers":
            self._recent = deque([scrape])
            return
        broken = counted_between(self.last, scrape).broken
        self.state, self.message = "counting", "; ".join(scrape.notes)
        if broken == "several servers":
            self.state = broken
            self.message = "the counters are those of several servers behind one URL: give the URL of one of them"
            self._recent = deque([scrape])
            return
        if broken == "restart":
            self._before = self._before.plus(self._part())
            self._first = None
            self._recent.clear()
            self._looked.clear()
            self.restarts += 1
            self.state = "restarted"
            self.message = "the server was started again: what it counted after it was last asked is lost"
        self._recent.append(scrape)
        self._remember(scrape)
        while len(self._recent) > 2 and _age(self._recent[1], scrape) >= self._window:
            self._recent.popleft()

    def missed(self, message: str) -> None:
        """The server did not answer."""
        if self.state != "several servers":
            self.state, self.message = "no answer", message

    @property
    def window(self) -> Counted:
        """What was counted in the last seconds, from one scrape to another; nothing at first and after a restart."""
        if self.state == "several servers" or len(self._recent) < 2:
            return Counted()
        return counted_between(self._recent[0], self.last)

    @property
    def since_attach(self) -> Counted:
        """What was counted since the first scrape; of a server that was started again, both its lives."""
        if self.state == "several servers":
            return Counted()
        both = self._before.plus(self._part())
        ends = self.last.at
        seconds = ends - self._attached if ends is not None and self._attached is not None else None
        return Counted(both.counts, both.histograms, seconds)

    @property
    def since_start(self) -> Counted:
        """What the server counted since its start."""
        return Counted() if self.state == "several servers" else since_start(self.last)

    @property
    def logged(self) -> tuple[float | None, int] | None:
        """The hit rate that the server's log prints, None while it is not known, and how many of its requests nobody saw.

        None where no such log is known: of other servers, and of several engines, each of which has its own. The log counts
        requests as they are admitted and the counters as they end, so it is known up to those that run.
        """
        if self.last.of.server != "vLLM" or len(self.last.engines) != 1 or self.state == "several servers":
            return None
        if not self._looked:
            return None
        done, queries, hits = self._looked[-1]
        if done <= LOGGED_REQUESTS:
            return (hits / queries if queries else None), 0
        start = next((point for point in reversed(self._looked) if point[0] <= done - LOGGED_REQUESTS), None)
        if start is None:
            return None, self._looked[0][0] - (done - LOGGED_REQUESTS)
        looked = queries - start[1]
        return ((hits - start[2]) / looked if looked else None), 0

    def _part(self) -> Counted:
        """Since the server's last start, or since the first scrape."""
        if not self._recent:
            return Counted()
        return since_start(self.last) if self._first is None else counted_between(self._first, self.last)

    def _remember(self, scrape: Scrape) -> None:
        counted = since_start(scrape)
        point = tuple(counted.get(name) for name in (names.REQUESTS, names.QUERIES, names.HITS))
        done, queries, hits = point
        if done is None or queries is None or hits is None:
            return
        if not self._looked or self._looked[-1][0] != done:
            self._looked.append((done, queries, hits))
        else:
            self._looked[-1] = (done, queries, hits)


def _age(scrape: Scrape, now: Scrape) -> float:
    return now.at - scrape.at if now.at is not None and scrape.at is not None else 0.0
