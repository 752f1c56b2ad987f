"""What several documents have."""

from __future__ import annotations

from kvtool.results.document_base import Count, Model, Ratio
from kvtool.results.money import Amount


class Kind(Model):
    """What a difference is, and the code of the diagnosis that is about it."""

    key: str
    name: str
    code: str | None


class BeforeAfter(Model):
    """A hit rate before and after."""

    before: Ratio
    after: Ratio


class ReportedUse(Model):
    """What providers reported of all requests that say it, and what these cost."""

    hit_rate: Ratio
    paid: Amount | None
    """None where no price is known."""
    currency: str
    predictable: bool
    """Whether the log contains what predictions need."""


class Blocks(Model):
    """Tokens, and the blocks that they fill."""

    tokens: Count
    blocks: Count
