"""Calls that a format puts together itself: a prompt somewhere in a record, and what is said around it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.call import Call
from kvtool.workload.logs.records.call_context import Around
from kvtool.workload.logs.records.call_fields import NO_SETTINGS
from kvtool.workload.logs.records.chat_records import messages_of, tools_of
from kvtool.workload.logs.records.incomplete_prompts import parts_not_counted, texts_of, why_incomplete
from kvtool.workload.logs.records.record import Record, kind, parsed_text
from kvtool.workload.logs.records.record_readings import FoundCall
from kvtool.workload.turn import Turn


def found_at(
    record: Record, prompt: Any, *path: str | int, around: Around, tools: Any = None, answer: str | None = None
) -> FoundCall:
    """The call of a prompt at `path`: a text, or a list of messages, which may be JSON in a text."""
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
        incomplete = why_incomplete([text], _prompt_tokens(around), uncounted=False)
        turn = record.turn(call=Call(incomplete=incomplete), text=text, output_text=answer)
        return _told(turn, around)
    if not isinstance(prompt, list) or not prompt:
        raise record.error(f"the prompt must be text or a list of messages, not {kind(prompt)}", *path)
    return found_call(record, messages_of(record, prompt, *path), around=around, tools=tools, answer=answer)


def found_call(
    record: Record, messages: list[Message], *, around: Around, tools: Any = None, answer: str | None = None
) -> FoundCall:
    """The call of messages that were read."""
    made = tools_of(replace(record, fields={"tools": tools})) if isinstance(tools, list) and tools else None
    parts = parts_not_counted(messages)
    texts = texts_of(messages)
    if made:
        texts.append(str(made))
    incomplete = why_incomplete(texts, _prompt_tokens(around), uncounted=bool(parts))
    settings = replace(NO_SETTINGS, images=parts["image"]) if parts["image"] else NO_SETTINGS
    call = Call(uncounted=tuple(sorted(parts.items())), settings=settings, incomplete=incomplete)
    return _told(record.turn(call=call, messages=messages, tools=made, output_text=answer), around)


def _prompt_tokens(around: Around) -> int | None:
    return None if around.usage is None else around.usage.prompt


def _told(turn: Turn, around: Around) -> FoundCall:
    if around.usage is not None and around.usage.output is not None:
        turn.output_tokens = around.usage.output
    found = around.put_on(FoundCall([turn]))
    assert isinstance(found, FoundCall)
    return found
