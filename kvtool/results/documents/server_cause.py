"""One cause of lost hits of a running server."""

from __future__ import annotations

from typing import Literal

from kvtool.results.document_base import Count, Model

CauseName = Literal[
    "caching off",
    "short prompts",
    "model groups",
    "capacity",
    "routing",
    "salts",
    "adapters",
    "other tokens",
    "chunk size",
    "request fields",
    "other traffic",
    "restart",
    "cache reset",
    "concurrency",
    "drafts",
    "prompts",
    "slots",
    "context",
    "several servers",
    "expiry",
    "missing cache breakpoints",
    "minimum length",
    "cache keys",
    "the provider",
]
Basis = Literal["counted", "shown", "at most", "possible"]
"""How sure a cause is: its tokens are counted; it is a fact without a figure; its tokens have a bound; nothing excludes it."""


class ServerCause(Model):
    """A cause of lost hits. `tokens` are prompt tokens that it takes; of `at most` and `possible` a bound. Null: not known."""

    cause: CauseName
    basis: Basis
    tokens: Count | None
    why: str
    """What shows it, in one or two sentences."""
    change: str
    """What to change, in the flags of this server."""
    source: Literal["/metrics", "KV events", "log", "answers", "server"]
    server: str | None = None
    """The server that shows it, of several; null for a cause of all together."""
