"""`kvtool bench --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Count, Document, Model, Seconds
from kvtool.results.documents.calibrated import CalibrationDocument, Machine, Rate


class Reached(Model):
    """What the machine can do at best."""

    copy_bytes_per_s: Rate
    matmul_flops_per_s: Rate


class BenchCase(Model):
    """A step; tokens before, and of each request, are those of the first one."""

    kind: str
    requests: Count
    tokens_before: Count
    new_tokens: Count
    shared_tokens: Count
    decode_attention: str
    held_out: bool


class TimedStep(BenchCase):
    """A step that was run; `seconds` is the lower quartile."""

    seconds: Seconds
    median_s: Seconds
    runs: Count
    flops: float
    memory_floor_s: float


class SharingGain(Model):
    """A decode step of requests that have their first `shared_tokens` in common, measured both ways; `gain` is their ratio."""

    requests: Count
    context_tokens: Count
    shared_tokens: Count
    flat_s: Seconds
    prefix_aware_s: Seconds
    gain: Rate


class TimedStore(Model):
    """New tokens' keys and values, written into the blocks of one layer; bytes are read and written."""

    tokens: Count
    num_bytes: Count = Field(alias="bytes")
    seconds: Seconds


class Misses(Model):
    """How far predictions are off, as parts of the measured times."""

    median: float
    worst: float


class BenchDocument(Document):
    """What a machine reaches: seconds, bytes and FLOPs per second, ratios from 0 on."""

    schema_: Literal["kvtool.bench/1"] = Field(alias="schema")
    version: str
    machine: Machine
    model: str
    dtype: str
    kv_cache_dtype: str
    block_size: Count
    budget_s: Seconds
    partial: bool
    ceilings: Reached
    steps: list[TimedStep]
    sharing: list[SharingGain]
    left_out: list[BenchCase]
    store_kv: TimedStore | None
    calibration: CalibrationDocument | None
    no_calibration: str
    ceilings_alone: Misses | None
    load: float
    notes: list[str]
