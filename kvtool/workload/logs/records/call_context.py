"""Readers that formats share: a request made of messages, or a body of an API, with the fields that a tool writes around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, SupportsIndex

import numpy as np

from kvtool.text.message import Message
from kvtool.workload.call import NO_CALL, Call, StoredContent, Usage
from kvtool.workload.logs.records.call_fields import NO_SETTINGS
from kvtool.workload.logs.records.chat_records import messages_of, requests_of, tools_of
from kvtool.workload.logs.records.incomplete_prompts import NO_PROMPT, parts_not_counted, texts_of, why_incomplete
from kvtool.workload.logs.records.message_forms import as_messages, as_tools
from kvtool.workload.logs.records.record import Record, kind, object_of, parsed_text
from kvtool.workload.logs.records.record_format import FoundCall, LeftOut, Reading, Several, Turns
from kvtool.workload.turn import Turn

_CONTENTS = frozenset(
    ("messages", "contents", "prompt", "input", "system", "systemInstruction", "instructions", "response")
)
_OF_ANSWERS = frozenset(("choices", "output", "content", "candidates", "usage", "usageMetadata"))
_OF_ITEMS = frozenset(("type", "role"))
_OF_CALL = ("model", "provider", "tenant", "usage", "end", "first_answer", "status", "cost", "incomplete", "stored")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldsAround:
    """Fields around a request; None: not given, and the request's own field counts.

    Times are seconds since 1970. `identity` is the id of the call itself, such as that of its span or of its answer.
    """

    session: str | None = None
    time: float | None = None
    identity: str | None = None
    value: object = None
    output_text: str | None = None
    key: str | None = None
    """What the request names to be sent where it was cached."""
    model: str | None = None
    provider: str | None = None
    tenant: str | None = None
    usage: Usage | None = None
    end: float | None = None
    first_answer: float | None = None
    status: int | None = None
    cost: Decimal | None = None
    incomplete: str | None = None
    stored: tuple[StoredContent, ...] | None = None

    def put_on(self, reading: Reading) -> Reading:
        """Return the same with what is said around it. Times are of the first turn, counts of the only one."""
        if isinstance(reading, LeftOut | Several):
            return reading
        found = reading if isinstance(reading, FoundCall) else FoundCall(reading)
        if len(found.turns) == 1:
            self._put(found.turns[0], alone=True)
        else:
            found.turns = TurnsWithFields(found.turns, self)
        found.identity = self.identity or found.identity
        found.weak = found.weak and self.identity is None
        found.value = self.value if self.value is not None else found.value
        return found

    @property
    def call(self) -> Call:
        """Return the call of these fields alone."""
        return self._call(NO_CALL, alone=True)

    def _put(self, turn: Turn, *, alone: bool) -> Turn:
        turn.session = self.session or turn.session
        if self.time is not None and (alone or not turn.index):
            turn.arrival = self.time
        turn.call = self._call(turn.call, alone=alone)
        if alone and self.usage is not None and turn.call.incomplete is None:
            texts = texts_of(turn.messages or []) if turn.text is None else [turn.text]
            texts += [str(turn.tools)] if turn.tools else []
            why = why_incomplete(texts, self.usage.prompt, uncounted=bool(turn.call.uncounted))
            turn.call = turn.call if why is None else replace(turn.call, incomplete=why)
        if alone:
            turn.output_text = turn.output_text if self.output_text is None else self.output_text
        return turn

    def _call(self, call: Call, *, alone: bool) -> Call:
        said: dict[str, Any] = {
            name: value
            for name in (_OF_CALL if alone else ("model", "provider", "tenant"))
            if (value := getattr(self, name)) is not None
        }
        if self.key is not None:
            said["scope"] = replace(call.scope, key=self.key)
        return replace(call, **said) if said else call


class TurnsWithFields:
    """Turns with what is said around them, each made when it is asked for."""

    def __init__(self, turns: Turns, around: FieldsAround) -> None:
        self._turns = turns
        self._around = around

    def __len__(self) -> int:
        return len(self._turns)

    def __getitem__(self, index: SupportsIndex, /) -> Turn:
        return self._around._put(self._turns[index], alone=False)


def request(record: Record, fields: dict[str, Any], around: FieldsAround) -> FoundCall:
    """Return the one request of what was made of a record: a body of the chat API, perhaps with its answer in `response`."""
    made = Record(fields, record.where, record.pointer, record.around, in_text=True)
    turns = requests_of(made, messages_of(made, made.list_of("messages"), "messages"), single=True)
    found = around.put_on(turns)
    assert isinstance(found, FoundCall)
    return found


def prompt(record: Record, text: str, around: FieldsAround) -> FoundCall:
    """Return the one request that is a text."""
    made = Record({}, record.where, record.pointer, (), in_text=True)
    found = around.put_on([made.turn(text=made.text(text, part="prompt"))])
    assert isinstance(found, FoundCall)
    return found


def usage_alone(record: Record, around: FieldsAround) -> FoundCall | None:
    """Return a call whose prompt is not in the log, as one token with what is reported; None where its hits are not reported."""
    if around.usage is None or around.usage.prompt is None or around.usage.cached is None:
        return None
    call = Call(incomplete=NO_PROMPT)
    return _call_around(record.turn(call=call, token_ids=np.zeros(1, np.int32)), around)


def body(record: Record, around: FieldsAround) -> Reading | None:
    """Return the request of an object that is the body of some API, or holds one; None where it is none."""
    from kvtool.workload.logs.records.records import read_inner

    reading = read_inner(record)
    return None if reading is None else around.put_on(reading)


def call_from(
    record: Record, value: Any, around: FieldsAround, *, answer: Any = None, beside: dict[str, Any] | None = None
) -> FoundCall | None:
    """Return the one request that a value is, in whatever form: a body of an API, messages, JSON of these in a text, or a text.

    `answer` is what came of it, `beside` what else a body of the chat API would say (`tools`, `tool_choice`). None: it holds none.
    """
    if isinstance(value, str):
        parsed = parsed_text(value)
        if parsed is None:
            return prompt(record, value, around) if value else None
        value = parsed
    said = object_of(value)
    messages = None if _is_gemini(said) else as_messages(value)
    if messages:
        fields = {**(beside or {}), **{key: each for key, each in said.items() if key not in _CONTENTS}}
        fields["messages"] = messages
        fields["tools"] = as_tools(fields.get("tools") or fields.get("functions"))
        return request(record, _answered(fields, answer), around)
    if isinstance(value, list):
        items = bool(value) and all(isinstance(each, dict) and not _OF_ITEMS.isdisjoint(each) for each in value)
        said = {"input": value} if items else {}  # those of OpenAI's Responses
    if not said:
        return None
    made = Record(_answered({**(beside or {}), **said}, answer), record.where, record.pointer, (), in_text=True)
    found = body(made, around)
    return found if isinstance(found, FoundCall) else None


def _is_gemini(said: dict[str, Any]) -> bool:
    """Return whether a body is one of Gemini's API, whose parts have names of their own."""
    contents = said.get("contents")
    return isinstance(contents, list) and any(isinstance(each, dict) and "parts" in each for each in contents)


def _answered(fields: dict[str, Any], answer: Any) -> dict[str, Any]:
    """Add the answer where a body has it beside itself; a message becomes the choice that it was."""
    if isinstance(answer, str):
        answer = parsed_text(answer) or answer
    if isinstance(answer, dict) and not _OF_ANSWERS.isdisjoint(answer) and "role" not in answer:
        return {**fields, "response": answer}
    if isinstance(answer, str):
        return {**fields, "response": answer}
    if isinstance(answer, list) and answer and isinstance(answer[0], dict) and "message" in answer[0]:
        return {**fields, "response": {"choices": answer}}
    said = as_messages(answer)
    return {**fields, "response": {"choices": [{"message": said[-1]}]}} if said else fields


def found_at(
    record: Record, prompt: Any, *path: str | int, around: FieldsAround, tools: Any = None, answer: str | None = None
) -> FoundCall:
    """Return the call of a prompt at `path`: a text, or a list of messages, which may be JSON in a text."""
    if isinstance(prompt, str):
        parsed = parsed_text(prompt)
        if isinstance(parsed, dict) and isinstance(parsed.get("messages"), list):
            tools = tools or parsed.get("tools")
            parsed = parsed["messages"]
        if isinstance(parsed, list) and parsed and all(isinstance(each, dict) and "role" in each for each in parsed):
            within = replace(
                record, pointer=record.pointer if record.in_text else (*record.pointer, *path), in_text=True
            )
            return found_call(
                record, messages_of(within, parsed, "messages"), around=around, tools=tools, answer=answer
            )
        text = record.text(prompt, *path, part="".join(str(each) for each in path[-1:]) or "prompt")
        incomplete = why_incomplete([text], None, uncounted=False)
        turn = record.turn(call=Call(incomplete=incomplete), text=text, output_text=answer)
        return _call_around(turn, around)
    if not isinstance(prompt, list) or not prompt:
        raise record.error(f"the prompt must be text or a list of messages, not {kind(prompt)}", *path)
    return found_call(record, messages_of(record, prompt, *path), around=around, tools=tools, answer=answer)


def found_call(
    record: Record, messages: list[Message], *, around: FieldsAround, tools: Any = None, answer: str | None = None
) -> FoundCall:
    """Return the call of messages that were read."""
    made = tools_of(replace(record, fields={"tools": tools})) if isinstance(tools, list) and tools else None
    parts = parts_not_counted(messages)
    incomplete = why_incomplete(texts_of(messages), None, uncounted=bool(parts))
    settings = replace(NO_SETTINGS, images=parts["image"]) if parts["image"] else NO_SETTINGS
    call = Call(uncounted=tuple(sorted(parts.items())), settings=settings, incomplete=incomplete)
    return _call_around(record.turn(call=call, messages=messages, tools=made, output_text=answer), around)


def _call_around(turn: Turn, around: FieldsAround) -> FoundCall:
    if around.usage is not None and around.usage.output is not None:
        turn.output_tokens = around.usage.output
    found = around.put_on(FoundCall([turn]))
    assert isinstance(found, FoundCall)
    return found
