"""Cut a history that grows too long in strides, not by a message each turn (KV141, tier P3)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kvtool.diagnose.compare.json_forms import canonical
from kvtool.text.message import Message, role_of
from kvtool.workload.turn import Turn

_MOST_SESSIONS = 1024
STRIDE = 0.5
"""How far the history may grow beyond what the application keeps, as a share of that."""


@dataclass(slots=True)
class _History:
    """The history of a session's last turn, after its instructions: messages put back, then the application's own."""

    back: list[Message] = field(default_factory=list)
    kept: list[Message] = field(default_factory=list)


class StrideWindow:
    """Puts the messages back that an application dropped from the front, until the history is longer than the window by a stride.

    The window is what the application sends, measured in characters. Then everything it dropped goes at once. Remembers the last
    turn of each of at most 1,024 sessions; where a log names none, the turn before.
    """

    def __init__(self, stride: float = STRIDE) -> None:
        self._stride = stride
        self._sessions: OrderedDict[tuple[str, str], _History] = OrderedDict()

    def __call__(self, turn: Turn) -> Turn:
        if not turn.messages:
            return turn
        head = next(
            (at for at, message in enumerate(turn.messages) if role_of(message) not in ("system", "developer")),
            len(turn.messages),
        )
        tail = turn.messages[head:]
        key = (turn.group, turn.session or "")
        before = self._sessions.pop(key, None) or _History()
        dropped = _dropped(before.kept, tail)
        back = [] if dropped is None else [*before.back, *before.kept[:dropped]]
        if back and _size(back) > self._stride * _size(tail):
            back = []
        self._sessions[key] = _History(back, tail)
        if len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        if not back:
            return turn
        return replace(turn, messages=[*turn.messages[:head], *back, *tail], call=turn.call.of_another_prompt)


def _dropped(before: Sequence[Message], after: Sequence[Message]) -> int | None:
    """Return how many messages of the front are gone; None where the rest of the history is not what it was."""
    if not after:
        return None
    for start in range(len(before)):
        if before[start] == after[0]:
            rest = before[start:]
            if len(rest) <= len(after) and list(rest) == list(after[: len(rest)]):
                return start
    return None


def _size(messages: Sequence[Message]) -> int:
    return sum(len(canonical(message)) for message in messages)
