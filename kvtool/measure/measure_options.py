"""Options of a measured run; apart from `measure`, which imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvtool.engine.config import DecodeMode
from kvtool.engine.kv_dtype import AUTO

MODEL_DTYPES = (AUTO, "float32", "float", "fp32", "bfloat16", "bf16", "float16", "half", "fp16")
"""What `--dtype` takes: the names that `engine.model.weights`, which imports torch, knows."""


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """Options of a measurement; `model` None is the embedded one."""

    budget: float
    model: str | None = None
    load_format: Literal["auto", "dummy"] = "auto"
    dtype: str = "auto"
    kv_cache_dtype: str = AUTO
    device: str = "auto"
    decode_attention: DecodeMode = "auto"
    audit: bool = False
    asked: bool = False
    """It was asked for, so that it is an error where nothing can be measured; else that is reported in a line."""
