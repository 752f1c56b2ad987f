"""The pool of blocks, as the rules of one group of layers see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.config import EngineConfig
from kvtool.engine.groups.group_table import GroupTable
from kvtool.engine.groups.keyed_blocks import KeyedBlocks
from kvtool.engine.request import Request

if TYPE_CHECKING:
    from kvtool.engine.groups.kv_group import CachePlan


class GroupOfPool(Protocol):
    """A group of layers, as the pool sees it."""

    index: int
    tag: bytes
    size: int
    scale: int
    keeps_all: bool


class GroupPool(Protocol):
    """Gives blocks to groups, takes them back, and registers their contents; `GroupedManager` is one."""

    config: EngineConfig
    plan: CachePlan
    keys: KeyedBlocks
    in_flight_tokens: int
    kept: dict[tuple[int, int, int], list[int] | None]

    def hold(self, blocks: list[int]) -> None:
        """Add a user to each of the blocks."""
        ...

    def num_waking(self, blocks: list[int]) -> int:
        """Return the number of these blocks that are not in use."""
        ...

    def take(self, count: int) -> list[int]:
        """Take so many blocks from the head of the free queue."""
        ...

    def release(self, blocks: list[int]) -> None:
        """Take a user from each of the blocks; those without any are free."""
        ...

    def is_shared(self, block: int) -> bool:
        """Return whether a block has several users."""
        ...

    def copy_later(self, group: GroupOfPool, source: int, target: int) -> None:
        """Copy a block of a group before the step runs."""
        ...

    def forget(self, block: int) -> None:
        """Remove a block's content, so that it cannot be hit."""
        ...

    def store_full(
        self, request: Request, group: GroupOfPool, table: GroupTable, first: int, stop: int, kept: list[int] | None
    ) -> None:
        """Register the full blocks at the places [first, stop) of a table, or only the `kept` ones."""
        ...

    def store_part(
        self, request: Request, group: GroupOfPool, block: int, tokens: int, *, anew: bool = False
    ) -> BlockHash | None:
        """Register a block under its first `tokens` tokens of the request; return the key."""
        ...
