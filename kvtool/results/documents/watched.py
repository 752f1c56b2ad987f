"""A line of `kvtool watch --json`: what a server counted, over a window, since kvtool attached, and since the server's start."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Count, Document, Model, Ratio, Seconds
from kvtool.results.documents.server_cause import ServerCause


class ObservedTimes(Model):
    """Of requests, from the buckets of a histogram: a quantile lies in the bucket that is given, on a line between its bounds."""

    count: Count
    mean_s: Seconds
    p50_s: Seconds
    p90_s: Seconds
    p99_s: Seconds


class ServerCounts(Model):
    """What all engines together counted. Null: the server does not tell."""

    seconds: Seconds | None
    hit_rate: Ratio | None
    """Of the tokens that were looked up; null where none were."""
    queried_tokens: Count | None
    hit_tokens: Count | None
    prompt_tokens: Count | None
    cached_tokens: Count | None
    external_tokens: Count | None
    """From another tier or server."""
    computed_tokens: Count | None
    generated_tokens: Count | None
    requests: Count | None
    preemptions: Count | None
    ttft: ObservedTimes | None
    queue: ObservedTimes | None
    prefill: ObservedTimes | None


class ServerNow(Model):
    """What is now."""

    kv_cache_usage: float | None
    running: float | None
    waiting: float | None
    hit_rate: float | None
    """As the server itself computes it, where it publishes one."""


class LoggedRate(Model):
    """The rate that the server's own log prints: of the last `requests` that were looked up, whoever sent them and when."""

    requests: Count
    hit_rate: Ratio | None
    """Null while some of them were before kvtool attached."""
    unseen_requests: Count
    """How many of them that are."""


class LosingSession(Model):
    """A session, and the tokens that were computed again for it; null where the server names none."""

    session: str | None
    lost_tokens: Count


class WatchedEvents(Model):
    """What the server's KV events say since kvtool attached, and before as far as the server was asked for them and had them.

    Ages are from storing to evicting; null before any is known.
    """

    stored_blocks: Count
    evicted_blocks: Count
    stored_again_blocks: Count
    """After an eviction: a larger cache would have had them."""
    lost_tokens: Count
    """Of those."""
    age_p50_s: Seconds | None
    age_p90_s: Seconds | None
    sessions: list[LosingSession]
    """Those that lost most."""
    gaps: Count
    """Times at which events were missed."""
    problems: Count
    """Events that could not be read."""
    notes: list[str]
    """What is not counted."""


class WatchDocument(Document):
    """One look at a server. `at` is in seconds since 1970."""

    schema_: Literal["kvtool.watch/1"] = Field(alias="schema")
    at: float
    source: str
    state: Literal["counting", "no answer", "restarted", "several servers"]
    message: str
    """What is wrong, where something is."""
    server: str
    measured: bool
    """Whether kvtool was ever run beside such a server."""
    models: list[str]
    engines: Count
    restarts: Count
    now: ServerNow
    window: ServerCounts
    since_attach: ServerCounts
    since_start: ServerCounts
    log: LoggedRate | None
    events: WatchedEvents | None
    """Null where none are listened to."""
    causes: list[ServerCause] = Field(default_factory=list)
    """What takes most of the tokens of the window; without KV events what the counters show."""
