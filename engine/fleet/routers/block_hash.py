"""Prompts that begin alike go to one replica: a hash of one of their first blocks, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import xxhash

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, ReplicaView
from kvtool.engine.fleet.routers.router_kind import RouterKind, RuleRouter


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockHashSettings:
    """The number of the block that decides."""

    block: int = 0
    """Its place in the prompt, from 0; a shorter prompt is decided by its last."""

    def router(self, seed: int) -> FleetRouter:
        """Return the seed is that of the hash."""
        return BlockHashRouter(self, seed)


class BlockHashRouter(RuleRouter):
    """Choose by a hash of one block, which identifies all tokens up to its end."""

    def __init__(self, settings: BlockHashSettings, seed: int) -> None:
        super().__init__()
        self._block = settings.block
        self._seed = seed

    def choose(self, request: FleetRequest, replicas: Sequence[ReplicaView], now: float) -> int:
        """Return a prompt without a full block goes to the first replica."""
        blocks = request.blocks
        if not blocks:
            return replicas[0].number
        block = blocks[min(self._block, len(blocks) - 1)]
        place = xxhash.xxh3_64_intdigest(block.to_bytes(8, "little", signed=True), self._seed)
        return replicas[place % len(replicas)].number


FIRST_BLOCK_HASH = RouterKind(
    "first-block-hash",
    "hash of the prompt's first block; ignores load",
    "",
    (),
    "routed",
    BlockHashSettings(),
)
