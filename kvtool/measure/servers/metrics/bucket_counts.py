"""A histogram as /metrics has it: how many observations are at most each bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from kvtool.measure.servers.metrics.exposition import MetricSample
from kvtool.text.bounded_number import finite_number


@dataclass(frozen=True, slots=True)
class BucketCounts:
    """`counts[i]` observations are at most `bounds[i]`; the last bound is infinite. `total` is the sum of what was observed."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total: float = 0.0

    @property
    def count(self) -> float:
        """How many observations."""
        return self.counts[-1] if self.counts else 0.0

    @property
    def mean(self) -> float | None:
        """None where nothing was observed."""
        return self.total / self.count if self.count > 0 else None

    def minus(self, before: BucketCounts) -> BucketCounts | None:
        """What was observed since; None where bounds differ or a count fell."""
        if self.bounds != before.bounds:
            return None
        counts = tuple(now - then for now, then in zip(self.counts, before.counts, strict=True))
        return (
            None if any(count < 0 for count in counts) else BucketCounts(self.bounds, counts, self.total - before.total)
        )

    def plus(self, other: BucketCounts) -> BucketCounts:
        """Both; this one alone where bounds differ."""
        if self.bounds != other.bounds:
            return self
        counts = tuple(one + more for one, more in zip(self.counts, other.counts, strict=True))
        return BucketCounts(self.bounds, counts, self.total + other.total)

    def quantile(self, part: float) -> float | None:
        """The value that `part` of all observations do not exceed, on a line within its bucket; None of no observations.

        None of them is negative: so it is at most what the others of at least its size leave of the sum (Markov). Beyond the last
        finite bound nothing is known: that is given.
        """
        if self.count <= 0:
            return None
        rank = part * self.count
        low, below = 0.0, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=True):
            if count >= rank and count > below:
                if bound == inf:
                    return low
                within = low + (bound - low) * max(0.0, rank - below) / (count - below)
                return max(low, min(within, self.total / (self.count - rank))) if rank < self.count else within
            low, below = bound, max(below, count)
        return low


def bucket_counts(buckets: Sequence[MetricSample], sums: Sequence[MetricSample]) -> BucketCounts | None:
    """Of the samples of `…_bucket` and of `…_sum`; those that differ in other labels are added up. None of no buckets."""
    counts: dict[float, float] = {}
    for sample in buckets:
        written = sample.labels.get("le", "")
        bound = inf if written == "+Inf" else finite_number(written, least=0, in_text=True)
        if bound is not None:
            counts[bound] = counts.get(bound, 0.0) + sample.value
    if inf not in counts:
        return None
    bounds = tuple(sorted(counts))
    total = sum(sample.value for sample in sums)
    return BucketCounts(bounds, tuple(counts[bound] for bound in bounds), total)
