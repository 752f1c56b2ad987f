"""Hits of an unlimited cache whose blocks live for a time after their last use, for all such times in one pass."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvtool.workload.block_trace import RequestedBlocks


@dataclass(frozen=True, slots=True)
class LifetimeCurve:
    """Gaps between uses in ascending order, in seconds, and the blocks that were used after them."""

    gaps: npt.NDArray[np.float64]
    uses: npt.NDArray[np.int64]
    references: int

    def at(self, ttl: float) -> int:
        """Return the blocks that hit if blocks unused for longer than `ttl` seconds are dropped."""
        return int(self.uses[: int(np.searchsorted(self.gaps, ttl, side="right"))].sum())

    def rate(self, ttl: float) -> float:
        """Return part of the references that hit."""
        return self.at(ttl) / self.references if self.references else 0.0


def lifetime_curve(blocks: RequestedBlocks, arrivals: npt.NDArray[np.float64]) -> LifetimeCurve:
    """Return the curve of requests in the order of their arrivals (seconds, none of them NaN).

    Along a chain the last use is never later, so a gap is at least as long as those before it, and the hit is a prefix.
    """
    last = np.full(int(blocks.numbers.max(initial=-1)) + 1, np.nan)
    starts = blocks.starts.tolist()
    gaps, uses = array("d"), array("q")
    for request, (now, asked) in enumerate(zip(arrivals.tolist(), blocks.asked.tolist(), strict=True)):
        chain = blocks.numbers[starts[request] : starts[request + 1]]
        before = last[chain[:asked]]
        known = before[~np.isnan(before)]
        at = 0
        while at < len(known):  # stretches that one request used last of all
            stop = at + int(np.searchsorted(-known[at:], -known[at], side="right"))
            gaps.append(now - float(known[at]))
            uses.append(stop - at)
            at = stop
        last[chain] = now
    order = np.argsort(np.array(gaps), kind="stable")
    return LifetimeCurve(np.array(gaps)[order], np.array(uses, dtype=np.int64)[order], blocks.references)
