"""`kvtool compare-engines --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Count, Document, Model, Ratio


class EngineRow(Model):
    """One engine with its settings: what its rules reuse of all requests, and why not more."""

    rules: str
    """As `--rules` takes it."""
    engine: str
    """With the version that the rules are of."""
    settings: dict[str, str | int | float | bool | None]
    """Every option of the rules."""
    flags: list[str]
    """Those that are not as the engine has them by default, as the command line takes them."""
    requests: Count
    """Without those that the engine would refuse."""
    refused_requests: Count
    first_refusal: str | None
    prompt_tokens: Count
    cached_tokens: Count
    hit_rate: Ratio
    moved_tokens: Count
    """Of the cached ones, those that stand behind a difference and were moved; they keep the context of their first place."""
    evicted_tokens: Count
    lost: dict[str, Count]
    """Tokens that were sent before and are computed again, by fate."""
    cause: str | None
    """What costs it most against the engine that reuses most, in words; null where nothing does."""
    behind_tokens: Count
    """How much less than that engine it reuses."""
    status: Literal["driven", "read"]
    """Whether the rules were compared with the engine's own code, or read from its source and not run."""
    evidence: str
    not_modelled: list[str]


class EngineGroupRow(Model):
    """A group of the workload under every engine, in the order of the rows."""

    name: str
    requests: Count
    prompt_tokens: Count
    cached_tokens: list[Count]
    cause: str | None
    """Of the largest difference between two engines."""


class EngineTable(Document):
    """One workload under the cache rules of every engine."""

    schema_: Literal["kvtool.engines/1"] = Field(alias="schema")
    input: str
    tokenizer: str | None
    requests: Count
    prompt_tokens: Count
    capacity_tokens: Count | None
    """Of each cache; null where it is unlimited, or as the engine's own settings say."""
    rows: list[EngineRow]
    groups: list[EngineGroupRow]
    notes: list[str]
    own: str | None
    """The rules of the engine that the user runs: `--rules`, else those of the configuration, else vllm. Null where a hosted API
    served most requests."""
    hosted_requests: Count = 0
    """Of `requests`, those that a hosted API served."""
    reported_requests: Count = 0
    """Of `requests`, those whose server reported its cached tokens."""
    reported_hit_rate: Ratio | None = None
    """Of these; null where none reports."""
    next: list[str]
    """The command that shows what limits that engine, without `kvtool`."""
    partial: bool = False
