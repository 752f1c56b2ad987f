"""`kvtool explain --json`, `kvtool size --json` and `kvtool config --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.model import Count, Model, Ratio


class Remedy(Model):
    """Something to do, and the proof that kvtool can give for it."""

    what: str
    tier: str | None


class Entry(Model):
    """A diagnostic code."""

    code: str
    name: str
    what: str
    why: str
    before: str
    after: str
    fixes: list[Remedy]
    ignore_when: str


class ExplainDocument(Model):
    """What codes mean."""

    schema_: Literal["kvtool.explain/1"] = Field(alias="schema")
    entries: list[Entry]


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


class SizeDocument(Model):
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


class SettingRow(Model):
    """A setting, its value as it was written, and where that comes from."""

    name: str
    value: str | bool | int | float | list[str] | None
    from_: Literal["flag", "variable", "workload", "config", "default"] = Field(alias="from")
    said_by: str | None
    """The flag or the variable."""
    path: str | None
    line: Count | None


class SettingsDocument(Model):
    """Every setting."""

    schema_: Literal["kvtool.settings/1"] = Field(alias="schema")
    config: str | None
    """The configuration file that was read."""
    settings: list[SettingRow]
