"""A server's counters over time: the last seconds, all since kvtool attached, restarts, and what the server's log prints."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

from kvtool.measure.servers.key_redaction import redact_keys
from kvtool.measure.servers.kv_events.event_sums import EventSums
from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.metrics.counted_between import Counted, counted_between, since_start
from kvtool.measure.servers.metrics.counters import Scrape
from kvtool.measure.servers.metrics.exposition import BucketCounts
from kvtool.results.documents.server_cause import ServerCause
from kvtool.results.documents.watched import (
    LoggedRate,
    LosingSession,
    ObservedTimes,
    ServerCounts,
    ServerNow,
    WatchDocument,
    WatchedEvents,
)

State = Literal["counting", "no answer", "restarted", "several servers"]
LOGGED_REQUESTS = 1000
"""Over how many of the last requests the hit rate in the log of vLLM is."""
_TWO_STARTS = 10.0
"""Seconds in which no server starts twice: counters that fall so often are those of servers that take turns."""
_KEPT = 4096
"""Points of the counters that are kept to look back by requests."""
_QUANTILES = (0.5, 0.9, 0.99)
_LOSERS = 5
"""Sessions that are named."""


class Watching:
    """Takes one scrape after the other; a scrape that fails is reported by `missed`."""

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
        self._restarted: Scrape | None = None
        """The first scrape after the last restart."""
        self._remember(first)

    @property
    def last(self) -> Scrape:
        """Return the newest scrape."""
        return self._recent[-1]

    def scraped(self, scrape: Scrape) -> None:
        """Take the next scrape. Of several servers at one URL nothing can be added up, from then on."""
        if self.state == "several servers":
            self._recent = deque([scrape])
            return
        broken = counted_between(self.last, scrape).broken
        if broken == "restart" and self._restarted is not None and _age(self._restarted, scrape) < _TWO_STARTS:
            broken = "several servers"
        self.state, self.message = "counting", "; ".join(scrape.notes)
        if broken == "several servers":
            self.state = broken
            self.message = "several servers share this URL: pass the URL of one server"
            self._recent = deque([scrape])
            return
        if broken == "restart":
            self._before = self._before.plus(self._part())
            self._first = None
            self._recent.clear()
            self._looked.clear()
            self.restarts += 1
            self._restarted = scrape
            self.state = "restarted"
            self.message = "the server restarted: counts since the last read are lost"
        self._recent.append(scrape)
        self._remember(scrape)
        while len(self._recent) > 2 and _age(self._recent[1], scrape) >= self._window:
            self._recent.popleft()

    def missed(self, message: str) -> None:
        """Note that the server did not answer."""
        if self.state != "several servers":
            self.state, self.message = "no answer", message

    @property
    def window_start(self) -> Scrape | None:
        """Return the scrape with which the window begins; None at first, after a restart and of several servers."""
        return None if self.state == "several servers" or len(self._recent) < 2 else self._recent[0]

    @property
    def window(self) -> Counted:
        """Return the counts of the last seconds, from one scrape to another; nothing at first and after a restart."""
        if self.state == "several servers" or len(self._recent) < 2:
            return Counted()
        return counted_between(self._recent[0], self.last)

    @property
    def since_attach(self) -> Counted:
        """Return the counts since the first scrape; of a server that was started again, both its lives."""
        if self.state == "several servers":
            return Counted()
        both = self._before.plus(self._part())
        ends = self.last.at
        seconds = ends - self._attached if ends is not None and self._attached is not None else None
        return Counted(both.counts, both.histograms, seconds)

    @property
    def since_start(self) -> Counted:
        """Return the server's counts since its start."""
        return Counted() if self.state == "several servers" else since_start(self.last)

    @property
    def logged(self) -> tuple[float | None, int] | None:
        """Return the hit rate that the server's log prints, None while it is not known, and how many of its requests nobody saw.

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
        """Return the counts since the server's last start, or since the first scrape."""
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


def watch_document(
    watching: Watching,
    *,
    source: str,
    at: float,
    events: EventSums | None = None,
    causes: Sequence[ServerCause] = (),
) -> WatchDocument:
    """Return the document of the present state.

    `source` is the URL or file that is asked, `events` what was heard meanwhile, `causes` those of the window.
    """
    last = watching.last
    logged = watching.logged
    return WatchDocument(
        schema="kvtool.watch/1",
        at=at,
        source=source,
        state=watching.state,
        message=watching.message,
        server=last.of.server,
        measured=last.of.measured,
        models=last.models,
        engines=len(last.engines),
        restarts=watching.restarts,
        now=ServerNow(
            kv_cache_usage=last.gauge(names.USAGE),
            running=last.gauge(names.RUNNING),
            waiting=last.gauge(names.WAITING),
            hit_rate=last.gauge(names.HIT_RATE),
        ),
        window=server_counts(watching.window),
        since_attach=server_counts(watching.since_attach),
        since_start=server_counts(watching.since_start),
        log=None
        if logged is None
        else LoggedRate(requests=LOGGED_REQUESTS, hit_rate=_share(logged[0]), unseen_requests=logged[1]),
        events=None if events is None else _events(events),
        causes=list(causes),
    )


def _events(sums: EventSums) -> WatchedEvents:
    age = sums.age
    return WatchedEvents(
        stored_blocks=sums.stored,
        evicted_blocks=sums.evicted,
        stored_again_blocks=sums.stored_again,
        lost_tokens=sums.lost_tokens,
        age_p50_s=None if age is None else age.p50,
        age_p90_s=None if age is None else age.p90,
        sessions=[
            LosingSession(session=_shown(session), lost_tokens=tokens) for session, tokens in sums.losers[:_LOSERS]
        ],
        gaps=sums.gaps,
        problems=sums.problems,
        notes=list(sums.notes),
    )


def _shown(session: str | None) -> str | None:
    return None if session is None else redact_keys(session)


def server_counts(counted: Counted) -> ServerCounts:
    """Return counts as a part of documents."""

    def count(name: str) -> int | None:
        value = counted.get(name)
        return None if value is None else max(0, value)

    return ServerCounts(
        seconds=None if counted.seconds is None else max(0.0, counted.seconds),
        hit_rate=_share(counted.hit_rate),
        queried_tokens=count(names.QUERIES),
        hit_tokens=count(names.HITS),
        prompt_tokens=count(names.PROMPT),
        cached_tokens=count(names.CACHED),
        external_tokens=count(names.EXTERNAL),
        computed_tokens=count(names.COMPUTED),
        generated_tokens=count(names.GENERATED),
        requests=count(names.REQUESTS),
        preemptions=count(names.PREEMPTIONS),
        ttft=_times(counted.histograms.get(names.TTFT)),
        queue=_times(counted.histograms.get(names.QUEUE)),
        prefill=_times(counted.histograms.get(names.PREFILL)),
    )


def _share(rate: float | None) -> float | None:
    """Return a share of at most 1: hostile counters may have more hits than queries."""
    return None if rate is None else min(1.0, max(0.0, rate))


def _times(buckets: BucketCounts | None) -> ObservedTimes | None:
    if buckets is None or (mean := buckets.mean) is None:
        return None
    middle, late, latest = (max(0.0, buckets.quantile(part) or 0.0) for part in _QUANTILES)
    return ObservedTimes(count=int(buckets.count), mean_s=max(0.0, mean), p50_s=middle, p90_s=late, p99_s=latest)
