"""Keep earlier requests for comparison, and find the one that a request is most like."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, repeat
from math import inf

import numpy as np
import numpy.typing as npt

from kvtool.accounting.ledger.alignment import MIN_RUN, EarlierPrompt
from kvtool.accounting.prefix_tree import Ids
from kvtool.text.align import chunk_cuts
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.turn import Turn

MOST_SLOTS = 64
"""Examples of its prompts that are kept for each group; a query compares with all of them."""
_MISSING = 0.1
"""Share of an example's tokens that a later request may lack and still take its place."""
_SPOILT = 32
"""Tokens that it may lack in any case, up to half of a short example: one value that differs spoils two chunks at the most."""
_MOST_KEPT = 4_000_000
"""Tokens of all requests that are kept, in all groups; each counts for `_EACH` tokens more than it has."""
_EACH = 1_000
"""Overhead of a kept request, in tokens."""
_SHORT = 4_096
"""Tokens of a prompt that is compared even with a request with which it shares no chunk."""

_ENOUGH = 0.5
"""Share of what an expired request has in common that a kept one must have: of less, it is another prompt."""

KeptFor = Callable[[Turn], float | None]
"""For how many seconds a cache keeps a request; None: not known."""
_Place = tuple[str, str, str | int | None]
"""Group, and `last`, `session` with its name, or `slot` with its number."""


class DonorContent:
    """The content of a request, in any order: its chunks (cut by content), each once, with the tokens of all its places."""

    __slots__ = ("chunks", "length")

    def __init__(self, chunks: dict[int, int], length: int) -> None:
        """Create the content. `chunks` maps the hash of a chunk's text to its tokens; `length` is the sum of these."""
        self.chunks = chunks
        self.length = length

    @classmethod
    def of(cls, ids: Ids) -> DonorContent:
        """Return the content of a token sequence."""
        return _Chunks.of(ids).content

    @classmethod
    def of_prompt(cls, prompt: Prompt) -> DonorContent:
        """Return the content of a prompt. Of one that continues another one, only what is new is read."""
        noted = prompt.note_before(_Chunks)
        chunks = _Chunks.of(prompt.ids) if noted is None else noted[0].continued(prompt.ids, noted[1].tokens)
        prompt.notes[_Chunks] = chunks
        return chunks.content

    def joined(self, other: DonorContent) -> DonorContent:
        """Return the content of two sequences together."""
        if not other.length:
            return self
        chunks = dict(self.chunks)
        for name, tokens in other.chunks.items():
            chunks[name] = chunks.get(name, 0) + tokens
        return DonorContent(chunks, self.length + other.length)

    def shares(self, other: DonorContent, least: int) -> bool:
        """Return whether both have at least so many tokens in common chunks: most have them in the first ones."""
        found = 0
        for name, tokens in other.chunks.items():
            found += min(tokens, self.chunks.get(name, 0))
            if found >= least:
                return True
        return False

    def shared(self, other: DonorContent) -> int:
        """Return tokens in chunks that both have."""
        mine, theirs = self.chunks, other.chunks
        both = mine.keys() & theirs.keys()
        return sum(map(min, map(mine.__getitem__, both), map(theirs.__getitem__, both)))


@dataclass(frozen=True, slots=True)
class _Chunks:
    """The chunks of a token sequence, in order: chunk i is `[cuts[i], cuts[i + 1])`."""

    names: list[int]
    cuts: npt.NDArray[np.intp]
    content: DonorContent

    @classmethod
    def of(cls, ids: Ids) -> _Chunks:
        return cls([], np.zeros(1, np.intp), DonorContent({}, 0)).continued(ids, 0)

    def continued(self, ids: Ids, shared: int) -> _Chunks:
        """Return the chunks of a sequence whose first `shared` tokens are those of this one."""
        ends = self.cuts[1:-1]  # the last cut may be nothing but the end of the sequence
        kept = int(np.searchsorted(ends, shared, "right"))
        chunks = dict(self.content.chunks)
        for name, tokens in zip(self.names[kept:], np.diff(self.cuts[kept:]).tolist(), strict=True):
            if chunks[name] > tokens:
                chunks[name] -= tokens
            else:
                del chunks[name]
        cuts = chunk_cuts(ids) if len(ids) else np.zeros(1, np.intp)
        begin, names = int(cuts[kept]), self.names[:kept]
        data, size = ids[begin:].tobytes(), ids.itemsize
        for start, stop in pairwise(cuts[kept:].tolist()):
            name = hash(data[(start - begin) * size : (stop - begin) * size])
            names.append(name)
            chunks[name] = chunks.get(name, 0) + stop - start
        return _Chunks(names, cuts, DonorContent(chunks, len(ids)))


@dataclass(slots=True, eq=False)
class _KeptRequest:
    seen: EarlierPrompt
    content: DonorContent
    order: int
    until: float = inf
    """When a cache forgets it, in seconds since the log began."""
    places: int = 0
    slot: int | None = None
    """Its number as an example of its group."""

    @property
    def cost(self) -> int:
        return len(self.seen.ids) + _EACH

    def is_of(self, turn: Turn) -> bool:
        """Return whether it was a request of the turn's session."""
        return turn.session is not None and self.seen.turn.session == turn.session


class _Slots:
    """The examples of a group, and the chunks of any of them."""

    def __init__(self) -> None:
        self.kept: list[_KeptRequest | None] = [None] * MOST_SLOTS
        self._used = np.full(MOST_SLOTS, -1)  # when each was last put or found; -1 where the slot is free
        self._lacking = np.full(
            MOST_SLOTS, -1.0
        )  # tokens that a later request may lack to take the place; -1 where free
        self._sizes = np.zeros(MOST_SLOTS, np.int64)
        self._orders = np.full(MOST_SLOTS, -1)  # -1 where free
        self._until = np.full(MOST_SLOTS, -inf)
        self._marks: dict[int, int] = {}
        """Examples with each chunk; bit i is set if example i has it."""
        self._last_query: tuple[DonorContent, npt.NDArray[np.int64]] | None = None
        """The last query and its answer, while it is valid."""

    def shares(self, content: DonorContent) -> npt.NDArray[np.int64]:
        """Return tokens in chunks that a request shares with each example."""
        if self._last_query is None or self._last_query[0] is not content:
            self._last_query = content, self._shares(content)
        return self._last_query[1]

    def _shares(self, content: DonorContent) -> npt.NDArray[np.int64]:
        together = defaultdict[int, int](int)
        for marks, tokens in zip(map(self._marks.get, content.chunks, repeat(0)), content.chunks.values(), strict=True):
            together[marks] += tokens  # most chunks that any example has, the same ones have
        together.pop(0, None)
        if not together:
            return np.zeros(MOST_SLOTS, np.int64)
        rows = np.array(list(together), "<u8").view(np.uint8).reshape(-1, MOST_SLOTS // 8)
        bits = np.unpackbits(rows, axis=1, bitorder="little")
        # Whole numbers below 2^53 are exact in float64, whose product is many times faster than that of integers.
        return (np.array(list(together.values()), np.float64) @ bits).astype(np.int64)

    def nearest(self, turn: Turn, content: DonorContent, now: float) -> _KeptRequest | None:
        """Return the example with the most in common that a cache keeps; of equals one of the same session, then the latest."""
        shares = np.where(self._until >= now, self.shares(content), 0)
        most = int(shares.max())
        if not most:
            return None
        near = shares == most
        orders = np.where(near, self._orders, -1)
        if turn.session is not None:
            ours: list[int] = [
                index
                for index in near.nonzero()[0].tolist()
                if (kept := self.kept[index]) is not None and kept.is_of(turn)
            ]
            if ours:
                return self.kept[max(ours, key=orders.__getitem__)]
        return self.kept[int(orders.argmax())]

    def place_for(self, content: DonorContent, answer: DonorContent) -> int:
        """Return the slot for a new example: the most similar of those that it contains, or a free one, or the least recently used
        one."""
        shares = self.shares(content) + self._shares(answer)
        contained = self._sizes - shares <= self._lacking
        return int(np.argmax(np.where(contained, shares, -1)) if contained.any() else np.argmin(self._used))

    def put(self, index: int, kept: _KeptRequest, now: int) -> None:
        """Fill a slot, in place of what is in it. Most have nearly the same chunks."""
        size, before = len(kept.seen.ids), self.kept[index]
        old = {} if before is None else before.content.chunks
        if before is not None:
            before.slot = None
        self.kept[index], self._used[index], self._sizes[index] = kept, now, size
        self._orders[index], self._until[index], kept.slot = kept.order, kept.until, index
        self._lacking[index] = max(_MISSING * size, min(_SPOILT, size / 2))
        marks, bit = self._marks, 1 << index
        for name in kept.content.chunks.keys() - old.keys():
            marks[name] = marks.get(name, 0) | bit
        self._unmark(index, old.keys() - kept.content.chunks.keys())
        self._last_query = None

    def touch(self, kept: _KeptRequest, now: int) -> int | None:
        """Record the use of an example; return its slot, None if it has none."""
        index = kept.slot
        if index is not None:
            self._used[index] = now
        return index

    def free(self, index: int) -> None:
        """Empty a slot that is not free."""
        kept = self.kept[index]
        assert kept is not None
        self._unmark(index, kept.content.chunks)
        self._last_query = None
        kept.slot = None
        self.kept[index], self._used[index], self._sizes[index], self._lacking[index] = None, -1, 0, -1.0
        self._orders[index], self._until[index] = -1, -inf

    def _unmark(self, index: int, names: Iterable[int]) -> None:
        marks, bit = self._marks, 1 << index
        for name in names:
            left = marks[name] & ~bit
            if left:
                marks[name] = left
            else:
                del marks[name]

    def check(self) -> None:
        """Assert the invariants."""
        for index, kept in enumerate(self.kept):
            assert (kept is None) == (self._used[index] < 0) == (self._lacking[index] < 0)
            assert self._sizes[index] == (0 if kept is None else len(kept.seen.ids))
            assert self._orders[index] == (-1 if kept is None else kept.order)
            assert kept is None or kept.slot == index
        marks: dict[int, int] = {}
        for index, kept in enumerate(self.kept):
            for name in () if kept is None else kept.content.chunks:
                marks[name] = marks.get(name, 0) | 1 << index
        assert self._marks == marks


class Donors:
    """Keep, for each group, its last request, the last one of each session, and examples of its prompts.

    A request replaces an example if it contains nearly all of it, or else the least recently used one. Requests are alike by their
    content, in any order, so that a difference at the very front hides nothing. If everything kept becomes too much, the least
    recently used is dropped.
    """

    def __init__(self, kept_for: KeptFor | None = None) -> None:
        self._kept_for = kept_for
        self._places: OrderedDict[_Place, _KeptRequest] = OrderedDict()
        self._groups: dict[str, _Slots] = {}
        self._cost = 0
        self._order = 0
        self.gone: list[int] | None = None
        """The order of dropped requests, if a reader checks and clears it."""

    def find(self, turn: Turn, content: DonorContent) -> EarlierPrompt | None:
        """Return the earlier request with the most tokens in common; of equals one of the same session, then the latest. One that a
        cache still keeps goes before one that expired, if it has `_ENOUGH` of what that one has."""
        slots = self._groups.get(turn.group)
        if slots is None:
            return None
        best, now = self._nearest(slots, turn, content, -inf), turn.arrival
        if best is not None and now is not None and best.until < now:
            kept = self._nearest(slots, turn, content, now)
            if kept is not None and kept.content.shared(content) >= _ENOUGH * best.content.shared(content):
                best = kept
        if best is None:
            return None
        index = slots.touch(best, self._order)
        if index is not None:
            self._places.move_to_end((turn.group, "slot", index))
        return best.seen

    def _nearest(self, slots: _Slots, turn: Turn, content: DonorContent, now: float) -> _KeptRequest | None:
        """Return the most similar one of those that a cache keeps until `now`."""
        found = [slots.nearest(turn, content, now), self._places.get((turn.group, "last", None))]
        if turn.session is not None:
            found.append(self._places.get((turn.group, "session", turn.session)))
        return self._best({kept for kept in found if kept is not None and kept.until >= now}, turn, content)

    @staticmethod
    def _best(near: Collection[_KeptRequest], turn: Turn, content: DonorContent) -> _KeptRequest | None:
        if len(near) == 1:
            only = next(iter(near))
            return only if content.length <= _SHORT or only.content.shares(content, MIN_RUN) else None
        ranked = [(kept.content.shared(content), kept.is_of(turn), kept.order, kept) for kept in near]
        shared, _, _, best = max(ranked, key=lambda item: item[:3], default=(0, False, 0, None))
        return None if shared < MIN_RUN and content.length > _SHORT else best

    def add(self, seen: EarlierPrompt, content: DonorContent, answer: DonorContent) -> None:
        """Keep a request, with the content of its prompt and that of its answer."""
        self._order += 1
        group, session, began = seen.turn.group, seen.turn.session, seen.turn.arrival
        seconds = None if self._kept_for is None or began is None else self._kept_for(seen.turn)
        until = inf if seconds is None or began is None else began + seconds
        kept = _KeptRequest(seen, content.joined(answer), self._order, until)
        self._put((group, "last", None), kept)
        if session is not None:
            self._put((group, "session", session), kept)
        slots = self._groups.setdefault(group, _Slots())
        index = slots.place_for(content, answer)
        self._put((group, "slot", index), kept)
        slots.put(index, kept, self._order)
        while self._cost > _MOST_KEPT and len(self._places) > 1:
            self._drop(next(iter(self._places)))

    def _put(self, place: _Place, kept: _KeptRequest) -> None:
        self._take(place)
        self._places[place] = kept
        self._cost += 0 if kept.places else kept.cost
        kept.places += 1

    def _drop(self, place: _Place) -> None:
        self._take(place)
        group, kind, index = place
        if kind == "slot" and isinstance(index, int):
            self._groups[group].free(index)

    def _take(self, place: _Place) -> None:
        """Take what is kept at a place away; of a slot, that is still to be freed or filled."""
        kept = self._places.pop(place, None)
        if kept is None:
            return
        kept.places -= 1
        self._cost -= 0 if kept.places else kept.cost
        if self.gone is not None and not kept.places:
            self.gone.append(kept.order)

    def prompts(self) -> Iterator[Prompt]:
        """Return the prompts of all kept requests, each once, the least recently used first."""
        kept = {id(each): each for each in self._places.values()}
        return (each.seen.prompt for each in kept.values())

    def __len__(self) -> int:
        """Return how many requests are kept."""
        return len({id(kept) for kept in self._places.values()})

    def check(self) -> None:
        """Assert the invariants."""
        kept = {id(each): each for each in self._places.values()}
        assert self._cost == sum(each.cost for each in kept.values())
        assert sum(each.places for each in kept.values()) == len(self._places)
        for group, slots in self._groups.items():
            slots.check()
            for index, example in enumerate(slots.kept):
                assert self._places.get((group, "slot", index)) is example
