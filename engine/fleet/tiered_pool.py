"""The blocks of a replica with tiers below: the tiers receive the GPU's evictions and new contents."""

from __future__ import annotations

from kvtool.engine.fleet.replica_blocks import Name, ReplicaPool
from kvtool.engine.fleet.tier import TierStack


class TieredPool(ReplicaPool):
    """A `ReplicaPool` above a stack; content that only one request can ask for stays out of the stack."""

    def __init__(self, num_blocks: int | None, stack: TierStack) -> None:
        super().__init__(num_blocks)
        self._stack = stack

    def _forget(self, blocks: list[int]) -> None:
        names = [self._contents[block] for block in blocks]
        super()._forget(blocks)
        for name in names:
            if name is not None and name >= 0 and name not in self._cached:
                self._stack.evicted(name)

    def enter(self, blocks: list[int], names: list[Name]) -> None:
        super().enter(blocks, names)
        self._stack.loaded(names)
