"""Send old messages as they were sent first, instead of shortening them turn after turn (KV143, tier P3)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from kvtool.diagnose.codes.structure.kv143 import is_cut_short
from kvtool.fixes.message_proofs import is_same_but_text
from kvtool.text.cache_marks import without_marks
from kvtool.text.message import Message, role_of
from kvtool.workload.turn import Turn

HISTORY_KEPT = "history-kept"
"""The kind of a fix that leaves old messages as they are."""
KEEP_HISTORY = "send old messages as they were sent first, and shorten no message"

_MOST_SESSIONS = 1024


class HistoryKept:
    """Puts back what an application cut out of old messages; the history then only grows.

    It remembers the last turn of each of at most 1,024 sessions; where a log names none, the turn before.
    """

    def __init__(self) -> None:
        self._sent: OrderedDict[tuple[str, str], list[Message]] = OrderedDict()

    def __call__(self, turn: Turn) -> Turn:
        if not turn.messages:
            return turn
        key = turn.group, turn.session or ""
        messages = _restored(self._sent.pop(key, []), turn.messages)
        self._sent[key] = messages
        if len(self._sent) > _MOST_SESSIONS:
            self._sent.popitem(last=False)
        if all(one is other for one, other in zip(messages, turn.messages, strict=True)):
            return turn
        after = turn.with_messages(messages)
        after.call = turn.call.of_another_prompt
        return after


def _restored(before: Sequence[Message], now: Sequence[Message]) -> list[Message]:
    """Return the messages; as long as they are those of the turn before, the shortened ones as they were."""
    found = list(now)
    for at, (was, message) in enumerate(zip(before, now, strict=False)):
        if without_marks(was) == without_marks(message):
            continue
        content = _whole(was.get("content"), message.get("content"))
        if role_of(was) != role_of(message) or content is None:
            break
        found[at] = {**message, "content": content}
    return found


def _whole(old: Any, new: Any) -> Any:
    """Return content with each text that was cut short as it was, and the marks that it has now; None where more differs."""
    if isinstance(old, str) and isinstance(new, str):
        return old if old == new or (len(new) < len(old) and is_cut_short(len(old), len(new))) else None
    if not isinstance(old, list) or not isinstance(new, list) or len(old) != len(new):
        return None
    parts: list[Any] = []
    for was, now in zip(old, new, strict=True):
        if without_marks(was) == without_marks(now):
            parts.append(now)
        elif is_same_but_text(was, now) and (text := _whole(was["text"], now["text"])) is not None:
            parts.append({**now, "text": text})
        else:
            return None
    return parts
