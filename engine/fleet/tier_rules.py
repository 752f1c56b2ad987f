"""Rules of engines for blocks below the GPU, with their versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvtool.engine.fleet.tier import TierWrites

TierRuleName = Literal["vllm", "sglang", "dynamo"]
TierTakes = Literal["always", "cheaper"]
"""Whether what lies below is loaded, or only where that takes less time than computing it."""

HOST_BANDWIDTH, DISK_BANDWIDTH = 14e9, 7e9
"""Bytes per second where nobody says them: Dynamo's mocker has them for its links G1-G2 and G2-G3."""


@dataclass(frozen=True, slots=True)
class TierRules:
    """One engine's way. All of them load whatever they find, and none asks whether computing were faster."""

    name: TierRuleName
    writes: TierWrites
    answers: bool
    """Whether blocks of answers are written, too."""
    host_blocks: int | None
    """What the engine takes where nobody says it; None: it has to be said."""
    host_times_gpu: float | None
    """The same as a multiple of the GPU's blocks."""
    source: str
    left_out: str


TIER_RULES: dict[TierRuleName, TierRules] = {
    rules.name: rules
    for rules in (
        TierRules(
            "vllm", "store", answers=False, host_blocks=None, host_times_gpu=None,
            source="vLLM 0.33: v1/kv_offload/cpu (LRU, store_threshold 1, cpu_bytes_to_use has no default), offload_prompt_only",
            left_out="ARC, store_threshold above 1, chunks of several blocks, the time that writes take",
        ),
        TierRules(
            "sglang", "store", answers=True, host_blocks=None, host_times_gpu=2.0,
            source="SGLang 0.5.23: HiCache, --hicache-ratio 2, write_through; what is shorter than 10 tokens is not loaded",
            left_out="layers that are loaded while others are computed, write_through_selective, the time that writes take",
        ),
        TierRules(
            "dynamo", "eviction", answers=True, host_blocks=100_000, host_times_gpu=None,
            source="ai-dynamo/dynamo lib/mocker/src/kvbm_offload/config.rs: 100,000 blocks, 14 and 7 GB/s, batches of 32",
            left_out="batches, the time that writes take, the copy that stays below after a load, disks that replicas share",
        ),
    )
}  # fmt: skip
