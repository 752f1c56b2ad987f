"""Quantiles of times, as every report gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """p50, p90 and p99 of a set of times, in seconds."""

    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Quantiles | None:
        """None where there are none."""
        if not len(seconds):
            return None
        return cls(*(float(value) for value in np.quantile(np.asarray(seconds), QUANTILES)))
