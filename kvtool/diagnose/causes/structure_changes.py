"""Changes of the structure of a request that explain a gap: tools in another order, an edited history, an optional block."""

from __future__ import annotations

from functools import cached_property

from kvtool.diagnose.causes.compared_prompts import ComparedPrompts, GapDifference
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import TOOL_REDEFINED
from kvtool.diagnose.codes.structure.kv111 import TOOLS_REORDERED
from kvtool.diagnose.codes.structure.kv112 import JSON_KEYS
from kvtool.diagnose.codes.structure.kv113 import DOCUMENTS_REORDERED, LIST_REORDERED
from kvtool.diagnose.codes.structure.kv114 import EXAMPLES_REORDERED
from kvtool.diagnose.codes.structure.kv115 import TOOLS_CHANGED
from kvtool.diagnose.codes.structure.kv116 import ROLE_CHANGED
from kvtool.diagnose.codes.structure.kv141 import WINDOW
from kvtool.diagnose.codes.structure.kv142 import HISTORY_EDITED
from kvtool.diagnose.codes.structure.kv143 import CUT_SHORT
from kvtool.diagnose.codes.structure.kv144 import CONTEXT_BLOCK
from kvtool.diagnose.codes.values.kv107 import OPTIONAL
from kvtool.diagnose.compare.change import Change, in_full
from kvtool.diagnose.compare.messages import compare_answer, compare_structure
from kvtool.diagnose.compare.only_values import differ_in_values
from kvtool.diagnose.differing_ranges import (
    PromptSide,
)
from kvtool.diagnose.slots import source_slot, structural_slot, words_around
from kvtool.diagnose.tool_places import TOOLS

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


class StructureChanges:
    """How a request differs from that of the donor, and which of these changes a gap belongs to."""

    def __init__(self, prompts: ComparedPrompts) -> None:
        self._prompts = prompts

    @cached_property
    def _changes(self) -> list[Change]:
        """Return how the prompt's request and the donor's differ; nothing where that is in values alone, which
        need not be named.
        """
        if self._prompts.donor is None:
            return []
        before = self._prompts.donor.turn
        found = compare_answer(before, self._prompts.turn)
        if not found and differ_in_values(before, self._prompts.turn):
            return []
        found += compare_structure(before, self._prompts.turn)
        told = any(change.cosmetic or change.kind in _TOLD for change in found)
        return in_full(found) if told else []

    def find(self, own: PromptSide, theirs: PromptSide | None) -> Change | None:
        """Return the change of structure that a gap belongs to; None where it is a value that differs."""
        if not self._changes:
            return None
        change = self._covering(own, theirs)
        if change is None or not (change.cosmetic or change.kind in STRUCTURAL):
            return None
        if change.kind.code in _IN_SESSIONS and not self._prompts.in_session:
            return None
        if change.kind.code in _EDITED and not self._prompts.goes_on:
            return None
        if change.kind.code not in _IN_VARIABLES:
            return change
        held = [*self._prompts.sources.variables(own.start, own.stop)]
        if self._prompts.is_donors(theirs):
            held += self._prompts.donor_sources.variables(theirs.start, theirs.stop)
        # what a chat template makes of the messages around a change, such as the id of a call, is no part of it
        in_variable = any(each.origin.part != "chat template" for each in held)
        return None if in_variable else change

    def _covering(self, own: PromptSide, theirs: PromptSide | None) -> Change | None:
        if self._prompts.turn.messages is None:
            texts = [change for change in self._changes if change.part.kind == "text"]
            return self._nearest(texts, own, theirs, 0)
        layout = self._prompts.layout
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
        if near and (start == stop or (self._prompts.is_donors(theirs) and theirs.start == theirs.stop)):
            return near[0]  # what was put in or left out may be aligned a little further on
        moved = next((change for change in changes if change.kind in _ORDERS), None)
        return moved if moved is not None and self._prompts.is_donors(theirs) and _elsewhere(own, theirs) else None

    def _is_beside(self, change: Change, index: int) -> bool:
        """Return whether a change is one of fields other than the content, of the message before message `index` or of that one."""
        at = change.part.index
        return at in (index - 1, index) and change.start >= self._prompts.layout.content_length(at)

    def slot_of(self, change: Change, own: PromptSide, theirs: PromptSide | None) -> GapDifference:
        """Return the slot of a change of structure. Where only the donor has a section, its place in the source is the donor's."""
        part = "history" if change.kind.code in _IN_SESSIONS else TOOLS if change.part.kind == "tools" else ""
        if change.kind is TOOL_REDEFINED:
            part = self._prompts.tool_place(own)
        if change.kind is ROLE_CHANGED:
            part = f"messages[{change.part.index}]" if change.part.index == 0 else "history"
        if change.kind is JSON_KEYS and change.part.role == "assistant":  # its calls; the model wrote them
            part = "messages (assistant)"
        value = str(own) if change.kind.code in _IN_SESSIONS else change.after
        absent = change.kind.code == OPTIONAL.code and not (change.before and change.after)
        words = words_around(change.before or change.after, 0, 0) if absent else None
        if absent and not change.after and self._prompts.is_donors(theirs):
            own = theirs
        named = self.slot(change.kind, own, part, words)
        if change.kind is ROLE_CHANGED:  # the template that writes a role is not to blame for which one it is
            named = named._replace(origin=None, offset=0)
        return named._replace(value=value, other=change.before, absent=absent)

    def slot(self, kind: DifferenceKind, side: PromptSide, part: str = "", words: str | None = None) -> GapDifference:
        sources = self._prompts.sources_of(side)
        origin, offset = sources.said(side.start, side.stop) if part == "history" else sources.origin(side.start)
        slot = source_slot(origin, kind) if origin is not None and not part else None
        if slot is None:
            if not part:
                part = self._prompts.shifting(side) or (origin.part if origin else "chat template")
            slot = structural_slot(part, kind, words)
        return GapDifference(slot, kind, True, origin, offset, side.text, side.start, side.stop, str(side))

    def redefines(self, side: PromptSide) -> bool:
        """Return whether a value is in the definition of a tool that the request before has, too."""
        if not any(change.kind is TOOL_REDEFINED and change.part.kind == "tools" for change in self._changes):
            return False
        in_message = self._prompts.layout.message_part(side.start, side.stop) is not None
        return not in_message and self._prompts.layout.holds_tools(side.start, side.stop)


def _elsewhere(own: PromptSide, theirs: PromptSide) -> bool:
    """Return whether the lines that one side has are in the other prompt, too."""
    return _all_in(str(own), theirs.text) or _all_in(str(theirs), own.text)


def _all_in(piece: str, text: str) -> bool:
    lines = [line for line in piece.split("\n") if len(line) >= _LEAST_MOVED][:_MOST_MOVED]
    return bool(lines) and all(str.find(text, line) >= 0 for line in lines)
