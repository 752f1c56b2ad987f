"""Accelerators that users serve on, with the peak figures of their data sheets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from kvtool.engine.engine_error import EngineError

_GIB = 1 << 30  # data sheets write GB for this; drivers report 1 to 2 % less


class BatchLimits(NamedTuple):
    """Limits of one step."""

    max_num_batched_tokens: int
    max_num_seqs: int


BATCH_LIMITS_SOURCE = "vLLM 0.33's API server"
"""`EngineArgs.get_batch_defaults` in vllm/engine/arg_utils.py; 0.32 has the same for these. Offline, `LLM` has other defaults."""

_BATCH_LIMITS = ((160 * _GIB, BatchLimits(16_384, 1_024)), (70 * _GIB, BatchLimits(8_192, 1_024)))
"""Limits by the least memory of the accelerator."""
_SMALL_BATCHES = BatchLimits(2_048, 256)


def batch_limits_with(memory: int) -> BatchLimits:
    """Return vLLM's defaults on an accelerator of so many bytes; an A100 has others."""
    return next((limits for least, limits in _BATCH_LIMITS if memory >= least), _SMALL_BATCHES)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Peak figures: dense bf16 FLOP/s with fp32 accumulation, memory B/s, memory bytes."""

    name: str
    flops: float
    bandwidth: float
    memory: int
    source: str
    link: float = 0.0
    """B/s to the other accelerators of a server, in one direction; 0: not known."""
    flash_attention_2: int = 0
    """Multiprocessors of an accelerator on which vLLM attends with FlashAttention 2; 0: with something else."""
    compute_efficiency: float = 0.78
    """The part of the peak that large matrix products reach; unless given, measured on one of these, the RTX PRO 6000 Server
    Edition."""

    def collective_bandwidth(self, efficiency: float) -> float:
        """Return the B/s of collectives that reach this part of the link."""
        reached = self.link * efficiency
        return reached if self.link > _PCIE_5 else min(reached, _THROUGH_HOST)

    @property
    def batch_limits(self) -> BatchLimits:
        """Return vLLM's defaults. An A100 has small batches for any memory, because larger ones are slower there."""
        if self.name.startswith("a100"):
            return _SMALL_BATCHES
        return batch_limits_with(self.memory)


_NVLINK_3, _NVLINK_4, _NVLINK_5 = 300e9, 450e9, 900e9  # half of 600, 900 and 1,800 GB/s, which count both directions
_PCIE_4, _PCIE_5 = 32e9, 64e9  # 16 lanes, one direction
_THROUGH_HOST = 16e9
"""B/s between cards without NVLink in different NUMA domains of an AMD host, for any PCIe: the constant `AMD_BW` by which NVIDIA's
NCCL chooses its channels (src/graph/topo.h). Cards in one domain, or on Intel hosts, may reach twice as much."""
_ABOVE_THE_SHEET = 1.0
"""The RTX 4090's clock goes beyond that of its sheet. Of its 165.2 TFLOP/s, vLLM's products of Llama-3.1-8B reach 0.99 to 1.00 with
1,024 and 2,048 tokens (LLMServingSim, profiler/perf/RTX4090); torch's of 2,048² to 10,240² numbers reach 0.92 to 1.00
(zzc0721/torch-performance-test-data, issue 78) and 0.96 to 1.01 (mli/transformers-benchmarks, issue 4)."""

ACCELERATORS = {
    accelerator.name: accelerator
    for accelerator in (
        Accelerator(
            "a100-80g", 312e12, 2.039e12, 80 * _GIB,
            "NVIDIA A100 80GB data sheet, SXM: 312 TFLOP/s bf16, 2,039 GB/s, NVLink 600 GB/s", _NVLINK_3, 108,
        ),
        Accelerator(
            "h100", 989.4e12, 3.35e12, 80 * _GIB,
            "NVIDIA H100 data sheet, SXM: 1,979 TFLOP/s bf16 with sparsity, half dense; 3.35 TB/s; NVLink 900 GB/s",
            _NVLINK_4,
        ),
        Accelerator(
            "h200", 989.4e12, 4.8e12, 141 * _GIB,
            "NVIDIA H200 data sheet, SXM: 1,979 TFLOP/s bf16 with sparsity, half dense; 4.8 TB/s; NVLink 900 GB/s",
            _NVLINK_4,
        ),
        Accelerator(
            "b200", 2250e12, 8e12, 180 * _GIB,
            "1/8 of NVIDIA HGX B200 (36 PFLOP/s bf16 with sparsity, half dense) and of NVIDIA DGX B200's data sheet "
            "(64 TB/s, 1,440 GB); NVLink 1.8 TB/s",
            _NVLINK_5,
        ),
        Accelerator(
            "l4", 121e12, 0.3e12, 24 * _GIB,
            "NVIDIA L4 data sheet: 242 TFLOP/s bf16 with sparsity, half dense; 300 GB/s; PCIe 4.0 x16", _PCIE_4, 58,
        ),
        Accelerator(
            "l40s", 362.05e12, 0.864e12, 48 * _GIB,
            "NVIDIA L40S data sheet: 362.05 TFLOP/s bf16 without sparsity, 864 GB/s, PCIe 4.0 x16", _PCIE_4, 142,
        ),
        Accelerator(
            "rtx-4090", 165.2e12, 1.008e12, 24 * _GIB,
            "NVIDIA Ada GPU architecture white paper: 165.2 TFLOP/s bf16 with fp32 accumulation, 1,008 GB/s, PCIe 4.0 x16",
            _PCIE_4, 128, _ABOVE_THE_SHEET,
        ),
        Accelerator(
            "rtx-pro-6000", 503.8e12, 1.792e12, 96 * _GIB,
            "NVIDIA RTX Blackwell PRO architecture white paper, Workstation Edition: 503.8 TFLOP/s bf16 with fp32 accumulation; "
            "data sheet: 1,792 GB/s, PCIe 5.0 x16",
            _PCIE_5, 188,
        ),
        Accelerator(
            "rtx-pro-6000-se", 480e12, 1.597e12, 96 * _GIB,
            "NVIDIA RTX PRO 6000 Blackwell Server Edition data sheet: 120 TFLOP/s fp32; bf16 is four times that on this chip "
            "(the sheet has no bf16 figure of its own); 1,597 GB/s; PCIe 5.0 x16",
            _PCIE_5, 188,
        ),
        Accelerator(
            "mi300x", 1307.4e12, 5.3e12, 192 * _GIB,
            "AMD Instinct MI300X data sheet: 1,307.4 TFLOP/s bf16 without sparsity, 5.3 TB/s, seven Infinity Fabric links of "
            "128 GB/s both ways",
            448e9,
        ),
    )
}  # fmt: skip

_ALIASES = {
    "a100": "a100-80g",
    "a10080gb": "a100-80g",
    "a100sxm480gb": "a100-80g",
    "h100sxm": "h100",
    "h10080gbhbm3": "h100",
    "4090": "rtx-4090",
    "pro6000": "rtx-pro-6000",
    "rtxpro6000blackwell": "rtx-pro-6000",
    "rtxpro6000blackwellworkstationedition": "rtx-pro-6000",
    "rtxpro6000server": "rtx-pro-6000-se",
    "rtxpro6000blackwellserveredition": "rtx-pro-6000-se",
    "mi300": "mi300x",
}
"""Short names and CUDA's names of the devices, without makers, spaces and hyphens."""


def find_accelerator(name: str) -> Accelerator:
    """Return an accelerator by its name, a short one or the driver's; case, spaces, hyphens and the maker's name do not matter."""
    wanted = re.sub(r"nvidia|geforce|amd|instinct|[\s_-]", "", name.lower())
    wanted = _ALIASES.get(wanted, wanted)
    for accelerator in ACCELERATORS.values():
        if wanted in (accelerator.name, accelerator.name.replace("-", "")):
            return accelerator
    raise EngineError(f"unknown accelerator `{name}`", hint=f"use one of {', '.join(ACCELERATORS)}")
