"""`kvtool size --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.model import Count, Document, Model, Ratio


class AcceleratorRoom(Model):
    """What a model leaves of an accelerator's memory; null where it does not fit."""

    name: str
    memory_bytes: Count
    usable_bytes: Count
    weight_bytes: Count
    activation_bytes_estimate: Count
    graph_bytes_estimate: Count
    bytes_per_block: Count
    fits: bool
    available_bytes: int | None
    num_blocks: Count | None
    usable_blocks: Count | None
    tokens: Count | None
    longest_request: Count | None
    max_concurrency: float | None
    fits_max_model_len: bool | None


class SizeDocument(Document):
    """KV blocks that a model leaves room for."""

    schema_: Literal["kvtool.size/1"] = Field(alias="schema")
    model: str
    max_model_len: Count | None
    kv_cache_dtype: str
    native_dtype: str
    capacity_gain: float
    tensor_parallel: Count
    block_size: Count
    gpu_memory_utilization: Ratio
    accelerators: list[AcceleratorRoom]
