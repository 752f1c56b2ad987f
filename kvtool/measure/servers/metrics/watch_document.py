"""One look at a server as a document."""

from __future__ import annotations

from kvtool.measure.servers.key_redaction import redact_keys
from kvtool.measure.servers.kv_events.event_sums import EventSums
from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.metrics.bucket_counts import BucketCounts
from kvtool.measure.servers.metrics.counted_between import Counted
from kvtool.measure.servers.metrics.watching import LOGGED_REQUESTS, Watching
from kvtool.results.documents.watched import (
    LoggedRate,
    LosingSession,
    ObservedTimes,
    ServerCounts,
    ServerNow,
    WatchDocument,
    WatchedEvents,
)

_QUANTILES = (0.5, 0.9, 0.99)
_LOSERS = 5
"""Sessions that are named."""


def watch_document(watching: Watching, *, source: str, at: float, events: EventSums | None = None) -> WatchDocument:
    """What is known now; `source` is the URL or file that is asked, `events` what was heard meanwhile."""
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
    """Counts as a part of documents."""

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
    """Hostile counters may have more hits than queries."""
    return None if rate is None else min(1.0, max(0.0, rate))


def _times(buckets: BucketCounts | None) -> ObservedTimes | None:
    if buckets is None or (mean := buckets.mean) is None:
        return None
    middle, late, latest = (max(0.0, buckets.quantile(part) or 0.0) for part in _QUANTILES)
    return ObservedTimes(count=int(buckets.count), mean_s=max(0.0, mean), p50_s=middle, p90_s=late, p99_s=latest)
