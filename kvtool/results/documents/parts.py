"""What several documents have."""

from __future__ import annotations

from kvtool.results.document_base import Count, Model, Ratio


class Kind(Model):
    """What a difference is, and the code of the diagnosis that is about it."""

    key: str
    name: str
    code: str | None


class BeforeAfter(Model):
    """A hit rate before and after."""

    before: Ratio
    after: Ratio


class Blocks(Model):
    """Tokens, and the blocks that they fill."""

    tokens: Count
    blocks: Count
