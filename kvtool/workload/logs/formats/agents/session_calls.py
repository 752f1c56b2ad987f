"""Calls of an agent's session whose file has its messages one after another: each answer is a call, with all before it as its
prompt."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.call import Usage
from kvtool.workload.logs.records.call_context import FieldsAround, found_call
from kvtool.workload.logs.records.failed_calls import PROMPTLESS
from kvtool.workload.logs.records.incomplete_prompts import NO_SYSTEM
from kvtool.workload.logs.records.record import Record, text_of
from kvtool.workload.logs.records.record_format import FoundCall, LeftOut, Several


@dataclass(slots=True, kw_only=True)
class SessionAnswer:
    """An answer of the model, with what its session reports of the call. Times are seconds since 1970."""

    record: Record
    messages: list[Message]
    usage: Usage | None = None
    model: str | None = None
    provider: str | None = None
    cost: Decimal | None = None
    identity: str | None = None
    end: float | None = None

    def join(self, other: SessionAnswer) -> None:
        """Add what is reported with the next piece of the same answer."""
        for name in ("usage", "model", "provider", "cost", "identity"):
            setattr(self, name, getattr(self, name) if getattr(other, name) is None else getattr(other, name))
        self.end = other.end or self.end


@dataclass(slots=True, kw_only=True)
class SessionCalls:
    """The messages of a session so far. `incomplete` says what its file never contains; None where nothing is missing."""

    session: str
    incomplete: str | None = NO_SYSTEM
    tools: list[Any] | None = None
    project: str | None = None
    subagent: bool = False
    history: list[Message] = field(default_factory=list)
    compacted: bool = False
    """Whether a summary has replaced what was before."""
    _sent_at: float | None = None
    _open: SessionAnswer | None = None
    _before: int = 0
    """Messages of the history before the open answer."""
    _found: Several = field(default_factory=Several)

    @property
    def open_identity(self) -> str | None:
        """The id of the answer that may have more pieces."""
        return None if self._open is None else self._open.identity

    def say(self, messages: list[Message], time: float | None) -> None:
        """Add what the model gets next: of a user, or of a tool."""
        if messages:
            self._end_answer()
            self.history += messages
            self._sent_at = time

    def answer(self, answer: SessionAnswer, *, whole: bool = False) -> None:
        """Add an answer; a piece of the one before where both have the same id or only one of them has reported tokens, unless it
        is said to be `whole`."""
        same = answer.identity is not None and answer.identity == self.open_identity
        if self._open is not None and not whole and (same or self._open.usage is None or answer.usage is None):
            self._open.join(answer)
            for message in answer.messages:
                if message.get("tool_calls") and not message["content"] and self._open.messages:
                    self._open.messages[-1].setdefault("tool_calls", []).extend(message["tool_calls"])
                else:
                    self._open.messages.append(message)
                    self.history.append(message)
        else:
            self._end_answer()
            self._open, self._before = answer, len(self.history)
            self.history += answer.messages

    def repeat(self, messages: list[Message]) -> None:
        """Add an answer whose call was returned before."""
        self._end_answer()
        self.history += messages

    def forget(self, history: list[Message]) -> None:
        """Go on with another history: a summary, or the messages before those that a user took back."""
        self._end_answer()
        self.history = list(history)

    def close(self) -> Several:
        """Return the calls since the last time, each once."""
        self._end_answer()
        found, self._found = self._found, Several()
        return found

    def leave_out(self, left: LeftOut) -> None:
        """Count what is no call."""
        self._found.append(left)

    def _end_answer(self) -> None:
        answer, self._open = self._open, None
        if answer is not None:
            self._found.append(self._call(answer))

    def _call(self, answer: SessionAnswer) -> FoundCall | LeftOut:
        if not self._before:
            return PROMPTLESS
        around = FieldsAround(
            session=self.session,
            time=self._sent_at if self._sent_at is not None else answer.end,
            end=answer.end,
            identity=answer.identity,
            model=answer.model,
            provider=answer.provider,
            usage=answer.usage,
            cost=answer.cost,
            incomplete=self.incomplete,
        )
        said = "".join(map(text_of, answer.messages))
        found = found_call(answer.record, self.history[: self._before], around=around, tools=self.tools, answer=said)
        turn = found.turns[0]
        turn.call = replace(
            turn.call,
            project=self.project,
            subagent=self.subagent,
            began="compacted" if self.compacted else None,
        )
        self.compacted = False
        found.value = answer.record.fields
        return found
