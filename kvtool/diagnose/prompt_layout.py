"""The layout of a rendered prompt: the part of the request that each character belongs to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvtool.diagnose.compare.messages import content_text
from kvtool.diagnose.compare.tools import tool_name
from kvtool.text.message import Message, role_of
from kvtool.text.pieces import found_in_order
from kvtool.text.templates.served_messages import part_text
from kvtool.workload.turn import Turn


@dataclass(frozen=True, slots=True)
class Stretch:
    """Characters `[start, stop)` of a prompt: text of message `index`, from `offset` of that message's text on."""

    start: int
    stop: int
    index: int
    offset: int


class Layout:
    """The messages of a turn in its rendered text, found in order; a template may strip them or leave some out."""

    def __init__(self, turn: Turn, text: str) -> None:
        self._turn = turn
        self._text = text
        self._message_parts = list(_message_parts(turn.messages or (), text))
        self._starts = [message_part.start for message_part in self._message_parts]

    def message_part(self, start: int, stop: int) -> Stretch | None:
        """Return the message text that holds the first of the characters `[start, stop)` that is in a message (or touches
        it).
        """
        at = max(bisect_right(self._starts, start) - 1, 0)
        for message_part in self._message_parts[at : at + 2]:
            if message_part.start < max(stop, start + 1) and start < message_part.stop:
                return message_part
        touching = [each for each in self._message_parts[at : at + 2] if each.start <= stop and start <= each.stop]
        return touching[0] if touching else None

    def around(self, start: int, stop: int) -> tuple[int, int]:
        """Return the stretch without message text that `[start, stop)` is in."""
        at = bisect_right(self._starts, start) - 1
        low = self._message_parts[at].stop if at >= 0 else 0
        high = self._starts[at + 1] if at + 1 < len(self._starts) else len(self._text)
        return min(low, start), max(high, stop)

    def next_message(self, start: int) -> int:
        """Return the index of the message whose text is the first to end after `start`."""
        for message_part in self._message_parts[max(bisect_right(self._starts, start) - 1, 0) :]:
            if start < message_part.stop:
                return message_part.index
        return len(self._turn.messages or ())

    def holds_tools(self, start: int, stop: int) -> bool:
        """Return whether `[start, stop)` is in the list of tools, as far as names of tools tell."""
        low, high = self.around(start, stop)
        names = [name for tool in self._turn.tools or () if (name := tool_name(tool))]
        return any(self._text.find(name, low, high) >= 0 for name in names) if names else not self._turn.tools

    def content_length(self, index: int) -> int:
        """Count characters of a message's content; what a template makes of its other fields counts as text after it."""
        messages = self._turn.messages or ()
        return len(content_text(_parts(messages[index]))) if 0 <= index < len(messages) else 0

    def role(self, index: int) -> str:
        """Return the role of a message, empty where it has none."""
        messages = self._turn.messages or ()
        return role_of(messages[index]) if 0 <= index < len(messages) else ""

    def shifts(self, index: int) -> bool:
        """Return whether a message may be at another place in another turn: it comes after the first one of the user."""
        return "user" in map(role_of, (self._turn.messages or ())[:index])


def _message_parts(messages: Sequence[Message], text: str) -> Iterator[Stretch]:
    pieces = [(index, *found) for index, message in enumerate(messages) for found in _with_offsets(message)]
    found = found_in_order((piece for _, _, piece in pieces), text)
    for (index, offset, piece), place in zip(pieces, found, strict=True):
        if place is not None:
            start, stop = place
            yield Stretch(start, stop, index, offset + len(piece) - len(piece.lstrip()))


def _with_offsets(message: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield the texts of a message and what is for its images and files, without their origins, each with the length of the
    texts before it.
    """
    offset = 0
    for part in _parts(message):
        yield offset, str.__str__(part_text(part))
        offset += len(content_text([part]))


def _parts(message: Mapping[str, Any]) -> list[Any]:
    """Return the parts of a message's content; none where it is no text and no list."""
    content = message.get("content")
    return [content] if isinstance(content, str) else list(content) if isinstance(content, list | tuple) else []
