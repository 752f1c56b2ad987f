"""Marks that are tried in place of a log's own: by the beginning of a request, at which of its blocks, and for how long."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import xxhash

from kvtool.accounting.caches.breakpoints import ContentBlocks
from kvtool.accounting.caches.forks import Forks
from kvtool.accounting.caches.timed_tree import SHORT
from kvtool.accounting.prefix_tree import Ids

PlaceKind = Literal["block", "lead", "message", "late_block"]


class MarkPlace(NamedTuple):
    """A place in every request of a kind: its block `number` (from 0), the end of its leading text, its last message but `number`,
    or its last block but `number`."""

    kind: PlaceKind
    number: int = 0

    def of(self, lead: int, messages: Sequence[int], count: int) -> int | None:
        """Return the number of its block in a request with `lead` leading blocks of `count`, whose `messages` end with these
        blocks; None where the request has no such place."""
        match self.kind:
            case "block":
                return self.number if self.number < count else None
            case "lead":
                return lead - 1 if lead else None
            case "message":
                return messages[-1 - self.number] if self.number < len(messages) else None
            case "late_block":
                return count - 1 - self.number if self.number < count - lead else None


class PlacedMark(NamedTuple):
    """A mark; `ttl` in seconds, None: as usual."""

    place: MarkPlace
    ttl: float | None = None


MarkSet = tuple[PlacedMark, ...]
_Marks = TypeVar("_Marks", bound=MarkSet | None)
OTHERS = -1


@dataclass(frozen=True, slots=True)
class MarkPlan:
    """The marks of requests by scope and by their longest leading prefix that has any; `OTHERS` is that of all others.

    A set of None: these requests keep their own. `every`: the marks of all requests of other scopes; None: they keep their own.
    """

    sets: Mapping[str, Mapping[int, MarkSet | None]]
    every: MarkSet | None = None

    def sets_of(self, scope: str) -> Mapping[int, MarkSet | None] | None:
        """Return the marks of a scope; None where its requests keep their own."""
        return self.sets.get(scope, None if self.every is None else {OTHERS: self.every})

    def marked(
        self, scope: str, ids: Ids, blocks: ContentBlocks, forks: Forks, most: int
    ) -> Mapping[int, float | None]:
        """Return the marks of a request with these forked tokens, at ends of its blocks; without a set, its own."""
        sets = self.sets_of(scope)
        if sets is None:
            return blocks.marked
        lead = lead_blocks(blocks)
        keys = prefix_keys(ids, [forks.there(end) for end in blocks.ends[:lead]])
        chosen = set_of(sets, keys)
        if chosen is None:
            return blocks.marked
        marks = placed(chosen, lead, last_blocks(blocks), len(blocks.ends), most, unmarkable_blocks(blocks))
        return {blocks.ends[at]: ttl for at, ttl in marks.items()}


def set_of(sets: Mapping[int, _Marks], lead_keys: Sequence[int]) -> _Marks | tuple[()]:
    """Return the marks of a request by the keys of its leading prefixes."""
    return next((sets[key] for key in reversed(lead_keys) if key in sets), sets.get(OTHERS, ()))


def placed(
    marks: Collection[PlacedMark],
    lead: int,
    messages: Sequence[int],
    count: int,
    most: int,
    unmarkable: frozenset[int] = frozenset(),
) -> dict[int, float | None]:
    """Return marks by the number of their block, rising: a longer time before a shorter one, `most` at most, the latest, and none
    on blocks that take none."""
    found: dict[int, float | None] = {}
    for place, ttl in marks:
        at = place.of(lead, messages, count)
        if at is not None and at not in unmarkable:
            found[at] = ttl if at not in found else max(found[at], ttl, key=lambda each: each or SHORT)
    kept: dict[int, float | None] = {}
    longest = 0.0
    for at in sorted(
        found, reverse=True
    ):  # a mark before one for a longer time is refused, and that one stores its tokens, too
        if (found[at] or SHORT) >= longest:
            longest = found[at] or SHORT
            kept[at] = found[at]
    return dict(sorted(sorted(kept.items())[-most:]))


def in_order(marks: MarkSet, shapes: Iterable[tuple[int, Sequence[int], int, int, frozenset[int]]]) -> MarkSet:
    """Return the marks without those that come before a longer time to live in a request with one of these shapes (`lead`,
    `messages`, `count`, `most` and `unmarkable` of `placed`): the provider refuses these requests."""
    if len({ttl for _, ttl in marks}) < 2:
        return marks
    early: set[PlacedMark] = set()
    for lead, messages, count, _, unmarkable in shapes:
        found = [(at, mark) for mark in marks if (at := mark.place.of(lead, messages, count)) is not None]
        found = [(at, mark) for at, mark in found if at not in unmarkable]
        early |= {
            mark
            for at, mark in found
            if any(at <= later and (mark.ttl or SHORT) < (other.ttl or SHORT) for later, other in found)
        }
    return tuple(mark for mark in marks if mark not in early)


def lead_blocks(blocks: ContentBlocks) -> int:
    """Return how many blocks are of tools and the leading system text."""
    return sum(end <= blocks.lead_end for end in blocks.ends)


def last_blocks(blocks: ContentBlocks) -> list[int]:
    """Return the number of the last block of each message after the leading ones."""
    number = {end: at for at, end in enumerate(blocks.ends)}
    return [number[end] for end in dict.fromkeys(blocks.turn_ends)]


def unmarkable_blocks(blocks: ContentBlocks) -> frozenset[int]:
    """Return the numbers of the blocks that take no mark."""
    return frozenset(at for at, end in enumerate(blocks.ends) if end in blocks.unmarkable)


def prefix_keys(ids: Ids, ends: Sequence[int]) -> list[int]:
    """Return a number of each of these beginnings of a prompt: equal for equal tokens."""
    digest, start, keys = xxhash.xxh3_64(), 0, list[int]()
    for end in ends:
        digest.update(ids[start:end].tobytes())
        keys.append(digest.intdigest())
        start = end
    return keys
