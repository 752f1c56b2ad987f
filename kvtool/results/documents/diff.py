"""`kvtool diff-prompts --json`: of two prompts, and of more."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, RootModel

from kvtool.results.document_base import Count, Document, Model
from kvtool.results.documents.parts import Blocks, Kind


class Side(Model):
    """A prompt."""

    path: str
    tokens: Count


class SideBlocks(Side):
    """A prompt and its blocks, a partial last one included."""

    blocks: Count


class Spot(Model):
    """Where a difference stands; in a message (`part`), or in a file. `start` and `end` are characters of that line."""

    path: str
    line: Count
    column: Count
    start: Count
    end: Count
    part: str = ""
    character: int | None = None
    told: str = ""
    """The place in a message in words, as findings of logs have it: `system, line 2`."""


class FirstDifference(Model):
    token: Count
    block: Count
    offset: Count
    tokens_a: Count
    tokens_b: Count
    kind: Kind
    a: Spot | None
    b: Spot | None


class Lost(Model):
    """What of the second prompt must be computed though the first is cached."""

    tokens: Count
    blocks: Count
    same_text_tokens: Count


class Part(Model):
    kind: Literal["tools", "message", "text", "history"]
    index: Count
    role: str


class NamedDifference(Model):
    kind: Kind
    part: Part
    start: Count
    stop: Count
    cosmetic: bool
    told: str = ""
    """Its place in words, as findings of logs have it; empty where it is in a prompt that is one text."""


class Trial(Model):
    """A change of both prompts, carried out and measured."""

    unit: str
    places: Count
    line_a: Count
    line_b: Count
    reuse: Blocks = Field(alias="reusable")
    gained_blocks: int
    result: str = Field(alias="what")
    code: str
    part: str
    further: bool


class ReportedRead(Model):
    """What the usage of a request reports: tokens that it read from a cache, and those of its prompt."""

    tokens: Count
    prompt_tokens: Count


class TwoDiff(Document):
    """Two prompts: blocks and losses are those of the second, computed when the first is in the cache."""

    tells_defaults: ClassVar[bool] = False
    schema_: Literal["kvtool.diff/1"] = Field(alias="schema")
    tokenizer: str
    block_size: Count
    a: Side
    b: SideBlocks
    relation: str
    common_tokens: Count
    reusable: Blocks
    lost: Lost
    equal_runs: list[Annotated[list[Count], Field(min_length=3, max_length=3)]]
    """Where each begins in either prompt, and its length, in tokens."""
    cosmetic: list[str]
    at_end: bool
    first_difference: FirstDifference | None
    differences: list[NamedDifference]
    changes: list[Trial]
    minimum_tokens: Count = 0
    """Tokens from which the provider of the requests caches; 0 where an own server serves them, or it is unknown."""
    reported: ReportedRead | None = None
    """What the second request read when it was sent, after whatever came before it; None where its record does not say."""
    tokens: dict[str, list[Count]] = Field(default_factory=dict)
    """Token ids; only with `--tokens`."""


class BranchDifference(Model):
    kind: Kind
    a: Spot | None
    b: Spot | None


class Branch(Model):
    """A beginning that prompts have in common. Prompts and children are named by their places in the lists."""

    tokens: Count
    blocks: Count
    prompts: list[Count]
    ends: list[Count]
    children: list[Count]
    between: list[Count] | None
    difference: BranchDifference | None


class ManyDiff(Document):
    """More than two prompts: what each pair shares, and the tree of their common beginnings."""

    tells_defaults: ClassVar[bool] = False
    schema_: Literal["kvtool.diff/1"] = Field(alias="schema")
    tokenizer: str
    block_size: Count
    prompts: list[SideBlocks]
    identical: bool
    prompt_tokens: Count
    reusable_in_order: Blocks
    common_tokens: Count
    shared_blocks: list[list[Count]] | None
    trie: list[Branch]
    tokens: dict[str, list[Count]] = Field(default_factory=dict)
    """Token ids; only with `--tokens`."""


class DiffDocument(RootModel[TwoDiff | ManyDiff]):
    """Where prompts part, without any prompt text."""
