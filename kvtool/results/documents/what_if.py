"""`kvtool what-if --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.choices import Axis, Policy, Sure
from kvtool.results.model import Amount, Count, Document, Model, Ratio

SCHEMA: Literal["kvtool.what-if/1"] = "kvtool.what-if/1"


class SweepRow(Model):
    """One setting, and what the same requests hit with it; null for what the axis does not change."""

    axis: Axis
    policy: Policy | None = None
    capacity: Count | None = None
    """Blocks; null is unlimited."""
    block_size: Count | None = None
    ttl_seconds: Amount | None = None
    routing: str | None = None
    """The router, with its version where it has one."""
    replicas: Count | None = None
    prefill_replicas: Count | None = None
    """Of a split fleet: those that compute prompts only."""
    decode_replicas: Count | None = None
    host_blocks: Count | None = None
    """Of each replica's tier in host memory."""
    disk_blocks: Count | None = None
    bandwidth: Amount | None = None
    """Bytes per second of the tier, or of the link between the pools."""
    hit_blocks: Amount
    """A whole number where it was counted."""
    references: Count
    """Blocks that are looked up."""
    hit_rate: Ratio
    """Hits of the references; of block sizes, hit tokens of the prompts' tokens, as blocks of different sizes are no measure."""
    error: Amount | None = None
    """Two standard errors of the rate, where it is told from a sample."""
    imbalance: Amount | None = None
    """Prompt tokens computed by the replica that computed most, over the mean."""
    request_imbalance: Amount | None = None
    """The same of requests."""
    ttft_p50: Amount | None = None
    """Seconds, as all moments of a row."""
    ttft_p99: Amount | None = None
    tpot_p50: Amount | None = None
    tpot_p99: Amount | None = None
    goodput: Amount | None = None
    """Requests per second that meet every objective."""
    within_slo: Ratio | None = None
    gpus: Count | None = None
    """Accelerators of the smallest fleet that meets the objectives; null where none was asked for, or none meets them."""
    command: str | None = None
    """What gives this row again."""
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
    capacity: Count | None = None
    """Blocks of the cache as it is now; null where it is unlimited, or nobody said."""
    bytes_per_block: Count | None = None
    """Of keys and values of the model; null where no model was named."""
    sampled: Ratio
    """Part of the blocks that curves were counted with."""
    notes: list[str]
    rows: list[SweepRow]
