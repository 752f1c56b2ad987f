"""What a device can do at best: bytes copied and FLOPs of a matrix product per second, measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from kvtool.measure.bench.timing import free_memory, measure, release

_COPIED = 2 << 30
_SIDE = 8192


@dataclass(frozen=True, slots=True)
class Ceilings:
    copy_bytes_per_s: float
    """Of a copy on the device, bytes read and bytes written both counted."""
    matmul_flops_per_s: float
    """Of a bf16 matrix product of random numbers: zeros are faster."""

    def memory_floor(self, num_bytes: float) -> float:
        """Seconds that moving so many bytes takes at least."""
        return num_bytes / self.copy_bytes_per_s

    def compute_floor(self, flops: float) -> float:
        """Seconds that so many FLOPs take at least."""
        return flops / self.matmul_flops_per_s


def measure_ceilings(device: torch.device, *, small: bool = False, seconds: float = 0.5) -> Ceilings:
    """Takes two to four gigabytes on CUDA; `small` is a matter of milliseconds anywhere, and no measure of anything large."""
    size = 1 << 20 if small else min(_COPIED, free_memory(device) // 8)
    source = torch.randint(0, 256, (2, size), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copied = measure(
        [partial(new.copy_, old) for new, old in zip(target, source, strict=True)], device, seconds=seconds
    )
    del source, target
    release(device)
    side = 256 if small else _SIDE
    a, b = (torch.randn(side, side, device=device).to(torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    product = measure([lambda: torch.mm(a, b, out=out)], device, seconds=seconds)
    return Ceilings(2 * size / copied.seconds, 2 * side**3 / product.seconds)
