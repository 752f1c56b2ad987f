"""Tool calls sent back as the model wrote them: the cache has its answer in those words, and in no others (tier P1)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from xxhash import xxh3_128_digest

from kvtool.diagnose.compare.json_forms import canonical
from kvtool.text.message import Message, answer_message
from kvtool.workload.turn import Turn

RESENT_CALLS = "resend-calls"
"""The kind of a fix that sends tool calls back in the model's own words."""
RESEND_CALLS = "send tool calls back as the model wrote them"

_MOST = 100_000


class ResentCalls:
    """Puts each tool call of an earlier answer back as the model wrote it, where the application wrote its JSON anew.

    It remembers the last 100,000 calls of answers, by what they say.
    """

    def __init__(self) -> None:
        self._written: OrderedDict[bytes, Any] = OrderedDict()

    def __call__(self, turn: Turn) -> Turn:
        before = turn.messages or []
        messages = [self._as_written(message) for message in before]
        answer = answer_message(turn.output_text) if turn.messages and turn.output_text else None
        for call in () if answer is None else answer["tool_calls"]:
            self._written[_content(call)] = call["function"]
            if len(self._written) > _MOST:
                self._written.popitem(last=False)
        if all(one is other for one, other in zip(messages, before, strict=True)):
            return turn
        after = turn.with_messages(messages)
        after.call = turn.call.of_another_prompt
        return after

    def _as_written(self, message: Message) -> Message:
        calls = message.get("tool_calls")
        if not isinstance(calls, list) or not self._written:
            return message
        put_back = [self._call(call) for call in calls]
        changed = any(one is not other for one, other in zip(put_back, calls, strict=True))
        return {**message, "tool_calls": put_back} if changed else message

    def _call(self, call: Any) -> Any:
        if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
            return call
        written = self._written.get(_content(call))
        return call if written is None or written == call["function"] else {**call, "function": written}


def are_rewritten(turns: Sequence[Turn]) -> bool:
    """Return whether these turns send a call of an earlier answer in other words."""
    as_written = ResentCalls()
    return any(as_written(turn) is not turn for turn in turns)


def _content(call: dict[str, Any]) -> bytes:
    """Return a digest of what a call says: its id, name and arguments as values."""
    return xxh3_128_digest(canonical([call.get("id"), call["function"]]))
