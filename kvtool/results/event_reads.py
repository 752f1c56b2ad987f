"""What the KV events of a server say of the requests of a run: a part of `kvtool.report/1`."""

from __future__ import annotations

from typing import Literal

from kvtool.results.document_base import Count, Model, Seconds
from kvtool.results.documents.watched import LosingSession


class EventRead(Model):
    """One request. `reused_tokens` is null where the events do not show it.

    `how`: its own `events` show it; it was `silent`, as it stored nothing and so hit all that is full; or it is `unknown`.
    """

    id: str
    group: str
    predicted_tokens: Count
    reused_tokens: Count | None
    how: Literal["events", "silent", "unknown"]


class EventReads(Model):
    """Reuse as events show it beside what is predicted, and how the cache fared."""

    source: str
    block_size: Count | None
    """Null where nothing was stored."""
    requests_known: Count
    requests_agree: Count
    requests_unknown: Count
    predicted_tokens: Count
    """Of the known ones."""
    reused_tokens: Count
    differ: list[EventRead]
    """The first of those that do not agree."""
    requests: list[EventRead] | None
    """All of them, where each request was asked for."""
    batches: Count
    stored_blocks: Count
    evicted_blocks: Count
    stored_again_blocks: Count
    """After an eviction: a larger cache would have had them."""
    lost_tokens: Count
    """Of those."""
    age_p50_s: Seconds | None
    """From storing to evicting; null where nothing was evicted, or the events have no times."""
    age_p90_s: Seconds | None
    sessions: list[LosingSession]
    """Who had to compute blocks again: the session that the server names, else that of the request, or the request's id."""
    foreign_tokens: Count
    """Stored for none of these requests."""
    cleared: Count
    """Times at which the cache was emptied."""
    notes: list[str]
    """Why something is not known."""
