"""Two texts compared as what they are: white space, JSON, sets of segments, sections, values, edited passages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.structure.kv111 import TOOLS_REORDERED
from kvtool.diagnose.codes.structure.kv112 import JSON_KEYS
from kvtool.diagnose.codes.structure.kv113 import DOCUMENTS_REORDERED
from kvtool.diagnose.codes.structure.kv141 import WINDOW
from kvtool.diagnose.codes.structure.kv142 import HISTORY_EDITED
from kvtool.diagnose.codes.values.kv107 import OPTIONAL
from kvtool.diagnose.compare.change import Change, RequestPart
from kvtool.diagnose.compare.history import NEVER, front_cut
from kvtool.diagnose.compare.json_forms import canonical, same_keys
from kvtool.diagnose.compare.order import Moved, moved_units, order_kind
from kvtool.diagnose.compare.passages import Differing, Named, Passage, compare_passage
from kvtool.diagnose.compare.tools import MAX_EXCERPT, compare_tools, is_tool
from kvtool.diagnose.compare.units import (
    MAX_TEXT,
    Unit,
    aligned,
    common_prefix,
    common_suffix,
    differing,
    json_around,
    plain,
    same_end,
    units,
)
from kvtool.diagnose.invisible_differences import NORMALIZERS, cosmetic
from kvtool.text.align import EqualRun

_MOST_CHANGES = 256
_SHORT_RUN = 16
_END = 64
"""Characters of the end of a text that are looked for in a text that may go on, at so many places:"""
_MOST_ENDS = 32
_BEHIND = 64
"""Shared characters after a difference from which on it counts where a text may end in something new."""


@dataclass(frozen=True, slots=True)
class TextWhere:
    """The place of a text that is compared. `offset` is its beginning in its part; `history` the first character of the history.

    `tail`: the later text may go on, or end in something else, where the earlier one ends. `conversation`: it is all of a
    conversation, whose history may be cut. `later`: where nothing but values differ, it is not found out which.
    """

    part: RequestPart
    offset: int = 0
    history: int = NEVER
    tail: bool = False
    conversation: bool = False
    later: bool = False


class TextGap(NamedTuple):
    """Units `[a0, a1)` of the earlier text stand where the later one has `[b0, b1)`; `behind` shared characters follow."""

    a0: int
    a1: int
    b0: int
    b1: int
    behind: int


def compare_texts(before: str, after: str, where: TextWhere) -> list[Change]:
    """Return how two texts differ, in order of position; nothing where `where.tail` and one of them begins with the other."""
    a, b = str.__str__(before), str.__str__(after)
    if a == b or (where.tail and (b.startswith(a) or a.startswith(b))):
        return []
    if where.conversation and (cut := front_cut(a, b, where.history)) is not None:
        spot = where.offset + cut.at
        return [Change(WINDOW, where.part, spot, spot, a[cut.at : cut.at + cut.length][:MAX_EXCERPT])]
    end = _same_end(a, b) if where.tail else len(b)
    return _Texts(a, b if end is None else b[:end], where, parted=end is None).changes()


def _same_end(a: str, b: str) -> int | None:
    """Return how far the later text goes until the end of the earlier one is found in it, with the most before it that both have.

    None where it is not found, or where what differs first is only spelled in another way: then the end may be, too.
    """
    start = a.rfind("\n", 0, common_prefix(a, b)) + 1
    one, other = (each[start : start + 4096].lstrip().partition("\n")[0] for each in (a, b))
    if plain(one) == plain(other):
        return None
    if len(a) < 2 * _END:
        return None
    spot = len(a) - _END
    ends = [at + _END for at in _occurrences(b, a[-_END:], spot)]
    return max(ends, key=lambda at: (common_suffix(a, b[:at], min(len(a), at)), -abs(at - len(a))), default=None)


def _occurrences(text: str, piece: str, near: int) -> list[int]:
    """Return where a piece is in a text: the nearest places on either side."""
    found: list[int] = []
    at = text.find(piece, near)
    while at >= 0 and len(found) < _MOST_ENDS:
        found.append(at)
        at = text.find(piece, at + 1)
    at = text.rfind(piece, 0, max(near, 0) + len(piece) - 1)
    while at >= 0 and len(found) < 2 * _MOST_ENDS:
        found.append(at)
        at = text.rfind(piece, 0, at + len(piece) - 1)
    return found


class _Texts:
    """`parted`: the end of the earlier text is not in the later one as it was; if at all, then in other characters."""

    def __init__(self, a: str, b: str, where: TextWhere, *, parted: bool) -> None:
        self.a, self.b, self.where = str.__str__(a), str.__str__(b), where
        start, stop_a, stop_b = differing(self.a, self.b)
        if parted:
            stop_a, stop_b = len(a), len(b)
        if max(len(a), len(b)) <= MAX_TEXT:
            low_a, high_a = json_around(self.a, start, stop_a)
            low_b, high_b = json_around(self.b, start, stop_b)
            start, grown = min(low_a, low_b), max(high_a - stop_a, high_b - stop_b)
            stop_a, stop_b = stop_a + grown, stop_b + grown
        self.suffix = len(a) - stop_a
        self.shared_end = common_suffix(self.a, self.b, min(len(a), len(b)) - start)
        self.units_a, self.units_b = units(self.a, start, stop_a), units(self.b, start, stop_b)
        if parted:
            end = same_end([unit.key for unit in self.units_a], [unit.key for unit in self.units_b])
            del self.units_b[end:]
            self.b = self.b[: self.units_b[-1].stop if self.units_b else start]
        runs = aligned([unit.key for unit in self.units_a], [unit.key for unit in self.units_b])
        self.runs = list(self._long_enough(runs))

    def changes(self) -> list[Change]:
        """Return the changes in order of position, at most so many."""
        found: list[list[Change] | Differing] = [
            [change for run in self.runs for change in self._same_text_changes(run)]
        ]
        gaps = self._gaps()
        found.append(self._reordered(gaps))
        found += [self._lists(gap) if self._is_tail(gap) else self._gap(gap) for gap in gaps]
        values = [each for each in found if isinstance(each, Differing)]
        if (
            self.where.later
            and values
            and all(each.are_values if isinstance(each, Differing) else not each for each in found)
        ):
            offset = self.where.offset
            start, stop = offset + values[0].hull[2], offset + values[-1].hull[3]
            return [Change(OTHER, self.where.part, start, stop, in_full=lambda: self._in_order(found))]
        return self._in_order(found)

    def _in_order(self, found: list[list[Change] | Differing]) -> list[Change]:
        changes = [
            change for each in found for change in (self._named(each.named()) if isinstance(each, Differing) else each)
        ]
        return sorted(changes, key=lambda change: (change.start, change.stop))[:_MOST_CHANGES]

    def _long_enough(self, runs: list[EqualRun]) -> Iterator[EqualRun]:
        """Yield the runs without those that are a short line between two large differences, which is chance."""
        previous = (0, 0)
        for index, run in enumerate(runs):
            following = runs[index + 1] if index + 1 < len(runs) else EqualRun(len(self.units_a), len(self.units_b), 0)
            length = sum(len(unit.key) for unit in self.units_a[run.a_start : run.a_start + run.length])
            before = self._size(previous[0], run.a_start, previous[1], run.b_start)
            behind = self._size(run.a_start + run.length, following[0], run.b_start + run.length, following[1])
            last = not following.length and not self.suffix
            if length >= _SHORT_RUN or not before or (not behind and not last) or 4 * length >= before + behind:
                yield run
                previous = (run.a_start + run.length, run.b_start + run.length)

    def _size(self, a0: int, a1: int, b0: int, b1: int) -> int:
        return max(_length(self.units_a, a0, a1), _length(self.units_b, b0, b1))

    def _gaps(self) -> list[TextGap]:
        """Return what differs, without the new end that a text may have."""
        gaps: list[TextGap] = []
        at_a, at_b, behind = len(self.units_a), len(self.units_b), self.shared_end
        for run in [*reversed(self.runs), EqualRun(0, 0, 0)]:
            stop_a, stop_b = run.a_start + run.length, run.b_start + run.length
            if stop_a < at_a or stop_b < at_b:
                gaps.append(TextGap(stop_a, at_a, stop_b, at_b, behind))
            behind += _length(self.units_a, run.a_start, stop_a)
            at_a, at_b = run.a_start, run.b_start
        gaps.reverse()
        return gaps

    def _is_tail(self, gap: TextGap) -> bool:
        """Return whether nothing that counts is after a gap of a text that may end in something new."""
        size = self._size(gap.a0, gap.a1, gap.b0, gap.b1)
        return self.where.tail and gap.behind < _BEHIND and 4 * gap.behind < size

    def _same_text_changes(self, run: EqualRun) -> Iterator[Change]:
        """Yield units that say the same in other characters."""
        pairs = []
        for index in range(run.length):
            one, other = self.units_a[run.a_start + index], self.units_b[run.b_start + index]
            text_a, text_b = self.a[one.start : one.stop], self.b[other.start : other.stop]
            last = index == run.length - 1 and not self._ends(run)
            same = text_a == text_b or self._at_end(one, other, text_a, text_b)
            same = same or (last and text_a.rstrip("\r\n") == text_b.rstrip("\r\n"))  # the empty lines are the gap's
            pairs.append((one, other, 0 if same else 2 + index if one.value is not None else 1))
        for state, group in groupby(pairs, key=lambda pair: pair[2]):
            if not state:
                continue
            listed = list(group)
            (a0, b0, _), (a1, b1, _) = listed[0], listed[-1]
            yield from self._spelling(a0, a1, b0, b1)

    def _ends(self, run: EqualRun) -> bool:
        return run.a_start + run.length == len(self.units_a) and run.b_start + run.length == len(self.units_b)

    def _at_end(self, one: Unit, other: Unit, text_a: str, text_b: str) -> bool:
        """Return whether one of two units goes on with white space only because the other one is the end of its text."""
        if not self.where.tail:
            return False
        return (one.stop == len(self.a) and text_b.startswith(text_a)) or (
            other.stop == len(self.b) and text_a.startswith(text_b)
        )

    def _spelling(self, a0: Unit, a1: Unit, b0: Unit, b1: Unit) -> Iterator[Change]:
        text_a, text_b = self.a[a0.start : a1.stop], self.b[b0.start : b1.stop]
        if a0.value is not None and not same_keys(a0.value, b0.value):
            yield self._change(JSON_KEYS, a0.start, a1.stop, b0.start, b1.stop, cosmetic=True)
            return
        end = "" if a1.stop == len(self.a) and b1.stop == len(self.b) else "\0"  # a line's end is not the text's
        for one in cosmetic(text_a + end, text_b + end) or NORMALIZERS[-1:]:
            yield self._change(one.kind, a0.start, a1.stop, b0.start, b1.stop, cosmetic=True)

    def _reordered(self, gaps: list[TextGap]) -> list[Change]:
        """Return the change of order that the gaps come from, if one does; what moved is taken out of them."""
        inner = next((at for at, gap in enumerate(gaps) if self._is_tail(gap)), len(gaps))
        left_a, left_b = [list(range(gap.a0, gap.a1)) for gap in gaps], [list(range(gap.b0, gap.b1)) for gap in gaps]
        moved = moved_units(self.units_a, left_a, self.units_b, left_b, inner)
        if moved is None:
            del gaps[inner + 1 :]
            return []
        involved = [
            gap
            for gap in gaps
            if not moved.a.isdisjoint(range(gap.a0, gap.a1)) or not moved.b.isdisjoint(range(gap.b0, gap.b1))
        ]
        a0, a1 = self._range(self.units_a, involved[0].a0, involved[-1].a1, len(self.a) - self.suffix)
        b0, b1 = self._range(self.units_b, involved[0].b0, involved[-1].b1, len(self.b) - self.suffix)
        kind = order_kind(self.b, b0, b1, [self.units_b[at] for at in sorted(moved.b)])
        gaps[:] = [rest for gap in gaps[:inner] if (rest := self._without(gap, moved)) is not None]
        return [self._change(kind, a0, a1, b0, b1, cosmetic=kind is TOOLS_REORDERED)]

    def _without(self, gap: TextGap, moved: Moved) -> TextGap | None:
        left_a = [at for at in range(gap.a0, gap.a1) if at not in moved.a]
        left_b = [at for at in range(gap.b0, gap.b1) if at not in moved.b]
        if not left_a and not left_b:
            return None
        a0, a1 = (left_a[0], left_a[-1] + 1) if left_a else (gap.a0, gap.a0)
        b0, b1 = (left_b[0], left_b[-1] + 1) if left_b else (gap.b0, gap.b0)
        return TextGap(a0, a1, b0, b1, gap.behind)

    def _range(self, each: list[Unit], first: int, stop: int, end: int) -> tuple[int, int]:
        """Return the characters of units `[first, stop)`."""
        begin = each[first].start if first < len(each) else end
        return begin, each[stop - 1].stop if stop > first else begin

    def _gap(self, gap: TextGap) -> list[Change] | Differing:
        end_a, end_b = len(self.a) - self.suffix, len(self.b) - self.suffix
        a0, a1 = self._range(self.units_a, gap.a0, gap.a1, end_a)
        b0, b1 = self._range(self.units_b, gap.b0, gap.b1, end_b)
        history = self.where.history <= a0
        if not self.a[a0:a1].strip() and not self.b[b0:b1].strip():
            return [self._change(NORMALIZERS[-1].kind, a0, a1, b0, b1, cosmetic=True)]
        if listed := self._lists(gap):
            return listed
        if gap.a0 == gap.a1 or gap.b0 == gap.b1:
            is_front = self.where.conversation and gap.b0 == gap.b1 and a0 <= self.where.history < a1
            kind = WINDOW if is_front else HISTORY_EDITED if history else OPTIONAL
            return [self._change(kind, a0, a1, b0, b1)]
        text_a, text_b = self.a[a0:a1], self.b[b0:b1]
        if equal := cosmetic(text_a, text_b):
            return [self._change(one.kind, a0, a1, b0, b1, cosmetic=True) for one in equal]
        found = compare_passage(Passage(self.a, a0, a1, self.b, b0, b1, history=history))
        return found if isinstance(found, Differing) else self._named(found)

    def _named(self, found: list[Named]) -> list[Change]:
        return [self._change(kind, *ranges, cosmetic=kind is TOOLS_REORDERED) for kind, ranges in found]

    def _lists(self, gap: TextGap) -> list[Change]:
        """Return tools as JSON that are not the same ones, or a JSON list whose items changed places."""
        units_a, units_b = self.units_a[gap.a0 : gap.a1], self.units_b[gap.b0 : gap.b1]
        if all(is_tool(unit.value) for unit in (*units_a, *units_b)) and (gap.behind or not self.where.tail):
            return self._tools(gap, [unit.value for unit in units_a], [unit.value for unit in units_b])
        units_a, units_b = ([unit for unit in each if unit.value is not None] for each in (units_a, units_b))
        if len(units_a) != 1 or len(units_b) != 1:
            return []
        one, other = units_a[0].value, units_b[0].value
        if not isinstance(one, list) or not isinstance(other, list):
            return []
        if all(map(is_tool, (*one, *other))):
            return self._tools(gap, one, other)
        if sorted(map(canonical, one)) == sorted(map(canonical, other)):
            (a0, a1), (b0, b1) = units_a[0][:2], units_b[0][:2]
            return [self._change(DOCUMENTS_REORDERED, a0, a1, b0, b1)]
        return []

    def _tools(self, gap: TextGap, one: list[Any], other: list[Any]) -> list[Change]:
        a0, a1 = self._range(self.units_a, gap.a0, gap.a1, len(self.a) - self.suffix)
        b0, b1 = self._range(self.units_b, gap.b0, gap.b1, len(self.b) - self.suffix)
        return [self._change(each.kind, a0, a1, b0, b1, cosmetic=each.cosmetic) for each in compare_tools(one, other)]

    def _change(self, kind: DifferenceKind, a0: int, a1: int, b0: int, b1: int, *, cosmetic: bool = False) -> Change:
        offset = self.where.offset
        before, after = self.a[a0 : min(a1, a0 + MAX_EXCERPT)], self.b[b0 : min(b1, b0 + MAX_EXCERPT)]
        return Change(kind, self.where.part, offset + b0, offset + b1, before, after, cosmetic)


def _length(each: list[Unit], first: int, stop: int) -> int:
    return each[stop - 1].stop - each[first].start if stop > first else 0
