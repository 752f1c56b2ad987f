"""Number blocks that a trace names by id only: two blocks have one number if their chains of ids are equal.

A number replaces a chained hash, for a fraction of its time and memory. A prompt's new blocks get consecutive numbers, so it is
found, compared and kept as a slice.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_LEAST_SLOTS = 1 << 10
"""First size of the hash table; it grows with the runs."""
_ID_LIMIT = 1 << 62
"""Ids beyond it, which are hashes, get a name below `-_ID_LIMIT`."""


class Chain(NamedTuple):
    """The blocks of a prompt by number, in order, and how many of them were known: with the same salt, and with any.

    `numbers` differ by salt, `content` does not. Numbers begin at 1.
    """

    numbers: array[int]
    own: int
    content: array[int]
    known: int


class ChainNumbers:
    """Number chains of ids that begin at a root. The new part of a prompt is a run of consecutive numbers.

    Memory: an id for each number, and some words for each run.
    """

    __slots__ = ("_ids", "_parents", "_slots", "_starts")

    def __init__(self) -> None:
        self._ids = array("i", [0])
        """Ids by number; 32 bits each until an id needs more."""
        self._starts = array("i")
        """First number of each run."""
        self._parents = array("i")
        """Predecessor of each run: a block's number, the negative number of a root, or 0 for unreachable runs."""
        self._slots = array("i", bytes(4 * _LEAST_SLOTS))
        """Open addressing by parent and first id: a run counted from 1, or 0."""

    def __len__(self) -> int:
        """Return the largest number."""
        return len(self._ids) - 1

    def enter(self, ids: array[int], root: int) -> tuple[array[int], int]:
        """Return the numbers of a chain, with new ones for new blocks, and how many were known. Roots count from 1."""
        if ids.typecode != self._ids.typecode:  # one of both has 64 bits already
            ids = array("q", ids)
            self._ids = self._ids if self._ids.typecode == "q" else array("q", self._ids)
        known_ids, starts = self._ids, self._starts
        numbers = array("i")
        at, count, parent = 0, len(ids), -root
        while at < count:
            run = self._find(parent, ids[at])
            if run < 0:
                self._add_run(parent, ids[at:], -1 - run)
                numbers.extend(range(starts[-1], len(known_ids)))
                break
            first = starts[run]
            end = starts[run + 1] if run + 1 < len(starts) else len(known_ids)
            most = min(end - first, count - at)
            known, mine = known_ids[first : first + most], ids[at : at + most]
            shared = most if known == mine else _common(known, mine)
            numbers.extend(range(first, first + shared))
            at += shared
            parent = first + shared - 1
        return numbers, at

    def take_back(self, numbers: array[int], known: int) -> None:
        """Remove the numbers that `enter` made for the last chain."""
        if known == len(numbers):
            return
        run, first = len(self._starts) - 1, numbers[known]
        assert self._starts[run] == first, "another chain was entered since"
        slots, mask = self._slots, len(self._slots) - 1
        slot = hash((self._parents[run], self._ids[first])) & mask
        while slots[slot] != run + 1:
            slot = (slot + 1) & mask
        slots[slot] = 0  # the newest run, so no later run follows it
        del self._starts[run], self._parents[run], self._ids[first:]

    def unnamed(self, count: int) -> range:
        """Return numbers for blocks without a name."""
        first = len(self._ids)
        self._starts.append(first)
        self._parents.append(0)
        self._ids.frombytes(bytes(self._ids.itemsize * count))
        return range(first, first + count)

    def copy(self) -> ChainNumbers:
        """Return a copy that numbers independently from here on."""
        other = ChainNumbers()
        for name in self.__slots__:
            setattr(other, name, getattr(self, name)[:])
        return other

    def _find(self, parent: int, first_id: int) -> int:
        """Return the run that begins with an id after a parent; without one, -1 minus its slot."""
        slots, parents = self._slots, self._parents
        mask = len(slots) - 1
        slot = hash((parent, first_id)) & mask
        while run := slots[slot]:
            run -= 1
            if parents[run] == parent and self._ids[self._starts[run]] == first_id:
                return run
            slot = (slot + 1) & mask
        return -1 - slot

    def _add_run(self, parent: int, ids: array[int], slot: int) -> None:
        self._starts.append(len(self._ids))
        self._parents.append(parent)
        self._ids.extend(ids)
        self._slots[slot] = len(self._starts)
        if 2 * len(self._starts) > len(self._slots):  # the table is at most half full
            self._slots = array("i", bytes(2 * self._slots.itemsize * len(self._slots)))
            for run, (start, behind) in enumerate(zip(self._starts, self._parents, strict=True)):
                if behind:
                    self._slots[-1 - self._find(behind, self._ids[start])] = run + 1

    def check(self) -> None:
        """Assert that every run is found after its parent, and that no two runs after one parent begin alike."""
        assert list(self._starts) == sorted(set(self._starts))
        for run, (start, parent) in enumerate(zip(self._starts, self._parents, strict=True)):
            assert parent < start
            assert not parent or self._find(parent, self._ids[start]) == run


class TraceNumbers:
    """Number the prompts of a trace, for each salt apart and for all together."""

    def __init__(self) -> None:
        self.tenants = ChainNumbers()
        self._everyone = self.tenants
        """The same object while no request has a salt."""
        self._roots: dict[str, int] = {"": 1}
        self._names: dict[int, int] = {}

    def number(self, ids: Sequence[int], salt: str | None) -> Chain:
        """Return the chain of a prompt, entered as known from here on. An empty salt is no salt."""
        try:
            own_ids = array("i", ids)
        except OverflowError:
            own_ids = self._long(ids)
        if not salt and self._everyone is self.tenants:
            numbers, own = self.tenants.enter(own_ids, 1)
            return Chain(numbers, own, numbers, own)
        if self._everyone is self.tenants:
            self._everyone = self.tenants.copy()
        numbers, own = self.tenants.enter(own_ids, self._roots.setdefault(salt or "", len(self._roots) + 1))
        content, known = self._everyone.enter(own_ids, 1)
        return Chain(numbers, own, content, known)

    def take_back(self, chain: Chain) -> None:
        """Remove the last prompt's new numbers: it never ran, so no request can hit it."""
        self.tenants.take_back(chain.numbers, chain.own)
        if self._everyone is not self.tenants:
            self._everyone.take_back(chain.content, chain.known)

    def _long(self, ids: Sequence[int]) -> array[int]:
        if min(ids) < -_ID_LIMIT or max(ids) >= _ID_LIMIT:
            ids = [each if -_ID_LIMIT <= each < _ID_LIMIT else self._named(each) for each in ids]
        return array("q", ids)

    def _named(self, id_: int) -> int:
        return self._names.setdefault(id_, -_ID_LIMIT - 1 - len(self._names))


def number_runs(numbers: array[int]) -> Iterator[int]:
    """Return first number and length of each run of consecutive numbers, one after the other. The numbers of a chain only rise."""
    at, count = 0, len(numbers)
    while at < count:
        length = run_length(numbers, at, count)
        yield numbers[at]
        yield length
        at += length


def run_length(numbers: array[int], at: int, stop: int) -> int:
    """Return how many numbers of a chain, from `at` and before `stop`, are consecutive."""
    most, first = stop - at, numbers[at]
    if numbers[stop - 1] == first + most - 1:
        return most
    low, high = 1, most  # as many follow each other as are known to; more than are known not to
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if numbers[at + middle - 1] == first + middle - 1 else (low, middle)
    return low


def _common(known: array[int], ids: array[int]) -> int:
    """Return how many leading items of two arrays of one length are equal, if not all are."""
    same, differs = 0, len(known)  # the first `same` are equal, the first `differs` are not
    if known[:-1] == ids[:-1]:  # the last block of a prompt was partial, and is another one now
        return differs - 1
    while differs - same > 1:
        middle = (same + differs) // 2
        if known[same:middle] == ids[same:middle]:
            same = middle
        else:
            differs = middle
    return same
