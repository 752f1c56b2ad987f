"""Each gap of a prompt named: the slots that vary in it, and the rung that closing it would take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from string import ascii_letters, digits
from typing import NamedTuple, TypeGuard

from kvtool.accounting.ledger.alignment import DonorAlignment, Gap, Rung
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER, TOOL_REDEFINED
from kvtool.diagnose.codes.structure.kv111 import TOOLS_REORDERED
from kvtool.diagnose.codes.structure.kv112 import JSON_KEYS
from kvtool.diagnose.codes.structure.kv113 import DOCUMENTS_REORDERED, LIST_REORDERED
from kvtool.diagnose.codes.structure.kv114 import EXAMPLES_REORDERED
from kvtool.diagnose.codes.structure.kv115 import TOOLS_CHANGED
from kvtool.diagnose.codes.structure.kv116 import ROLE_CHANGED
from kvtool.diagnose.codes.structure.kv122 import SEAM
from kvtool.diagnose.codes.structure.kv124 import GENERATED
from kvtool.diagnose.codes.structure.kv141 import WINDOW
from kvtool.diagnose.codes.structure.kv142 import HISTORY_EDITED
from kvtool.diagnose.codes.structure.kv143 import CUT_SHORT
from kvtool.diagnose.codes.structure.kv144 import CONTEXT_BLOCK
from kvtool.diagnose.codes.values.kv104 import USER
from kvtool.diagnose.codes.values.kv106 import FILE
from kvtool.diagnose.codes.values.kv107 import OPTIONAL
from kvtool.diagnose.compare.change import Change, in_full
from kvtool.diagnose.compare.history import history_start
from kvtool.diagnose.compare.messages import compare_answer, compare_structure, goes_on
from kvtool.diagnose.compare.only_values import differ_in_values
from kvtool.diagnose.differing_ranges import (
    PromptSide,
    Sources,
    VariableAt,
    by_line,
    char_span,
    is_whole,
    trimmed,
    widened,
)
from kvtool.diagnose.invisible_differences import cosmetic, first_word
from kvtool.diagnose.prompt_layout import Layout
from kvtool.diagnose.slots import Slot, source_slot, structural_slot, value_slot, words_around, words_before
from kvtool.diagnose.tool_places import TOOLS, tool_place
from kvtool.diagnose.values.classify import classify, classify_in
from kvtool.diagnose.values.labels import kind_by_label, kind_of_label, label_before, shared_label
from kvtool.diagnose.values.value_shapes import in_file_list, lists_files
from kvtool.text.tokens.prompt import Ids, Prompt
from kvtool.text.traced import Origin
from kvtool.workload.turn import Turn

_CONTEXT = 4
"""Tokens around a gap that are decoded with it: the bytes of one character may be in several tokens."""
_LONG_LINE = 240
_MOST_VALUE = 512
_SHORT_VALUE = 64
_SAID_BESIDE = ("number", "unix", "date", "ip")
"""Kinds of which the word beside the value says more, without a sign between them: `Ticket 1712003417`."""
_OF_A_WORD = f"{ascii_letters}{digits}-_."
_OF_AN_ID = frozenset(f"{ascii_letters}{digits}")
_MOST_DECODED = 4096
STRUCTURAL = frozenset(
    (
        TOOLS_REORDERED,
        TOOLS_CHANGED,
        JSON_KEYS,
        DOCUMENTS_REORDERED,
        LIST_REORDERED,
        EXAMPLES_REORDERED,
        OPTIONAL,
        WINDOW,
        HISTORY_EDITED,
        CONTEXT_BLOCK,
        CUT_SHORT,
        ROLE_CHANGED,
    )
)
"""Kinds of change that are told instead of a value."""
_TOLD = STRUCTURAL | {TOOL_REDEFINED}
"""Kinds of change that say where a value stands, if not what it is."""
_ORDERS = (TOOLS_REORDERED, DOCUMENTS_REORDERED, LIST_REORDERED, EXAMPLES_REORDERED)
_SLIP = 16
"""Characters by which the place of what was put in or left out may differ: those after it may be those that it ends with."""
_LEAST_MOVED = 16
_MOST_MOVED = 32
_IN_SESSIONS = (WINDOW.code, HISTORY_EDITED.code, CUT_SHORT.code, CONTEXT_BLOCK.code)
"""What happens to a history; the history of another session is simply another one."""
_EDITED = (HISTORY_EDITED.code, CUT_SHORT.code, CONTEXT_BLOCK.code)
_IN_VARIABLES = (OPTIONAL.code, HISTORY_EDITED.code, CUT_SHORT.code)
"""Changes of structure that say less than the template variable which they are in."""


class Named(NamedTuple):
    """One slot that varies in a gap. `value` is this prompt's, empty where only the donor has one; `[low, high)` is its range in
    `text`, which is the donor's then. `structural` kinds are known from the comparison of the requests. `other` is the donor's
    value where it counts as one, too.
    """

    slot: Slot
    kind: DifferenceKind
    structural: bool
    origin: Origin | None
    offset: int
    text: str
    low: int
    high: int
    value: str
    label: str = ""
    absent: bool = False
    other: str | None = None
    tail: int = 0
    """Tokens after the gap that belong to the same line: they go with the value where its line goes."""


def _as_file(named: Named) -> Named:
    """Return a value that is an entry of a listing of files."""
    return named._replace(kind=FILE, slot=replace(named.slot, kind=FILE.key))


def _is_entry(named: Named) -> bool:
    """Return whether a value of which nothing else is known is in a listing of files."""
    return named.kind is OTHER and named.slot.variable is None and in_file_list(named.text, named.low)


class Namer:
    """Names the gaps of one alignment."""

    def __init__(
        self, turn: Turn, prompt: Prompt, alignment: DonorAlignment, decode: Callable[[Ids], str] | None = None
    ) -> None:
        self._turn = turn
        self._prompt = prompt
        self._alignment = alignment
        self._decode = decode
        donor = alignment.donor
        self._donor = None if donor is None or donor.prompt.text is None else donor
        self._text: str = "" if prompt.text is None else prompt.text

    def name(self, gap: Gap) -> tuple[Rung, list[Named]]:
        """Return the rung of a gap and its slots, the first of which is to blame; none where the prompt has no text."""
        if self._prompt.text is None:
            return "blocked", []
        own = self._own(gap)
        theirs = self._theirs(gap)
        kind = self._token_boundary(gap, own, theirs)
        if kind is not None:
            return "seam", [self._structural(kind, own)]
        change = self._change(own, theirs)
        # A file that a listing has or lacks is no section: the listing is what varies.
        listed = change is not None and change.kind is OPTIONAL and lists_files(change.before or change.after)
        if change is not None and not listed:
            return "cosmetic" if change.cosmetic else "blocked", [self._changed(change, own, theirs)]
        spelling = None if listed else self._spelling(own, theirs)
        if spelling is not None:
            return "cosmetic", [self._structural(spelling, own)._replace(other=str(theirs))]
        found: list[Named] = []
        for mine, other in by_line(*trimmed(own, theirs)):
            found += self._values(mine, other)
        found = found or [self._literal(own, None)]
        found = [_as_file(each) if listed or _is_entry(each) else each for each in found]
        found[-1] = found[-1]._replace(tail=self._rest_of_line(gap.stop, own.stop))
        return "blocked", found

    def sides(self, gap: Gap, named: Named) -> tuple[PromptSide, PromptSide] | None:
        """Return what the donor has where a slot of a gap is, and what this prompt has; None where the donor's prompt does not
        tell.
        """
        own, theirs = self._own(gap), self._theirs(gap)
        if theirs is None or not self._is_donors(theirs):
            return None
        lines = [trimmed(own, theirs)] if named.structural else list(by_line(*trimmed(own, theirs)))
        of_donor = named.text is theirs.text
        for now, was in lines:
            side = was if of_donor else now
            if was is None or side is None or not (side.start <= named.high and named.low <= side.stop):
                continue
            if of_donor:
                return PromptSide(was.text, named.low, named.high), widened(was, now, named.low, named.high)
            if named.structural:
                return was, now
            return widened(now, was, named.low, named.high), PromptSide(now.text, named.low, named.high)
        return theirs, own

    # Where it is

    @cached_property
    def _layout(self) -> Layout:
        return Layout(self._turn, str.__str__(self._text))

    @cached_property
    def _sources(self) -> Sources:
        return Sources(self._text)

    @cached_property
    def _donor_sources(self) -> Sources:
        return Sources(
            self._donor.prompt.text if self._donor is not None and self._donor.prompt.text is not None else ""
        )

    @cached_property
    def _changes(self) -> list[Change]:
        """Return how the prompt's request and the donor's differ; nothing where that is in values alone, which
        need not be named.
        """
        if self._donor is None:
            return []
        before = self._donor.turn
        found = compare_answer(before, self._turn)
        if not found and differ_in_values(before, self._turn):
            return []
        found += compare_structure(before, self._turn)
        told = any(change.cosmetic or change.kind in _TOLD for change in found)
        return in_full(found) if told else []

    @cached_property
    def _in_session(self) -> bool:
        """Return whether the donor belongs to the same session, as far as sessions are told apart."""
        return self._donor is not None and self._donor.turn.session == self._turn.session

    @cached_property
    def _goes_on(self) -> bool:
        """Return whether this request goes on with the donor's conversation, where the log does not tell sessions apart."""
        if self._donor is None or self._turn.session is not None:
            return True
        before, after = self._donor.turn.messages, self._turn.messages
        return before is None or after is None or goes_on(before, after)

    def _own(self, gap: Gap) -> PromptSide:
        return PromptSide(self._text, *char_span(self._prompt, gap.start, gap.stop))

    def _theirs(self, gap: Gap) -> PromptSide | None:
        """Return what the donor has there: in its prompt, or decoded where it was generated or the prompt is not known any more."""
        donor = self._donor
        if donor is not None and gap.donor_stop <= len(donor.prompt) and donor.prompt.text is not None:
            return PromptSide(donor.prompt.text, *char_span(donor.prompt, gap.donor_start, gap.donor_stop))
        if self._decode is None or gap.donor_stop - gap.donor_start > _MOST_DECODED:
            return None
        text = self._decode(self._alignment.donor_ids[gap.donor_start : gap.donor_stop])
        return PromptSide(text, 0, len(text))

    def rest_of_tools(self, token: int) -> int:
        """Count tokens from `token` to the end of the stretch without messages that it is in; 0 where it is in a message."""
        found = self._prompt.char_range(token) if token < len(self._prompt) else None
        if found is None or self._layout.message_part(found[0], found[0] + 1) is not None:
            return 0
        return max(self._prompt.token_at(self._layout.around(found[0], found[0])[1]) - token, 0)

    def _rest_of_line(self, token: int, start: int) -> int:
        """Count tokens from `token`, whose text begins at `start`, to the end of the line or, where that is
        far, of the sentence.
        """
        text = str.__str__(self._text)
        end = text.find("\n", start, start + _LONG_LINE)
        if end < 0:
            end = text.find(". ", start, start + _LONG_LINE) + 1 or min(start + _LONG_LINE, len(text))
        return max(self._prompt.token_at(end) - token, 0)

    # What it is

    def _token_boundary(self, gap: Gap, own: PromptSide, theirs: PromptSide | None) -> DifferenceKind | None:
        """Return the kind of a gap whose tokens are other ones of the same text; None where the texts differ."""
        lengths = gap.stop - gap.start, gap.donor_stop - gap.donor_start
        if not min(lengths) or max(lengths) > _MOST_DECODED:
            return None
        donor = self._donor
        generated = donor is not None and gap.donor_stop > len(donor.prompt)
        if theirs is not None and donor is not None and not generated:
            same = own.stop > own.start and str(own) == str(theirs)
        elif self._decode is not None:
            before, after = min(_CONTEXT, gap.start, gap.donor_start), min(_CONTEXT, gap.run)
            mine = self._prompt.ids[gap.start - before : gap.stop + after]
            other = self._alignment.donor_ids[gap.donor_start - before : gap.donor_stop + after]
            same = self._decode(mine) == self._decode(other)
        else:
            return None
        if not same:
            return None
        message_part = self._layout.message_part(own.start, own.stop)
        answered = message_part is not None and self._layout.role(message_part.index) == "assistant"
        return GENERATED if generated or answered else SEAM

    def _spelling(self, own: PromptSide, theirs: PromptSide | None) -> DifferenceKind | None:
        """Return the form that alone differs in a gap; on a line that varies elsewhere, too, the whole comparison does not tell
        it.
        """
        if theirs is None:
            return None
        mine, other = str(own), str(theirs)
        if first_word(mine) != first_word(other):
            return None
        if mine.isascii() and other.isascii() and mine.split() != other.split():
            return None
        behind = str.__getitem__(own.text, slice(own.stop, own.stop + 1))
        same = behind == str.__getitem__(theirs.text, slice(theirs.stop, theirs.stop + 1))
        end = (behind if same else "") + "\0"
        unseen = cosmetic("\0" + mine + end, "\0" + other + end)
        return unseen[-1].kind if unseen else None

    def _change(self, own: PromptSide, theirs: PromptSide | None) -> Change | None:
        """Return the change of structure that a gap belongs to; None where it is a value that differs."""
        if not self._changes:
            return None
        change = self._covering(own, theirs)
        if change is None or not (change.cosmetic or change.kind in STRUCTURAL):
            return None
        if change.kind.code in _IN_SESSIONS and not self._in_session:
            return None
        if change.kind.code in _EDITED and not self._goes_on:
            return None
        if change.kind.code not in _IN_VARIABLES:
            return change
        held = [*self._sources.variables(own.start, own.stop)]
        if self._is_donors(theirs):
            held += self._donor_sources.variables(theirs.start, theirs.stop)
        # what a chat template makes of the messages around a change, such as the id of a call, is no part of it
        in_variable = any(each.origin.part != "chat template" for each in held)
        return None if in_variable else change

    def _covering(self, own: PromptSide, theirs: PromptSide | None) -> Change | None:
        if self._turn.messages is None:
            texts = [change for change in self._changes if change.part.kind == "text"]
            return self._nearest(texts, own, theirs, 0)
        layout = self._layout
        message_part = layout.message_part(own.start, own.stop)
        index = layout.next_message(own.start) if message_part is None else message_part.index
        at = (index, index + 1) if message_part is not None and own.start >= message_part.stop else (index,)
        roles = [each for each in self._changes if each.kind is ROLE_CHANGED and each.part.index in at]
        if roles:  # its text is the same, so what differs beside it is what the template makes of the role
            return roles[0]
        if message_part is not None:
            inside = [each for each in self._changes if each.part.kind == "message" and each.part.index == index]
            found = self._nearest(inside, own, theirs, message_part.offset - message_part.start)
            if found is not None:
                return found
        else:
            tools = [each for each in self._changes if each.part.kind == "tools"]
            if tools and layout.holds_tools(own.start, own.stop):
                return min(tools, key=lambda each: each.cosmetic)
            # in what the template makes of roles or of tool calls, say
            beside = [each for each in self._changes if each.part.kind == "message" and self._is_beside(each, index)]
            if beside:
                return min(beside, key=lambda each: each.cosmetic)
        history = [each for each in self._changes if each.part.kind == "history" and each.part.index <= index]
        return history[-1] if history else None

    def _nearest(self, changes: list[Change], own: PromptSide, theirs: PromptSide | None, shift: int) -> Change | None:
        """Return the change of a part that shares most characters with a gap, or touches it; of equals the first.

        A change of order also has the gaps beside it in which one prompt has what the other one has elsewhere: which of several
        things moved is in the eye of the alignment.
        """
        start, stop = own.start + shift, own.stop + shift
        touching = [change for change in changes if change.start <= stop and start <= change.stop]
        if touching:
            found = max(touching, key=lambda each: min(each.stop, stop) - max(each.start, start))
            # of several forms at one place the last one: what is done about it takes the milder ones along
            same = [
                each for each in touching if (each.start, each.stop, each.cosmetic) == (found.start, found.stop, True)
            ]
            return same[-1] if same else found
        near = [change for change in changes if change.start - _SLIP <= stop and start <= change.stop + _SLIP]
        if near and (start == stop or (self._is_donors(theirs) and theirs.start == theirs.stop)):
            return near[0]  # what was put in or left out may be aligned a little further on
        moved = next((change for change in changes if change.kind in _ORDERS), None)
        return moved if moved is not None and self._is_donors(theirs) and _elsewhere(own, theirs) else None

    def _is_beside(self, change: Change, index: int) -> bool:
        """Return whether a change is one of fields other than the content, of the message before message `index` or of that one."""
        at = change.part.index
        return at in (index - 1, index) and change.start >= self._layout.content_length(at)

    def _changed(self, change: Change, own: PromptSide, theirs: PromptSide | None) -> Named:
        """Return the slot of a change of structure. Where only the donor has a section, its place in the source is the donor's."""
        part = "history" if change.kind.code in _IN_SESSIONS else TOOLS if change.part.kind == "tools" else ""
        if change.kind is TOOL_REDEFINED:
            part = self._tool_place(own)
        if change.kind is ROLE_CHANGED:
            part = f"messages[{change.part.index}]" if change.part.index == 0 else "history"
        if change.kind is JSON_KEYS and change.part.role == "assistant":  # its calls; the model wrote them
            part = "messages (assistant)"
        value = str(own) if change.kind.code in _IN_SESSIONS else change.after
        absent = change.kind.code == OPTIONAL.code and not (change.before and change.after)
        words = words_around(change.before or change.after, 0, 0) if absent else None
        if absent and not change.after and self._is_donors(theirs):
            own = theirs
        named = self._structural(change.kind, own, part, words)
        if change.kind is ROLE_CHANGED:  # the template that writes a role is not to blame for which one it is
            named = named._replace(origin=None, offset=0)
        return named._replace(value=value, other=change.before, absent=absent)

    def _structural(self, kind: DifferenceKind, side: PromptSide, part: str = "", words: str | None = None) -> Named:
        sources = self._donor_sources if self._is_donors(side) else self._sources
        origin, offset = sources.said(side.start, side.stop) if part == "history" else sources.origin(side.start)
        slot = source_slot(origin, kind) if origin is not None and not part else None
        if slot is None:
            if not part:
                part = self._shifting(side) or (origin.part if origin else "chat template")
            slot = structural_slot(part, kind, words)
        return Named(slot, kind, True, origin, offset, side.text, side.start, side.stop, str(side))

    def _is_donors(self, side: PromptSide | None) -> TypeGuard[PromptSide]:
        """Return whether a side is of the donor's prompt, so that its text is traced."""
        return side is not None and self._donor is not None and side.text is self._donor.prompt.text

    def _shifting(self, side: PromptSide) -> str | None:
        """Return the part that a place belongs to if it may be elsewhere in other turns, as the history does; else None."""
        messages = self._turn.messages
        if messages is None:
            origin, _ = self._sources.origin(side.start)
            return origin.part if origin is not None and side.start >= self._history else None
        if not messages:
            return None
        message_part = self._layout.message_part(side.start, side.stop)
        index = message_part.index if message_part is not None else self._layout.next_message(side.start)
        index = min(index, len(messages) - 1)
        return f"messages ({self._layout.role(index)})" if self._layout.shifts(index) else None

    def _redefines(self, side: PromptSide) -> bool:
        """Return whether a value is in the definition of a tool that the request before has, too."""
        if not any(change.kind is TOOL_REDEFINED and change.part.kind == "tools" for change in self._changes):
            return False
        in_message = self._layout.message_part(side.start, side.stop) is not None
        return not in_message and self._layout.holds_tools(side.start, side.stop)

    def _tool_place(self, side: PromptSide) -> str:
        tools = self._turn.tools if side.text is self._text else None
        return tool_place(tools, str.__str__(side.text), side.start) or TOOLS

    @cached_property
    def _history(self) -> int:
        """Return the first character of the history in a prompt that is one text."""
        return history_start(str.__str__(self._text))

    def _values(self, own: PromptSide, theirs: PromptSide | None) -> list[Named]:
        """Return the values that differ between two stretches of text: of each variable, or else the one that
        the detectors find.
        """
        if self._sources.has_variables or (self._is_donors(theirs) and self._donor_sources.has_variables):
            found = list(self._variables(own, theirs))
            if found:
                return found
        return [self._literal(own, theirs)]

    def _variables(self, own: PromptSide, theirs: PromptSide | None) -> Iterator[Named]:
        """Yield the variables whose values differ. Of the donor's text too, where it is known: what is equal
        there does not vary.
        """
        empty = own.start == own.stop
        mine = list(self._sources.variables(max(own.start - empty, 0), own.stop + empty))
        if not self._is_donors(theirs):
            yield from (self._variable(each, self._text) for each in mine[:1])
            return
        near = self._donor_sources.variables(max(theirs.start - 1, 0), theirs.stop + 1)
        others = {each.origin: each.value for each in near}
        seen: set[Origin] = set()
        for each in mine:
            absent = each.origin not in others
            if each.origin in seen or others.get(each.origin) == each.value or (empty and absent):
                continue
            seen.add(each.origin)
            yield self._variable(each, self._text, absent=absent)
        around = {each.origin for each in self._sources.variables(max(own.start - 1, 0), own.stop + 1)}
        for each in self._donor_sources.variables(theirs.start, theirs.stop):
            if each.origin not in around and each.origin not in seen:
                seen.add(each.origin)
                named = self._variable(each, theirs.text, absent=True)
                yield named._replace(value="", other=each.value)

    def _variable(self, each: VariableAt, text: str, *, absent: bool = False) -> Named:
        """Return the slot of a variable of a prompt's text; `absent`: the other prompt has nothing of it."""
        low, high = each.start, each.stop
        kind = classify(each.value)
        if kind is OTHER:
            inside, *around = classify_in(text, low, high)
            within = inside.key == "path" and around[0] <= low and high <= around[1]
            kind = inside if within or around == [low, high] else OTHER
        slot = value_slot(text, each.origin, 0, low, high, kind, shifting=None)
        other = "" if absent else None
        return Named(slot, kind, False, each.origin, each.offset, text, low, high, each.value, "", absent, other)

    def _literal(self, own: PromptSide, theirs: PromptSide | None) -> Named:
        """Return the value that differs in text without variables."""
        if theirs is not None and is_whole(own, theirs):
            origin, offset = (
                self._donor_sources.origin(theirs.start) if self._is_donors(theirs) else self._sources.origin(own.start)
            )
            kind = classify(str(theirs))
            slot = value_slot(
                theirs.text, origin, offset, theirs.start, theirs.stop, kind, shifting=self._shifting(own)
            )
            return Named(
                slot,
                kind,
                False,
                origin,
                offset,
                theirs.text,
                theirs.start,
                theirs.stop,
                "",
                absent=True,
                other=str(theirs),
            )
        kind, low, high = classify_in(self._text, own.start, own.stop)
        if (
            kind is OTHER
        ):  # as text behind it may differ too, a name of what stands at the first differing character counts
            first, *around = classify_in(self._text, own.start, own.start)
            if first is not OTHER or high - low > _MOST_VALUE:
                kind, (low, high) = first, around
        if kind.key == "number" and theirs is not None and (word := _whole_word(own, theirs, low, high)) is not None:
            kind, (low, high) = OTHER, word
        origin, offset = self._sources.origin(own.start)
        if origin is None and own.stop > own.start:
            origin, offset = self._sources.origin(own.stop - 1)
            offset -= own.stop - 1 - own.start
        offset = max(offset - (own.start - low), 0)
        label = _label(self._text, low, numeric=kind.key in _SAID_BESIDE)
        if kind is OTHER and label:
            kind = kind_of_label(label) or OTHER
        elif kind is OTHER and high - low <= _SHORT_VALUE:
            grown = low
            kind, low, label = _by_words(self._text, low, own.start)
            offset += low - grown
        shifting = self._tool_place(own) if self._redefines(own) else self._shifting(own)
        slot = value_slot(self._text, origin, offset, low, high, kind, shifting=shifting)
        value = str.__getitem__(self._text, slice(low, high))
        absent = theirs is not None and is_whole(theirs, own)
        other = "" if absent else None
        return Named(slot, kind, False, origin, offset, self._text, low, high, value, label, absent, other)


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


def _elsewhere(own: PromptSide, theirs: PromptSide) -> bool:
    """Return whether the lines that one side has are in the other prompt, too."""
    return _all_in(str(own), theirs.text) or _all_in(str(theirs), own.text)


def _all_in(piece: str, text: str) -> bool:
    lines = [line for line in piece.split("\n") if len(line) >= _LEAST_MOVED][:_MOST_MOVED]
    return bool(lines) and all(str.find(text, line) >= 0 for line in lines)


def _label(text: str, low: int, *, numeric: bool) -> str:
    """Return the words before a value that may be its name: up to a colon and the like or, before a number, the word beside it."""
    label = label_before(text, low)
    if numeric and not label:
        word = str.__getitem__(text, slice(max(low - _SHORT_VALUE, 0), low))
        label = label_before(text, low - (len(word) - len(word.rstrip(_OF_A_WORD))))
    return words_before(text, low).rpartition(" ")[2] if numeric and not label else label
