"""Send the instructions of a conversation as its first request had them: a clock or memory block then keeps its value (P3)."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence

from xxhash import xxh3_64_intdigest

from kvtool.fixes.turn_texts import INSTRUCTIONS, texts_of, with_texts
from kvtool.text.cache_marks import without_marks
from kvtool.text.message import Message, role_of
from kvtool.workload.turn import Turn

INSTRUCTIONS_KEPT = "instructions-kept"
"""The kind of a fix that keeps the first instructions of a conversation."""
INSTRUCTIONS_ROLES = ("system", "developer")
KEEP_INSTRUCTIONS = "send the {role} message of a conversation as its first request had it"
FIRST_VALUES = "later requests contain the first values of a conversation, and not their own: evaluate before and after"

_MOST = 100_000

_Place = tuple[int | None, int | None]


class InstructionsKept:
    """Puts the instructions of a conversation's first request into its later ones.

    A conversation has one session, where the log names any, else it begins with the messages of an earlier request. Instructions
    that have less than half of their text in common with the first ones are those of another agent, and stay.
    """

    def __init__(self, role: str) -> None:
        self._role = role
        self._first: OrderedDict[int, dict[_Place, str]] = OrderedDict()

    def __call__(self, turn: Turn) -> Turn:
        texts = [at for at in texts_of(turn) if at.role == self._role]
        keys = _conversation_keys(turn)
        if not texts or not keys:
            return turn
        known = keys if turn.session is not None else reversed(keys[:-1])
        first = next((found for key in known if (found := self._first.get(key)) is not None), {})
        changed: dict[_Place, str] = {}
        for at in texts:
            place = at.message, at.part
            sent = first.setdefault(place, at.text)
            if sent != at.text and _are_alike(sent, at.text):
                changed[place] = sent
        self._first[keys[-1]] = first
        if len(self._first) > _MOST:
            self._first.popitem(last=False)
        if not changed:
            return turn
        after = with_texts(turn, changed)
        after.call = turn.call.of_another_prompt
        return after


def change_in_conversations(turns: Sequence[Turn], role: str) -> bool:
    """Return whether a conversation of these turns sends several texts of this role at one place."""
    kept = InstructionsKept(role)
    return any(kept(turn) is not turn for turn in turns)


def _conversation_keys(turn: Turn) -> list[int]:
    """Return numbers of the conversations that a turn may go on with, and that of its own last; one where it has a session."""
    if turn.session is not None:
        return [xxh3_64_intdigest(f"{turn.group}\0{turn.session}".encode(errors="replace"))]
    key = xxh3_64_intdigest(turn.group.encode(errors="replace"))
    keys: list[int] = []
    for message in turn.messages or ():
        if role_of(message) not in INSTRUCTIONS:
            key = xxh3_64_intdigest(_said(message).encode(errors="replace"), seed=key)
            keys.append(key)
    return keys


def _said(message: Message) -> str:
    """Return what a message says, the same for a text and for parts with that text."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    said = [
        str.__str__(part) if isinstance(part, str) else str(without_marks(part)) if "text" not in part else part["text"]
        for part in parts
        if isinstance(part, str | dict)
    ]
    return "\0".join([role_of(message), *map(str, said), str(message.get("tool_calls"))])


def _are_alike(one: str, other: str) -> bool:
    """Return whether two texts have at least half of their characters in common, by whole lines."""
    lines, others = (Counter(str.__str__(text).split("\n")) for text in (one, other))
    shared = sum(len(line) * count for line, count in (lines & others).items())
    return 2 * shared >= max(len(one), len(other)) - 1
