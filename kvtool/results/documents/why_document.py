"""The verdict on a running server: `kvtool why --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Count, Document, Model, Ratio
from kvtool.results.documents.server_cause import ServerCause
from kvtool.results.documents.watched import ServerCounts, ServerNow


class WhyServer(Model):
    """One server that was asked. `trouble` is what it does not say, empty where it says all."""

    source: str
    server: str | None
    version: str | None
    model: str | None
    engines: Count
    window: ServerCounts | None
    """Null where its counters are hidden."""
    now: ServerNow | None
    trouble: str


class WhyDocument(Document):
    """The rate, and what takes how much of it. Causes are in the order of what they take."""

    schema_: Literal["kvtool.why/1"] = Field(default="kvtool.why/1", alias="schema")
    span: str
    """What the counts cover."""
    servers: list[WhyServer]
    logs: list[str]
    prompt_tokens: Count | None
    log_prompt_tokens: Count | None = None
    """Prompt tokens of the log, where the servers counted other requests; causes with the source `log` take a part of these."""
    hit_tokens: Count | None
    hit_rate: Ratio | None
    """Reported by the servers or the answers; null where nobody reports it."""
    rate_source: Literal["/metrics", "log", "answers"] | None
    predicted_hit_rate: Ratio | None
    """Of the log, by the rules of the server and its model; null without a log."""
    first_use_tokens: Count | None
    """Prompt tokens that no earlier request had; null where nothing counts them."""
    causes: list[ServerCause]
    verdict: Literal["cause", "possible", "healthy", "unknown"]
    summary: str
    """The verdict in one sentence."""
    next: list[str]
    """Words of the command to run next; empty where there is none."""
    notes: list[str]
