"""Text of a message before the images and files in front of it (tier P2)."""

from __future__ import annotations

from dataclasses import replace

from kvtool.text.message import Message
from kvtool.workload.turn import Turn

PARTS_LAST = "parts-last"
"""How the key of a fix begins that puts images and files behind the text of their message."""


def parts_last(turn: Turn) -> Turn:
    """The turn with images and files behind the text of each message that begins with them; the very turn where none does.

    What stands between texts stays: a text beside an image may be what is said of that one.
    """
    messages = [_with_parts_last(message) for message in turn.messages or ()]
    same = all(one is other for one, other in zip(messages, turn.messages or (), strict=True))
    return turn if same else replace(turn, messages=messages)


def _with_parts_last(message: Message) -> Message:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    texts = [isinstance(part, dict) and isinstance(part.get("text"), str) for part in content]
    first = texts.index(True) if True in texts else 0
    if not first or not all(texts[first:]):
        return message
    return {**message, "content": [*content[first:], *content[:first]]}
