"""The rules by which engines keep blocks below the GPU, with their versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvtool.engine.fleet.tier import TierWrites

TierRuleName = Literal["vllm", "sglang", "dynamo"]
TierTakes = Literal["always", "cheaper"]
"""Loading of blocks below: always, or only if it takes less time than computing."""

HOST_BANDWIDTH, DISK_BANDWIDTH = 14e9, 7e9
"""Defaults in bytes per second: Dynamo's mocker has them for its links G1-G2 and G2-G3."""


@dataclass(frozen=True, slots=True)
class TierRules:
    """The rules of one engine. All engines load every block that they find; none checks whether computing is faster."""

    name: TierRuleName
    writes: TierWrites
    answers: bool
    """True if blocks of answers are written, too."""
    host_blocks: int | None
    """The engine's default; None: the user must give it."""
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
            left_out="ARC, store_threshold above 1, chunks of several blocks, write times",
        ),
        TierRules(
            "sglang", "store", answers=True, host_blocks=None, host_times_gpu=2.0,
            source="SGLang 0.5.23: HiCache, --hicache-ratio 2, write_through; less than 10 tokens are not loaded",
            left_out="loading layers during computation, write_through_selective, write times",
        ),
        TierRules(
            "dynamo", "eviction", answers=True, host_blocks=100_000, host_times_gpu=None,
            source="ai-dynamo/dynamo lib/mocker/src/kvbm_offload/config.rs: 100,000 blocks, 14 and 7 GB/s, batches of 32",
            left_out="batches, write times, copies that stay in the lower tier, disks that replicas share",
        ),
    )
}  # fmt: skip
