"""What tenants can tell of each other by the cache, and what it costs to keep them apart: a part of `kvtool.report/1`."""

from __future__ import annotations

from kvtool.results.document_base import Count, Model, Seconds
from kvtool.results.money import Amount


class ObservedPair(Model):
    """Tokens that `reader` hit and `owner` had sent first."""

    owner: str
    reader: str
    tokens: Count


class ObservedLine(Model):
    """The same by the line of source that they come from."""

    path: str
    line: Count
    tokens: Count


class Isolation(Model):
    """Tokens that hit as it is, with a salt or a key for each tenant, and with the salt only behind what every tenant sends.

    `cost` is what the first costs more by the providers' rules; None where no price is known.
    """

    tenants: Count
    observable_tokens: Count
    pairs: list[ObservedPair]
    lines: list[ObservedLine]
    shared_hit_tokens: Count
    isolated_hit_tokens: Count
    behind_public_hit_tokens: Count
    lost_tokens: int
    predicted_ttft: Seconds | None
    """The median as it is."""
    isolated_ttft: Seconds | None
    cost: Amount | None
