"""Contents of blocks, for layers in several groups: a content is cached once for each group, and a block may have several keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.cached_blocks import HashedBlocks
from kvtool.engine.blocks.hashing import BlockHasher

_HASH_BYTES = 16
"""Unit of the length of hashes, in bytes; the tag of a group is one more byte."""


class KeyedBlocks(HashedBlocks):
    """Contents by hash and group: a key is a hash with the tag of its group, which is empty for one group.

    `hashes` has the first key of a block, and `more` the others: a block that is filled in part also has the hash of that part.
    `tokens` is the number of a prompt's tokens that the first key covers.
    """

    def __init__(self, num_blocks: int, block_size: int, hasher: BlockHasher) -> None:
        super().__init__(num_blocks, block_size, hasher)
        self.more: dict[int, dict[BlockHash, None]] = {}
        self.tokens = [0] * num_blocks

    @property
    def lookup(self) -> Callable[[bytes], int | None]:
        """Return the function from a key to its block; kept nowhere, as a copy of this object would find the original's blocks."""
        return cast("dict[bytes, int]", self.cached).get

    def grow(self, count: int) -> None:
        super().grow(count)
        self.tokens += [0] * count

    def has_key(self, block: int, key: BlockHash) -> bool:
        """Return whether a block has the content of a key."""
        return self.hashes[block] == key or key in self.more.get(block, ())

    def put(self, block: int, key: BlockHash, tokens: int) -> None:
        """Add a content to the block."""
        if self.hashes[block] is None:
            self.hashes[block] = key
            self.tokens[block] = tokens
        elif self.has_key(block, key):
            return
        else:
            self.more.setdefault(block, {})[key] = None
        oldest = self.cached.setdefault(key, block)
        if oldest != block:
            self.copies.add(key, oldest, block)

    def put_run(self, blocks: list[int], keys: list[BlockHash], before: int, size: int) -> None:
        """Set the contents of consecutive empty blocks, of `size` tokens each; so many tokens come before them."""
        cached, hashes, covered = self.cached, self.hashes, self.tokens
        for block, key in zip(blocks, keys, strict=True):
            before += size
            hashes[block] = key
            covered[block] = before
            oldest = cached.setdefault(key, block)
            if oldest != block:
                self.copies.add(key, oldest, block)

    def leave(self, blocks: list[int]) -> list[BlockHash]:
        if not self.more:
            return super().leave(blocks)
        left: list[BlockHash] = []
        for block in blocks:
            left += super().leave([block])
            for key in self.more.pop(block, ()):
                left.append(key)
                if key in self.copies:
                    self.cached[key] = self.copies.drop(key, block)
                else:
                    del self.cached[key]
        return left

    def move(self, source: int, target: int) -> None:
        """Move all content of one block to another."""
        tokens = self.tokens[source]
        for key in self.leave([source]):
            self.put(target, key, tokens)

    def clear(self) -> None:
        super().clear()
        self.more.clear()

    def check(self) -> None:
        """Assert that both directions agree."""
        holders: dict[BlockHash, set[int]] = {}
        for block, key in enumerate(self.hashes):
            assert key is not None or block not in self.more
            for each in (key, *self.more.get(block, ())):
                if each is not None:
                    holders.setdefault(each, set()).add(block)
        assert self.cached.keys() == holders.keys()
        assert {key: set(blocks) for key, blocks in self.copies.items()} == {
            key: blocks for key, blocks in holders.items() if len(blocks) > 1
        }
        assert all(block == next(iter(self.copies.get(key, [block]))) for key, block in self.cached.items())
        assert self.hashes[0] is None, "the null block holds nothing"
        assert len(self.tokens) == len(self.hashes)


def group_tag(number: int) -> bytes:
    """Return the tag of the group with this number among those that have one, from 1 on; 0 has none."""
    return bytes([number]) if number else b""


def split_key(key: BlockHash) -> tuple[BlockHash, int]:
    """Return the hash in a key, and the number of its group's tag."""
    return (BlockHash(key[:-1]), key[-1]) if len(key) % _HASH_BYTES else (key, 0)
