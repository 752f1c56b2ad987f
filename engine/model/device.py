"""Choose the device and its kernels; where the faster ones are missing, give the reason."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from kvtool.engine.engine_error import EngineError
from kvtool.kernels import torch_twins
from kvtool.kernels.protocol import Kernels

_CAPABILITY = (8, 0)  # before it there is no bf16 and no asynchronous copy, which the kernels are made for


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """Kernels, and the reason why they are not Triton's; empty for Triton and on CPUs."""

    kernels: Kernels
    shortfall: str = ""

    @property
    def triton(self) -> bool:
        return self.kernels is not torch_twins


def find_device(name: str = "auto") -> torch.device:
    """Return the device; `auto` is the first CUDA device, or the CPU. EngineError for a missing one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # a build without CUDA asserts
        raise EngineError(f"this machine has no device {name!a}", hint="use cpu, or cuda with a GPU") from error
    return device


def device_name(device: torch.device) -> str:
    """Return the device's readable name."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def processors(device: torch.device) -> int:
    """Return the least number of programs that a device runs at once: a GPU's multiprocessors."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


@cache
def choose_kernels(device: torch.device) -> KernelChoice:
    """Return the Triton kernels on NVIDIA GPUs that run them, the torch twins elsewhere.

    Triton needs a compiler and a driver, and reports a missing one only at its first launch. So this launches a small kernel and
    checks its result.
    """
    if device.type != "cuda":
        return KernelChoice(torch_twins)
    if torch.version.hip is not None:
        return KernelChoice(torch_twins, "the Triton kernels were never run on AMD GPUs, so torch computes")
    capability = torch.cuda.get_device_capability(device)
    if capability < _CAPABILITY:
        return KernelChoice(
            torch_twins,
            f"the Triton kernels need compute capability 8.0; this GPU has {capability[0]}.{capability[1]}, so torch computes",
        )
    try:
        from kvtool.kernels.gpu import triton_kernels
    except ImportError as error:
        return KernelChoice(torch_twins, f"Triton cannot be imported ({_short(error)}), so torch computes")
    x = torch.arange(1.0, 65.0, device=device).view(1, 64)
    try:
        with torch.cuda.device(device):
            difference = triton_kernels.rms_norm(x, torch.ones_like(x[0]), 1e-5) - torch_twins.rms_norm(
                x, torch.ones_like(x[0]), 1e-5
            )
        wrong = float(difference.abs().max())
    except Exception as error:
        return KernelChoice(torch_twins, f"Triton does not run on this GPU ({_short(error)}), so torch computes")
    if not wrong < 1e-3:
        return KernelChoice(torch_twins, "Triton computes wrong results on this GPU, so torch computes")
    return KernelChoice(triton_kernels)


def _short(error: Exception) -> str:
    """Return the first line of an error, of bounded length."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:160]
