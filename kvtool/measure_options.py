"""What a measured run is made of; apart from `measure`, which imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvtool.engine.kv_dtype import AUTO


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """What is measured, and with what; `model` None is the embedded one."""

    budget: float
    model: str | None = None
    load_format: Literal["auto", "dummy"] = "auto"
    dtype: str = "auto"
    kv_cache_dtype: str = AUTO
    audit: bool = False
