"""The file that `kvtool bench -o` writes and `--calibration` reads. Its values stand in the order of the fields."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Count, Model, Seconds

Rate = float
"""Of bytes or FLOPs, each second."""


class Machine(Model):
    """What was measured. Versions that have no part in it are null: Triton's and the driver's where a CPU computes."""

    device: str
    type: str
    memory: Count
    threads: Count
    kernels: str
    python: str
    torch: str
    triton: str | None = None
    driver: str | None = None


class CalibratedMachine(Machine):
    """What was measured, and what it reaches."""

    memory: Count = Field(alias="memory_bytes")
    copy_bytes_per_s: Rate
    matmul_flops_per_s: Rate


class CalibratedModel(Model):
    """What the steps were timed on."""

    name: str
    num_layers: Count
    hidden_size: Count
    num_heads: Count
    num_kv_heads: Count
    head_dim: Count
    intermediate_size: Count
    vocab_size: Count
    dtype: str
    kv_cache_dtype: str
    kv_bytes_per_token: float
    block_size: Count


class FittedConstants(Model):
    """Those of the latency model."""

    flops_per_s: Rate
    bytes_per_s: Rate
    layer_overhead_s: Seconds
    request_overhead_s: Seconds
    step_overhead_s: Seconds


class Residuals(Model):
    """How far predictions are off, as parts of the measured times; over no points at all, both are 0."""

    points: Count
    median: float
    worst: float


class BothResiduals(Model):
    """Of the points in the fit, and of those held out of it."""

    fit: Residuals
    held_out: Residuals


class CalibrationPoint(Model):
    """A step that was timed; `work` are the tokens of each request computed before, and those computed now."""

    work: list[tuple[int, int]]
    layers: Count
    held_out: bool
    seconds: Seconds
    predicted_s: Seconds


class CalibrationDocument(Model):
    """Constants of the latency model for a machine, and everything that they were fitted to."""

    kind: Literal["kvtool-calibration"] = "kvtool-calibration"
    version: Literal[1] = 1
    date: str
    machine: CalibratedMachine
    model: CalibratedModel
    constants: FittedConstants
    residuals: BothResiduals
    points: list[CalibrationPoint] = Field(repr=False)
