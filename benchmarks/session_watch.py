"""A stream of requests, each compared with the one that it goes on from."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from xxhash import xxh64_intdigest

from kvtool.diagnose.compare.change import Change
from kvtool.diagnose.compare.history import front_cut
from kvtool.diagnose.compare.json_forms import canonical
from kvtool.diagnose.compare.messages import compare_requests, content_text, message_key
from kvtool.diagnose.compare.units import common_prefix, plain
from kvtool.workload.turn import Turn

_MOST_PRINTS = 512
_SAME_PRINT = 8
"""Turns that are remembered for one stretch of text: a system prompt is in all of them."""
_CANDIDATES = 8
_LONG_LINE = 512
_PIECE = re.compile(r"[^.,;:!?{}()\[\]<>|]{1,256}[.,;:!?{}()\[\]<>|]?|[.,;:!?{}()\[\]<>|]")
_MOSTLY_SHARED = 0.7
_LEAST_SHARED = 0.1
_BEGINNING = 8  # times as long as the common beginning of two turns may the shorter one be

Scope = tuple[str, str | None, bool]
Prints = dict[int, int]
"""Hashes of the stretches of a request, with their lengths in characters."""


class Beginning(NamedTuple):
    """How many characters two requests share from the start, and whether that is all of one of them."""

    length: int
    whole: bool


@dataclass(slots=True)
class _Seen:
    turn: Turn
    scope: Scope
    prints: Prints
    mask: int
    """Of so many prints that not all are kept, those are that have none of these bits."""
    size: int
    history: int
    """Characters of the text of the first request of its conversation."""


class SessionWatch:
    """Compares each turn with its predecessor: the earlier turn of its session (of its group, where it has none) that it shares
    most text with. A session may be several conversations side by side, as of agents that take turns.

    Holds at most `turns` turns of `characters` characters together; the ones longest without a successor go first.
    """

    def __init__(self, *, turns: int = 512, characters: int = 64_000_000) -> None:
        if turns < 1 or characters < 1:
            raise ValueError("a watch needs room for at least one turn")
        self._turns = turns
        self._characters = characters
        self._seen: OrderedDict[int, _Seen] = OrderedDict()
        self._with_print: dict[tuple[Scope, int], list[int]] = {}
        self._held = 0
        self._number = 0

    def __len__(self) -> int:
        """Turns that are remembered."""
        return len(self._seen)

    def see(self, turn: Turn) -> list[Change]:
        """How the turn differs from its predecessor (see `compare_turns`); nothing where it has none."""
        if turn.text is None and turn.messages is None:
            return []
        scope = (turn.group, turn.session, turn.text is not None)
        new = _Seen(turn, scope, *_prints(turn), _size(turn), _text_length(turn))
        number, shared, whole = self._predecessor(new)
        changes: list[Change] = []
        if number is not None:
            before = self._seen[number]
            if _goes_on(before, new, shared):
                changes = compare_requests(before.turn, turn, before.history if turn.session is not None else None)
                new.history = min(before.history, new.history)
                if whole and new.size >= before.size:
                    self._forget(number)
        self._remember(new)
        return changes

    def check(self) -> None:
        """Raise AssertionError if what is indexed is not what is held."""
        assert len(self._seen) <= self._turns
        assert self._held == sum(seen.size for seen in self._seen.values())
        assert len(self._seen) <= 1 or self._held <= self._characters
        for (scope, each), numbers in self._with_print.items():
            assert numbers
            assert len(numbers) <= _SAME_PRINT
            assert all(self._seen[number].scope == scope and each in self._seen[number].prints for number in numbers)

    def _predecessor(self, new: _Seen) -> tuple[int | None, int, bool]:
        """The number of the turn that this one goes on from, how many characters of `prints` they share, and whether one of them
        is wholly the beginning of the other.

        That is the one with the most text in common (the latest of several), unless another one is wholly the beginning of this
        one, or this one of it, and no turn has a longer beginning in common.
        """
        votes: Counter[int] = Counter()
        for each, length in new.prints.items():
            numbers = self._with_print.get((new.scope, each), ())
            for number in numbers:  # what so many turns have, and maybe more than these, tells little
                votes[number] += length if len(numbers) < _SAME_PRINT else 1
        if not votes:
            return None, 0, False
        best = sorted(votes, key=lambda one: (votes[one], one), reverse=True)[:_CANDIDATES]
        shared = {number: self._shared(number, new) for number in best}
        best.sort(key=lambda one: (shared[one], one), reverse=True)
        beginnings = {number: _same_beginning(self._seen[number].turn, new.turn) for number in best}
        longest = max(beginnings.values(), key=lambda found: found.length)
        whole = [number for number in best if beginnings[number].whole and beginnings[number].length == longest.length]
        number = max(whole) if whole else best[0]
        return number, shared[number], bool(whole)

    def _shared(self, number: int, new: _Seen) -> int:
        known = self._seen[number].prints
        return sum(length for each, length in new.prints.items() if each in known)

    def _remember(self, new: _Seen) -> None:
        self._number += 1
        self._seen[self._number] = new
        self._held += new.size
        for each in new.prints:
            numbers = self._with_print.setdefault((new.scope, each), [])
            numbers.append(self._number)
            if len(numbers) > _SAME_PRINT:
                del numbers[0]
        while len(self._seen) > self._turns or (self._held > self._characters and len(self._seen) > 1):
            self._forget(next(iter(self._seen)))

    def _forget(self, number: int) -> None:
        seen = self._seen.pop(number)
        self._held -= seen.size
        for each in seen.prints:
            numbers = self._with_print.get((seen.scope, each))
            if numbers is None or number not in numbers:
                continue
            numbers.remove(number)
            if not numbers:
                del self._with_print[seen.scope, each]


def _goes_on(before: _Seen, new: _Seen, shared: int) -> bool:
    """Whether two turns are so alike that one is the other with something changed: in most of their text, or from the start."""
    mask = max(before.mask, new.mask)
    least = min(sum(length for each, length in one.prints.items() if not each & mask) for one in (before, new))
    if shared >= _MOSTLY_SHARED * least:
        return True
    if shared < _LEAST_SHARED * least:
        return False
    return _BEGINNING * _same_beginning(before.turn, new.turn).length >= least or _begins_inside(before.turn, new.turn)


def _begins_inside(a: Turn, b: Turn) -> bool:
    """Whether a text begins with the end of an earlier one, whose beginning was cut off."""
    if a.text is None or b.text is None:
        return False
    return front_cut(str.__str__(a.text), str.__str__(b.text), 0) is not None


def _same_beginning(a: Turn, b: Turn) -> Beginning:
    if a.text is not None and b.text is not None:
        length = common_prefix(str.__str__(a.text), str.__str__(b.text))
        return Beginning(length, length == min(len(a.text), len(b.text)))
    shared = 0
    for one, other in zip(a.messages or (), b.messages or (), strict=False):
        key = message_key(one)
        if one is not other and key != message_key(other):
            return Beginning(shared, whole=False)
        shared += len("\0".join(key))
    return Beginning(shared, whole=True)


def _text_length(turn: Turn) -> int:
    return len(turn.text) if turn.text is not None else 0


def _size(turn: Turn) -> int:
    messages: list[Any] = turn.messages or []
    contents = (message.get("content") if isinstance(message, dict) else None for message in messages)
    return 1 + _text_length(turn) + sum(len(content_text(content)) for content in contents)


def _prints(turn: Turn) -> tuple[Prints, int]:
    """The stretches of a request: tools, and lines of its texts; of very many those that a hash chooses, always the same ones."""
    found: Prints = {}
    for stretch in _message_parts(turn):
        data = stretch.encode(errors="surrogatepass")
        found[xxh64_intdigest(data)] = len(stretch)
    mask = 0
    while len(found) > _MOST_PRINTS:
        mask = 2 * mask + 1
        found = {each: length for each, length in found.items() if not each & mask}
    return found, mask


def _message_parts(turn: Turn) -> Iterator[str]:
    for tool in turn.tools or ():
        yield canonical(tool).decode(errors="replace")
    if turn.text is not None:
        yield from _lines(str.__str__(turn.text))
        return
    for message in turn.messages or ():
        role, text, *rest = message_key(message)
        for line in (*_lines(text), *rest):
            yield f"{role}\0{line}"


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if len(line) > _LONG_LINE:
            yield from _PIECE.findall(line)
        elif line := plain(line):
            yield line
