"""The values that differ in a gap between two prompts: of template variables, or as the text shows them."""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_letters, digits

from kvtool.diagnose.causes.compared_prompts import ComparedPrompts, GapDifference
from kvtool.diagnose.causes.structure_changes import StructureChanges
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.values.kv104 import USER
from kvtool.diagnose.differing_ranges import PromptSide, VariableAt, is_whole
from kvtool.diagnose.slots import value_slot, words_before
from kvtool.diagnose.values.classify import classify, classify_in
from kvtool.diagnose.values.labels import kind_by_label, kind_of_label, label_before, shared_label
from kvtool.text.traced import Origin

_MOST_VALUE = 512
_SHORT_VALUE = 64
_SAID_BESIDE = ("number", "unix", "date", "ip")
"""Kinds of which the word beside the value says more, without a sign between them: `Ticket 1712003417`."""
_OF_A_WORD = f"{ascii_letters}{digits}-_."
_OF_AN_ID = frozenset(f"{ascii_letters}{digits}")


class DifferingValues:
    """Finds the values that differ between two prompts."""

    def __init__(self, prompts: ComparedPrompts, structure: StructureChanges) -> None:
        self._prompts = prompts
        self._structure = structure

    def find(self, own: PromptSide, theirs: PromptSide | None) -> list[GapDifference]:
        """Return the values that differ between two stretches of text: of each variable, or else the one that
        the detectors find.
        """
        sides = [own] if theirs is None else [own, theirs]
        named = any(self._prompts.sources_of(side).has_variables for side in sides)
        found = list(self._variables(own, theirs)) if named else []
        return found or [self.literal(own, theirs)]

    def _variables(self, own: PromptSide, theirs: PromptSide | None) -> Iterator[GapDifference]:
        """Yield the variables whose values differ. Of the donor's text too, where it is known: what is equal
        there does not vary.
        """
        empty = own.start == own.stop
        mine = list(self._prompts.sources.variables(max(own.start - empty, 0), own.stop + empty))
        if not self._prompts.is_donors(theirs):
            yield from (self._variable(each, self._prompts.text) for each in mine[:1])
            return
        near = self._prompts.donor_sources.variables(max(theirs.start - 1, 0), theirs.stop + 1)
        others = {each.origin: each.value for each in near}
        seen: set[Origin] = set()
        for each in mine:
            absent = each.origin not in others
            if each.origin in seen or others.get(each.origin) == each.value or (empty and absent):
                continue
            seen.add(each.origin)
            yield self._variable(each, self._prompts.text, absent=absent)._replace(donors=others.get(each.origin))
        around = {each.origin for each in self._prompts.sources.variables(max(own.start - 1, 0), own.stop + 1)}
        for each in self._prompts.donor_sources.variables(theirs.start, theirs.stop):
            if each.origin not in around and each.origin not in seen:
                seen.add(each.origin)
                named = self._variable(each, theirs.text, absent=True)
                yield named._replace(value="", other=each.value)

    def _variable(self, each: VariableAt, text: str, *, absent: bool = False) -> GapDifference:
        """Return the slot of a variable of a prompt's text; `absent`: the other prompt has nothing of it."""
        low, high = each.start, each.stop
        kind = classify(each.value)
        if kind is OTHER:
            inside, *around = classify_in(text, low, high)
            within = inside.key == "path" and around[0] <= low and high <= around[1]
            kind = inside if within or around == [low, high] else OTHER
        slot = value_slot(text, each.origin, 0, low, high, kind, shifting=None)
        other = "" if absent else None
        return GapDifference(
            slot, kind, False, each.origin, each.offset, text, low, high, each.value, "", absent, other
        )

    def literal(self, own: PromptSide, theirs: PromptSide | None) -> GapDifference:
        """Return the value that differs in text without variables."""
        if theirs is not None and is_whole(own, theirs):
            place = theirs if self._prompts.is_donors(theirs) else own
            origin, offset = self._prompts.sources_of(place).origin(place.start)
            kind, text, shifting = classify(str(theirs)), theirs.text, self._prompts.shifting(own)
            at = theirs.start, theirs.stop
            slot = value_slot(text, origin, offset, *at, kind, shifting=shifting)
            return GapDifference(slot, kind, False, origin, offset, text, *at, "", absent=True, other=str(theirs))
        kind, low, high = classify_in(self._prompts.text, own.start, own.stop)
        if kind is OTHER:  # as text after it may differ too, a name at the first differing character counts
            first, *around = classify_in(self._prompts.text, own.start, own.start)
            if first is not OTHER or high - low > _MOST_VALUE:
                kind, (low, high) = first, around
        if kind.key == "number" and theirs is not None and (word := _whole_word(own, theirs, low, high)) is not None:
            kind, (low, high) = OTHER, word
        origin, offset = self._prompts.sources.origin(own.start)
        if origin is None and own.stop > own.start:
            origin, offset = self._prompts.sources.origin(own.stop - 1)
            offset -= own.stop - 1 - own.start
        offset = max(offset - (own.start - low), 0)
        label = _label(self._prompts.text, low, numeric=kind.key in _SAID_BESIDE)
        if kind is OTHER and label:
            kind = kind_of_label(label) or OTHER
        elif kind is OTHER and high - low <= _SHORT_VALUE:
            grown = low
            kind, low, label = _by_words(self._prompts.text, low, own.start)
            offset += low - grown
        shifting = self._prompts.tool_place(own) if self._structure.redefines(own) else self._prompts.shifting(own)
        slot = value_slot(self._prompts.text, origin, offset, low, high, kind, shifting=shifting)
        value = str.__getitem__(self._prompts.text, slice(low, high))
        absent = theirs is not None and is_whole(theirs, own)
        other = "" if absent else None
        return GapDifference(
            slot, kind, False, origin, offset, self._prompts.text, low, high, value, label, absent, other
        )


def _whole_word(own: PromptSide, theirs: PromptSide, low: int, high: int) -> tuple[int, int] | None:
    """Return the range of the word that the number `own.text[low:high]` is a part of, where the other side has another word
    there, and not another number in the same one (`12px`): a random id may begin with a digit.
    """
    mine, other = (_word_at(side.text, at) for side, at in ((own, low), (theirs, theirs.start)))
    if mine == (low, high):
        return None
    before, after = own.text[mine[0] : low], own.text[high : mine[1]]
    word = theirs.text[slice(*other)]
    within = word[len(before) : len(word) - len(after)]
    same = word.startswith(before) and word.endswith(after) and (not within or within.isdecimal())
    return None if same or not word else mine


def _word_at(text: str, at: int) -> tuple[int, int]:
    """Return the range of the letters and digits around a place, at most 64 to either side."""
    start = stop = at
    while start > max(at - _SHORT_VALUE, 0) and text[start - 1] in _OF_AN_ID:
        start -= 1
    while stop < min(at + _SHORT_VALUE, len(text)) and text[stop] in _OF_AN_ID:
        stop += 1
    return start, stop


def _by_words(text: str, low: int, first: int) -> tuple[DifferenceKind, int, str]:
    """Return the kind of a short value that differs from `first` on, by the words before it; where it begins, and those words."""
    beside = words_before(text, low)
    if beside and (kind := kind_by_label(beside)) is not None:
        return kind, low, beside
    shared = shared_label(text, low, first)
    kind = kind_of_label(shared[0]) if shared is not None else None
    if shared is None or kind is None or (shared[1] <= low and kind is not USER):
        return OTHER, low, ""
    return kind, max(low, shared[1]), shared[0]


def _label(text: str, low: int, *, numeric: bool) -> str:
    """Return the words before a value that may be its name: up to a colon and the like or, before a number, the word beside it."""
    label = label_before(text, low)
    if numeric and not label:
        word = str.__getitem__(text, slice(max(low - _SHORT_VALUE, 0), low))
        label = label_before(text, low - (len(word) - len(word.rstrip(_OF_A_WORD))))
    return words_before(text, low).rpartition(" ")[2] if numeric and not label else label
