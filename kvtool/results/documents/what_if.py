"""`kvtool what-if --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.engine.fleet.fleet_router import RouterView
from kvtool.results.choices import Axis, ChangeKind, Policy, Sure
from kvtool.results.document_base import Amount, Count, Document, Model, Ratio
from kvtool.results.money import Amount as Dollars

HOSTED_RULES = "published"
"""The rules of a table of hosted models: those of each request's provider."""
SCHEMA: Literal["kvtool.what-if/1"] = "kvtool.what-if/1"


class SweepRow(Model):
    """One setting, and what the same requests hit with it; null for what the axis does not change."""

    axis: Axis | None = None
    """Null in the table, whose rows each change something else."""
    kind: ChangeKind | None = None
    """What a row of the table changes; null in sweeps, as the next three."""
    change: str | None = None
    """In a few words, without text of prompts."""
    does: str | None = None
    """What to do, as a sentence goes on behind a colon."""
    more_hardware: bool | None = None
    """Whether somebody has to buy something for it."""
    policy: Policy | None = None
    capacity: Count | None = None
    """Blocks; null is unlimited."""
    block_size: Count | None = None
    ttl_seconds: Amount | None = None
    routing: str | None = None
    """The router, with the settings that are not its own."""
    router_version: str | None = None
    """Of the program whose rule it follows; null: of none."""
    router_view: RouterView | None = None
    replicas: Count | None = None
    prefill_replicas: Count | None = None
    """Of a split fleet: those that compute prompts only."""
    decode_replicas: Count | None = None
    host_blocks: Count | None = None
    """Of each replica's tier in host memory."""
    disk_blocks: Count | None = None
    bandwidth: Amount | None = None
    """Bytes per second between GPU and host memory, or of the link between the pools; null, too, where it is not limited."""
    disk_bandwidth: Amount | None = None
    loaded_rate: Ratio | None = None
    """Blocks that came from tiers below, of the references; they are no part of the hits, which are the GPU's."""
    break_even_tokens: Count | None = None
    """The shortest prefix that is loaded from the first tier in less time than it is computed; null where none is."""
    transfer_p50: Amount | None = None
    """Seconds from the first token to the end of a prompt's transfer to where it is answered."""
    transfer_p99: Amount | None = None
    transfer_bytes: Count | None = None
    """Of all requests."""
    hit_blocks: Amount
    """A whole number where it was counted."""
    references: Count
    """Blocks that are looked up."""
    hit_rate: Ratio
    """Hits of the references; in the table and of block sizes, hit tokens of the prompts' tokens, as blocks of different sizes are
    no measure."""
    computed_tokens: Count | None = None
    """Of the table, tiers and split fleets, prompt tokens that neither hit nor were loaded."""
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
    cost: Dollars | None = None
    """Dollars of all requests, by the published rules and prices; null for servers of one's own."""
    command: str | None = None
    """What gives this row again."""
    sure: Sure


class MissingRow(Model):
    """A change that the table has no row of, and why."""

    change: str
    why: str


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
    """Of keys and values of the model; null in a sweep for which no model was named."""
    sampled: Ratio
    """Part of the blocks that curves were counted with."""
    notes: list[str]
    answer: list[str] = Field(default_factory=list)
    """Of the table, what to change first, by how much it helps, and what to run."""
    rows: list[SweepRow]
    """Of the table today's first, then what can be done, the best first, then bounds."""
    missing: list[MissingRow] = Field(default_factory=list)
