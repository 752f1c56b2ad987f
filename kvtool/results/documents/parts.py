"""What several documents have."""

from __future__ import annotations

from typing import Literal

from kvtool.results.document_base import Count, Model, Ratio
from kvtool.results.money import Amount

Tier = Literal["P0", "P1", "P2", "P3"]


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
    """What was reported of all requests that say it, and what these cost."""

    requests: Count
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


class PromptEdit(Model):
    """A fix. `path`, `line` and `column` are null where it has no place in a file; `group` where no requests were run."""

    code: str
    tier: Tier
    group: str | None
    path: str | None
    line: Count | None
    column: Count | None
    place: str = ""
    """Where in a logged request it is, in words, as the finding has it; empty for files that people edit."""
    copied_from: str | None = None
    """Place in code that the line is a copy of: only the copy is edited."""
    fix: str
    warnings: list[str]
