"""Quantiles of times, as every report gives them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvtool.results.run_times import Quantiles

QUANTILES = (0.5, 0.9, 0.99)


def quantiles(seconds: Sequence[float]) -> Quantiles | None:
    """Return p50, p90 and p99 of a set of times; None if it is empty."""
    if not len(seconds):
        return None
    p50, p90, p99 = (float(value) for value in np.quantile(np.asarray(seconds), QUANTILES))
    return Quantiles(p50=p50, p90=p90, p99=p99)
