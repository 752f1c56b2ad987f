"""Marks that are drawn anew for each request and are around what a user wrote: one mark for all requests (tier P3)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.layout.kv201 import KV201
from kvtool.diagnose.codes.values.kv102 import KV102
from kvtool.diagnose.codes.values.kv105 import KV105
from kvtool.diagnose.compare.messages import content_text
from kvtool.diagnose.compare.tools import tool_name
from kvtool.fixes.moves.move_target import MoveTarget, places_at, value_in, with_value
from kvtool.fixes.turn_texts import edited, map_texts, texts_of
from kvtool.text.message import role_of
from kvtool.text.structure.sentences import words_in
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

_MOST_TOOLS = 10_000
_ROLES = ("system", "developer", "user")
"""Roles under which an application sends text of its own; an answer or the output of a tool is bound to its own."""
_MOST_TEXTS = 10_000
DELIMITER = "delimiter"
"""The kind of a fix whose trial holds the mark of all requests at that of the first."""
ONE_DELIMITER = "use one fixed delimiter for all requests"
IT_IS_KNOWN = "a user who knows the delimiter can write it: remove it from user text"

_CODES = (KV102.code, KV105.code, KV201.code)
_WORD = re.compile(r"[^\W_]{4,64}")
_MOST_WORDS = 3
"""Words beside a mark on the line of nothing else: `<<<END OF TEXT 4f9a>>>`."""
_LONGEST = 80
_AROUND = 2
_WITHIN = 1


@dataclass(frozen=True, slots=True)
class SingleDelimiter:
    """Writes the mark of the first request in place of that of each."""

    target: MoveTarget
    mark: str

    @classmethod
    def learn(cls, cause: SlotCause, target: MoveTarget, samples: Sequence[Turn]) -> SingleDelimiter | None:
        """Return None where most of a few requests do not have the cause's value above and below a text, and in a sentence."""
        if cause.kind.code not in _CODES or cause.structural:
            return None
        looked = with_value(samples, target)
        marks = [mark for turn in looked if (mark := _mark_of(turn, target)) is not None]
        if len(looked) < _AROUND or 2 * len(marks) <= len(looked) or len(set(marks)) < _AROUND:
            return None
        return cls(target, marks[0])

    def __call__(self, turn: Turn) -> Turn:
        mark = _mark_of(turn, self.target)
        if mark is None or mark == self.mark:
            return turn

        def change(text: str) -> str:
            edits = [(at, at + len(mark), self.mark) for at in _places(str.__str__(text), mark)]
            return edited(text, edits) if edits else text

        return map_texts(turn, change)


def _mark_of(turn: Turn, target: MoveTarget) -> str | None:
    """Return the word of the target's value that is alone on two lines or more, and on another one with what is said of it."""
    texts = [Traced(at.text) for at in texts_of(turn)]
    words: dict[str, None] = {}
    for text in texts:
        for place in places_at(text, target):
            start, stop = value_in(text, *place, target)
            value = str.__getitem__(text, slice(start, stop))
            words.update(dict.fromkeys(_WORD.findall(value) if len(value) <= _LONGEST else ()))
    for word in words:
        alone = said = 0
        for text in texts:
            for line in _lines_with(str.__str__(text), word):
                bare = len(line) <= _LONGEST and words_in(line.replace(word, " ")) <= _MOST_WORDS
                alone += bare
                said += not bare
        if alone >= _AROUND and said >= _WITHIN:
            return word
    return None


def _lines_with(text: str, word: str) -> Iterator[str]:
    last = -1
    for at in _places(text, word):
        start = text.rfind("\n", 0, at) + 1
        if start != last:
            last = start
            end = text.find("\n", at)
            yield text[start : end if end >= 0 else len(text)].strip()


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


@dataclass(frozen=True, slots=True)
class SingleRole:
    """Gives messages of these texts these roles."""

    roles: dict[str, str]

    @classmethod
    def learn(cls, samples: Iterable[Turn]) -> SingleRole | None:
        """Learn from requests; return None where no text came under two roles."""
        found: dict[str, Counter[str]] = {}
        for turn in samples:
            for message in turn.messages or ():
                text, role = content_text(message.get("content")), role_of(message)
                if role in _ROLES and text.strip() and (text in found or len(found) < _MOST_TEXTS):
                    found.setdefault(text, Counter())[role] += 1
        roles = {text: counts.most_common(1)[0][0] for text, counts in found.items() if len(counts) > 1}
        return cls(roles) if roles else None

    def __call__(self, turn: Turn) -> Turn:
        messages = list(turn.messages or ())
        changed = False
        for at, message in enumerate(messages):
            role = self.roles.get(content_text(message.get("content")))
            if role is not None and role_of(message) in _ROLES and role_of(message) != role:
                messages[at] = {**message, "role": role}
                changed = True
        return replace(turn, messages=messages) if changed else turn


class FirstDefinitions:
    """Gives each tool the definition that the first request of its group had of it; remembers these."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], Any] = {}

    def __call__(self, turn: Turn) -> Turn:
        if not isinstance(turn.tools, list) or not turn.tools:
            return turn
        steady = [self._of(turn.group, tool) for tool in turn.tools]
        same = all(mine is first or mine == first for mine, first in zip(turn.tools, steady, strict=True))
        return turn if same else replace(turn, tools=steady)

    def _of(self, group: str, tool: Any) -> Any:
        name = tool_name(tool)
        if not name or ((group, name) not in self._first and len(self._first) >= _MOST_TOOLS):
            return tool
        return self._first.setdefault((group, name), tool)
