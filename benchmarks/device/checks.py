"""Whether kernels are right: what a check found, how far off it may be, and in which order cases cover the most."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import TypeVar

import torch

from kvtool.kernels.kv_quantization import MAXIMA
from kvtool.measure.bench.attention import SHORT
from kvtool.measure.bench.timing import synchronize

BOUNDS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
"""Relative errors that results in a type may have: float32 products must not be tf32, for which 3e-4 is usual."""

QUANTIZED_BOUND = 5e-3
"""Of what is computed in half precision from an 8-bit cache, against that cache in float64."""


Case = TypeVar("Case", bound=Sequence[Hashable])


def bound(dtype: torch.dtype, cache_dtype: torch.dtype | None = None) -> float:
    """For results of type `dtype` that were computed from a cache of the other."""
    if cache_dtype in MAXIMA and dtype != torch.float32:
        return QUANTIZED_BOUND
    return BOUNDS[dtype]


@dataclass(frozen=True, slots=True)
class Check:
    """One result of one kernel, compared."""

    kernel: str
    dtype: str
    case: str
    error: float
    """NaN where there is no result."""
    bound: float
    note: str = field(default="", compare=False)
    """What was raised, or what is wrong besides the error."""

    @property
    def ok(self) -> bool:
        return self.error <= self.bound and not self.note


class DeviceLostError(RuntimeError):
    """After a fault on the device, nothing more can be computed in this process."""


def checked(
    kernel: str, dtype: torch.dtype, case: str, device: torch.device, run: Callable[[], Iterable[Check]]
) -> Iterator[Check]:
    """The checks that `run` makes, or one that says what it raised; DeviceLostError behind it where the device is gone."""
    try:
        yield from run()
        synchronize(device)
    except Exception as error:  # a kernel that does not compile raises anything
        lines = traceback.format_exception(error)
        yield Check(kernel, SHORT[dtype], case, float("nan"), 0.0, "".join(lines)[-2000:])
        try:
            synchronize(device)
        except RuntimeError as lost:
            raise DeviceLostError(f"{kernel} {case}: {lost}") from lost


def covering(*values: Sequence[Hashable], seed: int = 0) -> list[tuple[Hashable, ...]]:
    """All combinations, ordered so that early ones hold as many pairs of values as they can which no earlier one held."""
    left = list(product(*values))
    random.Random(seed).shuffle(left)
    seen: set[object] = set()
    ordered = []
    while left:
        best = max(range(len(left)), key=lambda index: len(_pairs(left[index]) - seen))
        chosen = left.pop(best)
        seen |= _pairs(chosen)
        ordered.append(chosen)
    return ordered


def _pairs(case: tuple[Hashable, ...]) -> set[object]:
    return set(combinations(enumerate(case), 2))
