"""Times of a profiled workload: to the first token, of decode steps, and what real runs say of logits. In seconds."""

from __future__ import annotations

from typing import Literal

from kvtool.results.document_base import Count, Model, Ratio, Seconds


class Quantiles(Model):
    """Of times, in seconds."""

    p50: Seconds
    p90: Seconds
    p99: Seconds


class OnOff(Model):
    """With the prefix cache and without."""

    on: Quantiles | None
    off: Quantiles | None


class Interval(Model):
    """Interval that contains a median with 95 % confidence, in seconds."""

    low: Seconds
    high: Seconds


class Flip(Model):
    """A token that reuse of KV would have changed."""

    request: str
    position: int
    expected: int
    actual: int
    margin: float | None
    difference: float | None


class Logits(Model):
    """Two sets of logits compared; what is infinite or unknown is None."""

    requests: Count
    tokens: Count
    max_difference: float | None
    relative_error: float | None
    least_margin: float | None
    flips: list[Flip]


class Measured(OnOff):
    """TTFT of real forward passes on the machine where the profile was made: of requests drawn from all of the run.

    `hit_tokens` are the cached tokens of the sample; the intervals are of the medians, None for fewer than 6 requests.
    """

    on_interval: Interval | None = None
    off_interval: Interval | None = None
    requests: Count
    prompt_tokens: Count
    hit_tokens: Count
    complete: bool
    exact: bool
    audit: Logits | None
    kv_cache_dtype_error: Logits | None
    device: str
    reason: str
    kernels: str
    shortfall: str
    too_large_requests: Count


class Ttft(Model):
    measured: Measured | None
    predicted: OnOff


class PredictedTpot(Model):
    flat: Seconds
    prefix_aware: Seconds


class MeasuredTpot(Model):
    requests: Count
    tokens_mean: float
    steps: Count
    flat: Seconds
    prefix_aware: Seconds | None


class Tpot(Model):
    predicted: PredictedTpot
    measured: MeasuredTpot | None


class Decode(Model):
    """Of a decode step: bytes of keys and values that it reads, and seconds that it takes."""

    batch: float
    tokens_mean: float
    sampled: Literal["steps", "windows"]
    samples: Count
    sampled_of: Count
    flat_bytes_per_step: Count
    prefix_aware_bytes_per_step: Count
    decode_attention: str
    chosen: str
    prefix_aware_share: Ratio
    tpot: Tpot
