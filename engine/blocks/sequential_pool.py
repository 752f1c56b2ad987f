"""The pool of an engine with one request at a time, as contents without block ids, because nothing needs these."""

from __future__ import annotations

from array import array

import numpy as np

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.chain_numbers import ChainNumbers
from kvtool.engine.blocks.hashing import block_hasher, extend_hashes
from kvtool.engine.config import EngineConfig
from kvtool.engine.request import Request, Status
from kvtool.engine.stats import PrefixCacheStats

_AHEAD = 1 << 12
"""Numbers for which room is made in advance, so that arrays grow rarely."""
_LONGEST, _SLACK = 8, 1024
"""Limit of the line's length before it is tidied up: so many times the pool, and so much more."""
_GONE, _UNNAMED = 0, -1
"""Entries of the line: a removed block, and a block with unreachable content."""


class SequentialPool:
    """Execute requests as `engine.sequential.account` does with a pool of numbered contents, without block ids.

    A free block is empty and taken first, or it is in a line in the order in which blocks were freed, tail of a request first.
    Requests run alone, so a block is only its content and its place::

        _empty blocks, then _line[_head:] without _GONE

    If several blocks have a content, the one registered first is hit, and `_copies` has the places of the others. An unlimited
    pool has no line: all contents stay.
    """

    __slots__ = (
        "_capacity",
        "_config",
        "_copies",
        "_empty",
        "_hasher",
        "_hashes",
        "_head",
        "_line",
        "_none",
        "_numbers",
        "_place",
        "_size",
        "_stats",
        "num_evictions",
        "num_filled",
        "peak_used",
    )

    def __init__(self, config: EngineConfig, stats: PrefixCacheStats, numbers: ChainNumbers) -> None:
        """Create the pool. `stats` counts the lookups; `numbers` made the `prompt_numbers` of requests, and numbers those with
        hashes."""
        self._config = config
        self._size = config.block_size
        self._stats = stats
        self._numbers = numbers
        self._hasher = block_hasher(config.hash_algo, config.hash_seed)
        self._hashes: dict[BlockHash, int] = {}
        self._capacity = None if config.num_blocks is None else config.num_blocks - 1
        self._empty = self._capacity or 0
        self._line = array("i")
        self._head = 0
        self._place = array("b" if self._capacity is None else "i")
        """1 + the line's place of each number's block; 0: none; 1 for all contents of an unlimited pool."""
        self._none = array("i", bytes(4 * _AHEAD))
        self._copies: dict[int, list[int]] = {}
        """1 + the places of each number's other blocks, in the order of registration."""
        self.num_evictions = 0
        self.num_filled = 0
        """Blocks with content; `peak_used` is the most blocks of one request."""
        self.peak_used = 0

    def execute(self, request: Request) -> None:
        """Take a request that `check_fits` let pass from its submission to its end."""
        config, size, caching = self._config, self._size, self._config.enable_prefix_caching
        names, hits = array("i"), list[int]()
        if caching:
            names = self._names(request)
            most = 0 if request.skip_reading_cache else (request.num_prompt_tokens - 1) // size
            hits = list(iter(map(self._place.__getitem__, names[:most]).__next__, 0))
        known = len(hits)
        request.num_cached_tokens = known * size
        if caching:
            self._stats.admitted(request, known * size)
        room = config.max_model_len - request.num_prompt_tokens
        given = request.output_ids
        outputs = request.outputs = given[:room] if given is not None else [0] * min(request.max_tokens, room)
        request.num_tokens += len(outputs)
        # the last sampled token is never computed
        computed = max(request.num_tokens - 1, request.num_prompt_tokens)
        blocks = -(-computed // size)
        if blocks > self.peak_used:
            self.peak_used = blocks
        full = computed // size if caching else 0
        if full > len(names) and request.prompt_numbers is None:
            names = self._names(request)[:full]
        del names[full:]  # contents for which the answer had no room
        self._hold(names, hits, blocks, full)
        request.num_computed_tokens = computed
        request.status = Status.FINISHED

    def take(self, names: array[int], asked: int, blocks: int, full: int) -> int:
        """Serve a request given by numbers only: the leading ones of its `full` blocks with content, which rise.

        It takes so many `blocks` in all, and the first `asked` named blocks may hit. Return the number of hits.
        """
        self._reach(names)
        hits = list(iter(map(self._place.__getitem__, names[:asked]).__next__, 0))
        if blocks > self.peak_used:
            self.peak_used = blocks
        self._hold(names, hits, blocks, full)
        return len(hits)

    def _hold(self, names: array[int], hits: list[int], blocks: int, full: int) -> None:
        """Let a request, of which `hits` were there, have its blocks and give them back."""
        self.num_filled += full - len(hits)
        if self._capacity is not None:
            self._use(names, hits, blocks, full)
        else:
            self._keep(names, len(hits))

    def _reach(self, names: array[int]) -> None:
        """Make room for the places of these numbers."""
        missing = (names[-1] if names else 0) + 1 - len(self._place)
        if missing > 0:
            self._place.frombytes(bytes(self._place.itemsize * (missing + _AHEAD)))  # numbers only rise in a chain

    def _names(self, request: Request) -> array[int]:
        """Return the numbers of the full blocks of a request, as far as its tokens or its trace name them."""
        size = self._size
        if request.prompt_numbers is not None:
            names = request.prompt_numbers[: request.num_prompt_tokens // size]
            names.extend(request.answer_numbers or ())
        else:
            extend_hashes(request, size, self._hasher)
            names = array("i", map(self._number, request.block_hashes))
        self._reach(names)
        return names

    def _number(self, block_hash: BlockHash) -> int:
        number = self._hashes.get(block_hash)
        if number is None:
            number = self._hashes[block_hash] = self._numbers.unnamed(1)[0]
        return number

    def _keep(self, names: array[int], known: int) -> None:
        """Keep all blocks of a request for good; so many were there before."""
        place, count = self._place, len(names) - known
        if not count:
            return
        first = names[known]
        if names[-1] - first == count - 1:  # new contents have consecutive numbers
            place[first : first + count] = array("b", b"\1" * count)
            return
        for name in names[known:]:
            place[name] = 1

    def _use(self, names: array[int], hits: list[int], blocks: int, full: int) -> None:
        """Take the blocks of a request, of which `hits` are its cached beginning, and free them again, `full` of them with
        content."""
        known = len(hits)
        line, place = self._line, self._place
        for at in hits:
            line[at - 1] = _GONE
        self._empty -= blocks - known
        if self._empty < 0:
            missing, self._empty = -self._empty, 0
            self._evict(missing)
        # Free the blocks: empty ones are taken first, the others go after the line, tail first.
        self._empty += blocks - full
        if full > len(names):
            line.extend([_UNNAMED] * (full - len(names)))
        spots = range(len(line) + len(names), len(line), -1)
        line.extend(names[::-1])
        for name, spot in zip(names[:known], spots, strict=False):
            place[name] = spot
        if known < len(names):
            self._enter(names[known:], spots[known:])
        if len(line) > _LONGEST * (self._capacity or 0) + _SLACK:
            self._tidy()

    def _enter(self, names: array[int], spots: range) -> None:
        """Set the contents of the blocks at these places of the line."""
        place, first, count = self._place, names[0], len(names)
        if names[-1] - first == count - 1 and place[first : first + count] == self._none[:count]:
            place[first : first + count] = array("i", spots)  # new contents have consecutive numbers
            return
        for name, spot in zip(names, spots, strict=True):
            if place[name]:
                self._copies.setdefault(name, []).append(spot)
            else:
                place[name] = spot

    def _evict(self, count: int) -> None:
        """Take so many blocks from the head of the line and remove their contents."""
        line, place = self._line, self._place
        self.num_evictions += count
        self.num_filled -= count
        while count > 0:
            head, stop = self._head, self._head + count
            left = [name for name in line[head:stop] if name]
            if self._copies:
                for spot, name in enumerate(line[head:stop], head + 1):
                    if name > 0:
                        self._forget(name, spot)
            else:
                for name in left:
                    if name > 0:
                        place[name] = 0
            self._head = stop
            count -= len(left)

    def _forget(self, name: int, spot: int) -> None:
        """Remove one of a content's several places."""
        others, place = self._copies.get(name), self._place
        if others is None:
            place[name] = 0
            return
        if place[name] == spot:
            place[name] = others.pop(0)
        else:
            others.remove(spot)
        if not others:
            del self._copies[name]

    def _tidy(self) -> None:
        """Remove taken entries from the line."""
        line, place = np.frombuffer(self._line, np.intc)[self._head :], np.frombuffer(self._place, np.intc)
        (kept,) = line.nonzero()
        names = line[kept]
        several = {name: [place[name], *others] for name, others in self._copies.items()}
        named = names > 0
        place[names[named]] = named.nonzero()[0] + 1
        for name, spots in several.items():
            place[name], *self._copies[name] = (kept.searchsorted(np.array(spots) - self._head - 1) + 1).tolist()
        self._line, self._head = array("i", names.tobytes()), 0

    def check(self) -> None:
        """Assert that the line and the places in it agree, and that no block is lost."""
        if self._capacity is None:
            assert not self._line
            return
        spots: dict[int, list[int]] = {}
        free = 0
        for spot, name in enumerate(self._line[self._head :], self._head + 1):
            free += name != _GONE
            if name > 0:
                spots.setdefault(name, []).append(spot)
        assert free == self.num_filled
        assert free + self._empty == self._capacity
        assert {name for name, spot in enumerate(self._place) if spot} == spots.keys()
        for name, found in spots.items():
            assert sorted([self._place[name], *self._copies.get(name, [])]) == found
        assert self._copies.keys() <= spots.keys()
