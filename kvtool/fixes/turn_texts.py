"""The texts of a turn and how they are changed: copies, never the turn that was given, and origins survive."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kvtool.text.cache_marks import is_marked, markable, without_marks
from kvtool.text.message import Message, role_of
from kvtool.text.reordered import Cursor
from kvtool.text.traced import Mark, Traced, concat
from kvtool.workload.turn import Turn

INSTRUCTIONS = frozenset({"", "system", "developer"})
"""Roles of text that the author of an application writes; the text of a request without messages has the role ""."""
_ROLES = ("system", "developer", "user", "assistant", "tool")
_ROLE = re.compile(r"\((\w{1,20})\)\Z")


class TextAt(NamedTuple):
    """A text of a turn: of its message `message` (None: the prompt itself), there of part `part` (None: the whole content)."""

    message: int | None
    part: int | None
    role: str
    text: str


def texts_of(turn: Turn) -> Iterator[TextAt]:
    """Yield all texts, in order. Content that is no text (None, numbers, images) is passed over."""
    if turn.text is not None:
        yield TextAt(None, None, "", turn.text)
    for index, message in enumerate(turn.messages or ()):
        role = role_of(message)
        content = message.get("content")
        if isinstance(content, str):
            yield TextAt(index, None, role, content)
        elif isinstance(content, list):
            for at, part in enumerate(content):
                if isinstance(part, dict) and isinstance(part.get("text"), str):
                    yield TextAt(index, at, role, part["text"])


def is_single(turn: Turn) -> bool:
    """Return whether a request has one message beside its instructions: the messages of a history are sent again as they were."""
    return sum(role_of(message) not in INSTRUCTIONS for message in turn.messages or ()) == 1


def marks_in(turn: Turn) -> int:
    """Count the cache breakpoints of a turn: on its tools, its messages and their parts."""
    return sum(map(is_marked, markable(turn.tools, turn.messages)))


def role_of_part(part: str) -> str:
    """Return the role in the name that origins and slots give a part: `messages[3] (user)`, `system[2]`; "" for a prompt or a
    segment.
    """
    if found := _ROLE.search(part):
        return found[1]
    name = part.partition("[")[0]
    return name if name in _ROLES else ""


def with_texts(turn: Turn, texts: Mapping[tuple[int | None, int | None], str]) -> Turn:
    """Return the turn with other texts at these places (message, part); the turn itself where there are none."""
    if not texts:
        return turn
    if (None, None) in texts:
        turn = replace(turn, text=Traced(texts[None, None]))
    if turn.messages is None:
        return turn
    messages = list(turn.messages)
    for (message, part), text in texts.items():
        if message is None:
            continue
        if messages[message] is turn.messages[message]:
            messages[message] = dict(messages[message])
        if part is None:
            messages[message]["content"] = Traced(text)
            continue
        content = list(messages[message]["content"])
        content[part] = {**content[part], "text": Traced(text)}
        messages[message]["content"] = content
    return replace(turn, messages=messages)


def with_split_text(turn: Turn, at: TextAt, length: int, marks: Mapping[str, Any] | None = None) -> Turn:
    """Return the turn with a text of a message as two blocks, the first of so many characters and with these cache breakpoints.

    The marks of the text stay at its end.
    """
    assert at.message is not None, "a text of a message"
    messages = list(turn.messages or ())
    content = messages[at.message].get("content")
    parts: list[Any] = content if isinstance(content, list) else [{"type": "text", "text": content}]
    number = at.part or 0
    text = Traced(parts[number]["text"])
    two = (
        {**without_marks(parts[number]), "text": text[:length], **(marks or {})},
        {**parts[number], "text": text[length:]},
    )
    messages[at.message] = {**messages[at.message], "content": [*parts[:number], *two, *parts[number + 1 :]]}
    return turn.with_messages(messages)


def blocks_apart(messages: Sequence[Message] | None) -> list[Message] | None:
    """Return messages with each text block of a content as a message of its own, as a workload file writes blocks."""
    return None if messages is None else [each for message in messages for each in _blocks_apart(message)]


def _blocks_apart(message: Message) -> list[Message]:
    content = message.get("content")
    if not isinstance(content, list) or any(not isinstance(part, dict) or "text" not in part for part in content):
        return [message]
    return [
        {**message, "content": part["text"], **{key: part[key] for key in part.keys() - {"type", "text"}}}
        for part in content
    ]


def map_texts(turn: Turn, change: Callable[[str], str], roles: Collection[str] | None = None) -> Turn:
    """Return the turn with `change` made of each text of these roles (None: of all); the very turn where that changes nothing."""
    changed: dict[tuple[int | None, int | None], str] = {}
    for at in texts_of(turn):
        if roles is None or at.role in roles:
            text = change(at.text)
            if text is not at.text and text != at.text:
                changed[at.message, at.part] = text
    return with_texts(turn, changed)


def edited(text: str, edits: Sequence[tuple[int, int, str]]) -> Traced:
    """Return the text with `[start, stop)` replaced, for edits in order; what is put there has the origin of what it replaces."""
    traced = text if isinstance(text, Traced) else Traced(text)
    pieces: list[str] = []
    cursor = Cursor(traced)
    at = 0
    for start, stop, replacement in edits:
        pieces.append(cursor.cut(at, start))
        marks = cursor.cut(start, stop).marks
        if len(replacement) != stop - start:
            first = marks[0] if marks else Mark(0, None, 0)
            marks = (Mark(len(replacement), first.origin, first.offset),)
        pieces.append(Traced(replacement, marks))
        at = stop
    pieces.append(cursor.cut(at, len(traced)))
    return concat(pieces)


def lines_with_places(text: str) -> list[tuple[int, int]]:
    """Return where each line begins and ends, its newline left out."""
    plain = str.__str__(text)
    places: list[tuple[int, int]] = []
    at = 0
    while (end := plain.find("\n", at)) >= 0:
        places.append((at, end))
        at = end + 1
    places.append((at, len(plain)))
    return places
