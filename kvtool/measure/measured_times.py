"""What real runs on this machine gave, as reports show it; a saved result holds as much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtool.accounting.quantiles import Quantiles

if TYPE_CHECKING:
    from kvtool.measure.audit import AuditResult


@dataclass(frozen=True, slots=True)
class DecodeTimes:
    """Median seconds of a decode step of the same requests; with prefix-aware attention, where that was measured, too."""

    requests: int
    tokens: float
    """Of the context of a request when the first step was timed."""
    steps: int
    flat_seconds: float
    sharing_seconds: float | None


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """Quantiles of the time to the first token, with the cache and without, and what they are of; fields as in `Measured`."""

    on: Quantiles | None
    off: Quantiles | None
    requests: int
    prompt_tokens: int
    hit_tokens: int
    complete: bool
    reason: str
    exact: bool
    reuse: AuditResult | None
    price: AuditResult | None
    device: str
    kernels: str
    shortfall: str
    too_large: int
    decode: DecodeTimes | None
