"""Quantiles of times, as every report gives them."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from kvtool.results.run_times import Interval, Quantiles

QUANTILES = (0.5, 0.9, 0.99)


def median_interval(seconds: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Return the narrowest interval of two measured values, as far from both ends, that contains the median with `confidence`.

    It assumes nothing of the distribution: the number of values below the median is binomial with p = 1/2 (the sign test's
    interval). None for fewer than 6 values, of which no two are enough for 95 %.
    """
    count = len(seconds)
    outside, left = 0.0, -1
    while left + 1 < count - left - 1 and 2 * (outside + comb(count, left + 1) / 2**count) <= 1 - confidence:
        left += 1
        outside += comb(count, left) / 2**count
    if left < 0:
        return None
    values = sorted(seconds)
    return Interval(low=values[left], high=values[count - 1 - left])


def quantiles(seconds: Sequence[float]) -> Quantiles | None:
    """Return p50, p90 and p99 of a set of times; None if it is empty."""
    if not len(seconds):
        return None
    p50, p90, p99 = (float(value) for value in np.quantile(np.asarray(seconds), QUANTILES))
    return Quantiles(p50=p50, p90=p90, p99=p99)
