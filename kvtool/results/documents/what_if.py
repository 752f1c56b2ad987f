"""`kvtool what-if --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.choices import Axis, Policy, Sure
from kvtool.results.model import Count, Document, Model, Ratio


class SweepRow(Model):
    """One setting, and what the same requests hit with it; null for what the axis does not change."""

    axis: Axis
    policy: Policy | None = None
    capacity: Count | None = None
    """Blocks; null is unlimited."""
    block_size: Count | None = None
    ttl_seconds: float | None = None
    hit_blocks: float
    """A whole number where it was counted."""
    references: Count
    """Blocks that are looked up."""
    hit_rate: Ratio
    """Hits of the references; of block sizes, hit tokens of the prompts' tokens, as blocks of different sizes are no measure."""
    error: float | None = None
    """Two standard errors of the rate, where it is told from a sample."""
    sure: Sure


class WhatIfDocument(Document):
    """What the requests of a workload would hit with other caches."""

    schema_: Literal["kvtool.what-if/1"] = Field(alias="schema")
    input: str
    rules: str
    block_size: Count
    requests: Count
    references: Count
    distinct_blocks: Count
    reachable_blocks: Count
    """Hit by an unlimited cache."""
    reachable_hit_rate: Ratio
    sampled: Ratio
    """Part of the blocks that curves were counted with."""
    notes: list[str]
    rows: list[SweepRow]
