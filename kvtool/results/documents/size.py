"""`kvtool size --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Count, Document, Model, Ratio


class SizedGroup(Model):
    """Layers that share a block table: `count` groups of the same layers, one behind the other.

    `window` is what a sliding layer sees, `chunk` the length of a chunk, both in tokens. `page_bytes` are of one layer in a block,
    `blocks_per_request` those that a request of `max_model_len` tokens holds at most in each of the groups.
    """

    kind: Literal["full", "mla", "sliding", "chunked", "mamba"]
    count: Count
    layers: list[Count]
    block_size: Count
    page_bytes: list[Count]
    window: Count | None
    chunk: Count | None
    blocks_per_request: Count | None


class AcceleratorRoom(Model):
    """What a model leaves of an accelerator's memory; null where it does not fit. `lacking_bytes`: how much more it would need.

    `max_num_batched_tokens` and `max_num_seqs` are the defaults of vLLM's API server on it.
    """

    name: str
    max_num_batched_tokens: Count
    max_num_seqs: Count
    memory_bytes: Count
    usable_bytes: Count
    weight_bytes: Count
    activation_bytes_estimate: Count
    graph_bytes_estimate: Count
    bytes_per_block: Count
    fits: bool
    lacking_bytes: Count
    available_bytes: int | None
    num_blocks: Count | None
    usable_blocks: Count | None
    tokens: Count | None
    longest_request: Count | None
    max_concurrency: float | None
    fits_max_model_len: bool | None


class SizeDocument(Document):
    """KV blocks that a model leaves room for.

    `block_size` is that of attention, `hit_unit` that on which hits end; both in tokens. `block_reason` says why the block is
    another than vLLM's default, `caching_off` why prefixes are not cached, `one_group_reason` why windows and chunks are kept as
    full attention; null where it is not so.
    """

    schema_: Literal["kvtool.size/1"] = Field(alias="schema")
    model: str
    max_model_len: Count | None
    kv_cache_dtype: str
    native_dtype: str
    capacity_gain: float
    tensor_parallel: Count
    block_size: Count
    block_reason: str | None
    hit_unit: Count
    prefix_caching: bool
    caching_off: str | None
    one_group_reason: str | None
    keeps_prompt_ends_only: bool
    """Whether by default windows and states are kept at the ends of prompts, and nowhere within."""
    groups: list[SizedGroup]
    weights_note: str | None
    """How the weights are quantized, or that it is not known how large that makes them."""
    gpu_memory_utilization: Ratio
    accelerators: list[AcceleratorRoom]
