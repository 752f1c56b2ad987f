"""Contents of blocks: by hash, or by number for a trace that names blocks by id."""

from __future__ import annotations

from array import array
from typing import TypeVar

import numpy as np

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.chain_numbers import ChainNumbers
from kvtool.engine.blocks.hashing import BlockHasher, extend_hashes
from kvtool.engine.request import Request

_AHEAD = 1 << 12
"""Numbers for which room is made in advance, so that arrays grow rarely."""

Name = TypeVar("Name")
"""Name of a content: its hash or its number."""


class Copies(dict[Name, dict[int, None]]):
    """The contents with several blocks, each with those blocks in the order in which they were entered."""

    def add(self, name: Name, oldest: int, block: int) -> None:
        """Add a block to a content whose first block is `oldest`."""
        self.setdefault(name, {oldest: None})[block] = None

    def drop(self, name: Name, block: int) -> int:
        """Remove one of a content's blocks; return the oldest that is left."""
        copies = self[name]
        del copies[block]
        if len(copies) == 1:
            del self[name]
        return next(iter(copies))


class HashedBlocks:
    """Contents by their hashes.

    A block keeps its hash after it was freed, until it is reused; `cached` maps a hash to its block. If several blocks have a
    hash, that is the one registered first, and `copies` has all of them in the order of registration.
    """

    def __init__(self, num_blocks: int, block_size: int, hasher: BlockHasher) -> None:
        self.block_size = block_size
        self.hasher = hasher
        self.hashes: list[BlockHash | None] = [None] * num_blocks
        self.cached: dict[BlockHash, int] = {}
        self.copies: Copies[BlockHash] = Copies()

    def __len__(self) -> int:
        return len(self.hashes)

    def grow(self, count: int) -> None:
        """Add so many empty blocks."""
        self.hashes += [None] * count

    def holds(self, block: int) -> bool:
        """Return whether a block has cached content."""
        return self.hashes[block] is not None

    def count(self) -> int:
        """Return how many blocks have cached content."""
        return len(self.hashes) - self.hashes.count(None)

    def extend(self, request: Request) -> None:
        """Name the blocks of a request that have become full."""
        extend_hashes(request, self.block_size, self.hasher)

    def find(self, request: Request, most: int) -> list[int]:
        """Return the blocks of a request's first contents, up to the first that is missing."""
        return list(iter(map(self.cached.get, request.block_hashes[:most]).__next__, None))

    def enter(self, request: Request, first: int, stop: int) -> None:
        """Set the contents of the request's blocks from number `first` on."""
        cached, hashes = self.cached, self.hashes
        for block, block_hash in zip(request.block_ids[first:stop], request.block_hashes[first:stop], strict=True):
            hashes[block] = block_hash
            oldest = cached.setdefault(block_hash, block)
            if oldest != block:
                self.copies.add(block_hash, oldest, block)

    def leave(self, blocks: list[int]) -> list[BlockHash]:
        """Remove the blocks' contents and return them, in order."""
        hashes, cached, copies = self.hashes, self.cached, self.copies
        left: list[BlockHash] = []
        for block in blocks:
            block_hash = hashes[block]
            if block_hash is None:
                continue
            hashes[block] = None
            left.append(block_hash)
            if block_hash in copies:
                cached[block_hash] = copies.drop(block_hash, block)
            else:
                del cached[block_hash]
        return left

    def clear(self) -> None:
        """Remove all contents."""
        self.hashes = [None] * len(self.hashes)
        self.cached.clear()
        self.copies.clear()

    def check(self) -> None:
        """Assert that both directions agree."""
        holders: dict[BlockHash, set[int]] = {}
        for block, block_hash in enumerate(self.hashes):
            if block_hash is not None:
                holders.setdefault(block_hash, set()).add(block)
        assert self.cached.keys() == holders.keys()
        assert {block_hash: set(blocks) for block_hash, blocks in self.copies.items()} == {
            block_hash: blocks for block_hash, blocks in holders.items() if len(blocks) > 1
        }
        assert all(
            block == next(iter(self.copies.get(block_hash, [block]))) for block_hash, block in self.cached.items()
        )
        assert all(self.hashes[block] == block_hash for block_hash, block in self.cached.items())


class NumberedBlocks:
    """Contents by their numbers, which are small: 4 bytes for each block and for each number. Else like `HashedBlocks`.

    Requests that come with tokens among those of a trace have their hashes numbered.
    """

    def __init__(self, num_blocks: int, block_size: int, numbers: ChainNumbers, hasher: BlockHasher) -> None:
        self.block_size = block_size
        self.numbers = numbers
        self.hasher = hasher
        self._hashes: dict[BlockHash, int] = {}
        self.contents = array("i", bytes(4 * num_blocks))
        """Contents by block; 0 is none."""
        self.cached = array("i")
        """The block by number; 0, the null block, is never cached and means none."""
        self.copies: Copies[int] = Copies()
        self._none = array("i", bytes(4 * _AHEAD))

    def __len__(self) -> int:
        return len(self.contents)

    def grow(self, count: int) -> None:
        """Add so many empty blocks."""
        self.contents.frombytes(bytes(4 * count))

    def holds(self, block: int) -> bool:
        """Return whether a block has cached content."""
        return self.contents[block] != 0

    def count(self) -> int:
        """Return how many blocks have cached content."""
        return int(np.count_nonzero(np.frombuffer(self.contents, dtype=np.intc)))

    def extend(self, request: Request) -> None:
        """Name a request's blocks that have become full; unless a trace names them, blocks of its answer are unique."""
        numbers, full = request.block_numbers, request.num_tokens // self.block_size
        if numbers is not None and full <= len(numbers):
            return
        if request.prompt_numbers is None:
            numbers = array("i") if numbers is None else numbers
            extend_hashes(request, self.block_size, self.hasher)
            numbers.extend(map(self._number, request.block_hashes[len(numbers) : full]))
        elif numbers is None:
            numbers = request.prompt_numbers[: request.num_prompt_tokens // self.block_size]
            numbers.extend(request.answer_numbers or ())
        if full > len(numbers):
            numbers.extend(self.numbers.unnamed(full - len(numbers)))
        missing = (numbers[-1] if numbers else 0) + 1 - len(self.cached)
        if missing > 0:
            self.cached.frombytes(bytes(4 * (missing + _AHEAD)))
        request.block_numbers = numbers

    def _number(self, block_hash: BlockHash) -> int:
        number = self._hashes.get(block_hash)
        if number is None:
            number = self._hashes[block_hash] = self.numbers.unnamed(1)[0]
        return number

    def find(self, request: Request, most: int) -> list[int]:
        """Return the blocks of a request's first contents, up to the first that is missing."""
        numbers = request.block_numbers
        assert numbers is not None, "blocks are named before they are looked up"
        return list(iter(map(self.cached.__getitem__, numbers[:most]).__next__, 0))

    def enter(self, request: Request, first: int, stop: int) -> None:
        """Set the contents of the request's blocks from number `first` on."""
        cached, contents = self.cached, self.contents
        assert request.block_numbers is not None, "blocks are named before they are entered"
        blocks, numbers = request.block_ids[first:stop], request.block_numbers[first:stop]
        count, least = stop - first, numbers[0]
        if numbers[-1] - least == count - 1 and cached[least : least + count] == self._none[:count]:
            cached[least : least + count] = array("i", blocks)  # new contents have consecutive numbers
            for block, number in zip(blocks, numbers, strict=True):
                contents[block] = number
            return
        for block, number in zip(blocks, numbers, strict=True):
            contents[block] = number
            oldest = cached[number]
            if not oldest:
                cached[number] = block
            elif oldest != block:
                self.copies.add(number, oldest, block)

    def leave(self, blocks: list[int]) -> list[int]:
        """Remove the blocks' contents and return them, in order."""
        contents, cached, copies = self.contents, self.cached, self.copies
        left = [number for block in blocks if (number := contents[block])]
        if not copies:
            for block in blocks:
                contents[block] = 0
            for number in left:
                cached[number] = 0
            return left
        for block in blocks:
            number = contents[block]
            if not number:
                continue
            contents[block] = 0
            if number in copies:
                cached[number] = copies.drop(number, block)
            else:
                cached[number] = 0
        return left

    def clear(self) -> None:
        """Remove all contents."""
        self.contents = array("i", bytes(4 * len(self.contents)))
        self.cached = array("i", bytes(4 * len(self.cached)))
        self.copies.clear()

    def check(self) -> None:
        """Assert that both directions agree."""
        holders: dict[int, set[int]] = {}
        for block, number in enumerate(self.contents):
            if number:
                holders.setdefault(number, set()).add(block)
        assert {number for number, block in enumerate(self.cached) if block} == holders.keys()
        assert {number: set(blocks) for number, blocks in self.copies.items()} == {
            number: blocks for number, blocks in holders.items() if len(blocks) > 1
        }
        for number, blocks in holders.items():
            assert self.cached[number] == next(iter(self.copies.get(number, blocks)))
