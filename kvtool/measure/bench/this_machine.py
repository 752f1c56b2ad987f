"""The machine: names, versions, and the best that its device reaches."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from kvtool.engine.model.device import choose_kernels, device_name
from kvtool.measure.bench.timing import free_memory, measure, release

if TYPE_CHECKING:
    from kvtool.results.documents.calibrated import Machine  # pydantic, which machines for kernels alone need not have

_COPIED = 2 << 30  # bytes: far larger than a GPU's L2 cache
_SIDE = 8192  # of square matrices: large enough to reach a GPU's best rate
_CPU_COPIED = 64 << 20  # larger than what a core's caches hold
_SIDES = {"cpu": 1024, "cuda": 8192}


@dataclass(frozen=True, slots=True)
class Ceilings:
    copy_bytes_per_s: float
    """Of a copy on the device, bytes read and bytes written both counted."""
    matmul_flops_per_s: float
    """Of a bf16 matrix product of random numbers: zeros are faster."""

    def memory_floor(self, num_bytes: float) -> float:
        """Return seconds that moving so many bytes takes at least."""
        return num_bytes / self.copy_bytes_per_s

    def compute_floor(self, flops: float) -> float:
        """Return seconds that so many FLOPs take at least."""
        return flops / self.matmul_flops_per_s


def measure_ceilings(device: torch.device, *, small: bool = False, seconds: float = 0.5) -> Ceilings:
    """Measure the ceilings: takes two to four gigabytes on CUDA; `small` is a matter of milliseconds anywhere, and no measure
    of anything large."""
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


def describe_machine(device: torch.device) -> Machine:
    """Return names and versions, as a calibration keeps them."""
    from kvtool.results.documents.calibrated import Machine

    choice = choose_kernels(device)
    on_gpu = device.type == "cuda"
    threads = torch.get_num_threads()
    name = device_name(device) if on_gpu else f"{_cpu_name()}, {threads} {'thread' if threads == 1 else 'threads'}"
    return Machine(
        device=name,
        type=device.type,
        memory=_memory(device),
        threads=threads,
        kernels="triton" if choice.triton else "torch",
        python=platform.python_version(),
        torch=torch.__version__,
        triton=importlib.metadata.version("triton") if choice.triton else None,
        driver=_driver() if on_gpu else None,
    )


def _cpu_name() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # no Linux
        info = ""
    found = re.search(r"^model name\s*:\s*(\S.*)$", info, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine() or "CPU"


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _driver() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", text)
    return found[0] if found else None


def ceilings(device: torch.device, dtype: torch.dtype, *, seconds: float) -> Ceilings:
    """Return bytes copied, and FLOPs of a matrix product in `dtype`, per second; each is measured for about `seconds`."""
    if device.type == "cuda":
        found = measure_ceilings(device, seconds=seconds)
        return found if dtype == torch.bfloat16 else Ceilings(found.copy_bytes_per_s, _product(device, dtype, seconds))
    source = torch.zeros(_CPU_COPIED, dtype=torch.uint8)
    target = torch.ones_like(source)
    copied = measure([lambda: target.copy_(source)], device, seconds=seconds)
    return Ceilings(2 * _CPU_COPIED / copied.seconds, _product(device, dtype, seconds))


def _product(device: torch.device, dtype: torch.dtype, seconds: float) -> float:
    side = _SIDES[device.type]
    a, b = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    return 2 * side**3 / measure([lambda: torch.mm(a, b, out=out)], device, seconds=seconds).seconds
