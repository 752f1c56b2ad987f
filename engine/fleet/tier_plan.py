"""The tiers below a replica's GPU: size, speed and rules."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from kvtool.engine.engine_error import EngineError
from kvtool.engine.fleet.tier import TierStack
from kvtool.engine.fleet.tier_rules import DISK_BANDWIDTH, HOST_BANDWIDTH, TIER_RULES, TierRules, TierTakes


@dataclass(frozen=True, slots=True, kw_only=True)
class TierPlan:
    """Blocks and bytes per second of one replica; a level without blocks, or without bandwidth, is none."""

    block_bytes: float
    """Keys and values of a block, of the whole model."""
    host_blocks: int = 0
    disk_blocks: int = 0
    host_bandwidth: float = HOST_BANDWIDTH
    disk_bandwidth: float = DISK_BANDWIDTH
    host_latency: float = 0.0
    disk_latency: float = 0.0
    takes: TierTakes = "always"
    rules: TierRules = TIER_RULES["vllm"]

    def __post_init__(self) -> None:
        for name in ("host_blocks", "disk_blocks", "host_bandwidth", "disk_bandwidth", "host_latency", "disk_latency"):
            if not getattr(self, name) >= 0:
                raise EngineError(f"{name.replace('_', ' ')} must not be negative: {getattr(self, name)}")
        if not 0 < self.block_bytes < inf:
            raise EngineError(f"a block must have more than 0 bytes, not {self.block_bytes:g}")

    @property
    def host(self) -> int:
        """Blocks that are there to be loaded."""
        return self.host_blocks if self.host_bandwidth else 0

    @property
    def disk(self) -> int:
        return self.disk_blocks if self.disk_bandwidth else 0

    def stack(self) -> TierStack:
        """Empty levels."""
        return TierStack(self.host, self.disk, writes=self.rules.writes)
