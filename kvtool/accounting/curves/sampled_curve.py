"""The capacity curve of a sample of blocks, with its error (Waldspurger et al., SHARDS, FAST 2015).

A block is in the sample if a hash of its number is small enough. The hash alone decides, so the sampled part of a chain is a
chain. Further bits of the hash divide the sample into `PARTS`. Each part gives a curve of its own; their differences give the
error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvtool.accounting.curves.capacity_curve import CapacityCurve, capacity_curve
from kvtool.workload.block_trace import Numbers, RequestedBlocks

PARTS = 8
"""Parts of a sample: enough to estimate its error, and few enough that each has many blocks."""
_BITS = 32
"""Bits of the hash that the sampling rate is compared with."""
_AT_A_TIME = 1 << 20
"""Numbers hashed at once: 8 MiB for each temporary array."""
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Constants of SplitMix64."""


@dataclass(frozen=True, slots=True)
class SampledCurve:
    """Curves of the parts; a capacity and a hit of each represent `scale` of the whole."""

    parts: tuple[CapacityCurve, ...]
    missing: tuple[float, ...]
    """Missing (or surplus) hits of an unlimited cache, by part.

    They are corrected at the smallest distance: the few blocks that all prompts share are there, and chance decides whether a part
    has them (SHARDS-adj of the paper).
    """
    scale: float
    references: int

    def rate(self, capacity: int) -> float:
        """Return part of the references that hit in a cache of so many blocks."""
        return float(np.mean(self._rates(capacity)))

    def error(self, capacity: int) -> float:
        """Return two standard errors of `rate`."""
        rates = self._rates(capacity)
        return float(2 * np.std(rates, ddof=1) / np.sqrt(len(rates)))

    def _rates(self, capacity: int) -> npt.NDArray[np.float64]:
        if not self.references or capacity < 1:
            return np.zeros(len(self.parts))
        hits = [
            self.scale * part.at(round(capacity / self.scale)) + missing
            for part, missing in zip(self.parts, self.missing, strict=True)
        ]
        return np.clip(np.array(hits) / self.references, 0.0, 1.0)


def sampled_curve(blocks: RequestedBlocks, rate: float) -> SampledCurve:
    """Return the curve from a part of the blocks, `rate` of them; deterministic."""
    chosen, part_of = _sampled(blocks.numbers, rate)
    sample = _Sample(
        blocks.numbers[chosen],
        part_of,
        requests := np.searchsorted(blocks.starts, chosen, side="right") - 1,
        chosen - blocks.starts[requests] < blocks.asked[requests],
        len(blocks.asked),
    )
    scale = PARTS / rate
    curves = [capacity_curve(sample.part(part)) for part in range(PARTS)]
    unlimited = blocks.reachable
    missing = tuple(unlimited - scale * curve.unlimited for curve in curves)
    return SampledCurve(tuple(curves), missing, scale, blocks.references)


@dataclass(frozen=True, slots=True)
class _Sample:
    """References to sampled blocks, in their order: the part, the request, and whether it looked the block up."""

    numbers: Numbers
    part_of: npt.NDArray[np.uint8]
    requests: Numbers
    asked: npt.NDArray[np.bool_]
    num_requests: int

    def part(self, part: int) -> RequestedBlocks:
        """Return one part's references, of the requests that have any."""
        kept = self.part_of == part
        requests = self.requests[kept]
        counts = np.bincount(requests, minlength=self.num_requests)
        looked = np.bincount(requests[self.asked[kept]], minlength=self.num_requests)
        there = counts > 0
        numbers = np.unique(self.numbers[kept], return_inverse=True)[1].astype(np.int64)
        return RequestedBlocks(numbers, np.concatenate([[0], np.cumsum(counts[there])]), looked[there])


def _sampled(numbers: Numbers, rate: float) -> tuple[Numbers, npt.NDArray[np.uint8]]:
    """Return the places and parts of the sampled blocks; so many at a time, because hashes take room."""
    places, parts = [np.empty(0, np.int64)], [np.empty(0, np.uint8)]
    for first in range(0, len(numbers), _AT_A_TIME):
        bits = _hashed(numbers[first : first + _AT_A_TIME])
        chosen = np.flatnonzero(bits >> np.uint64(64 - _BITS) < np.uint64(round(rate * (1 << _BITS))))
        places.append(first + chosen)
        parts.append((bits[chosen] & np.uint64(PARTS - 1)).astype(np.uint8))
    return np.concatenate(places), np.concatenate(parts)


def _hashed(numbers: Numbers) -> npt.NDArray[np.uint64]:
    """Return 64 random-looking bits for each number (the finalizer of SplitMix64)."""
    bits = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(multiplier)
    return bits ^ (bits >> np.uint64(31))
