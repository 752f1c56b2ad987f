"""Sessions of Crush, from its database. Tokens are reported for the whole session only; the system prompt is not kept."""

from __future__ import annotations

from typing import Any

from kvtool.text.message import Message
from kvtool.workload.logs.formats.agents.session_calls import SessionAnswer, SessionCalls
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.failed_calls import FAILED
from kvtool.workload.logs.records.incomplete_prompts import kind_of_part
from kvtool.workload.logs.records.record import Record, kind, object_of, seconds
from kvtool.workload.logs.records.record_format import NEW_KIND, Fields, Reading, RecordFormat

_NOT_SENT = ("reasoning", "finish")


def read(record: Record) -> Reading:
    """Return the calls of a session."""
    session = object_of(record.fields.get("crush_session"))
    calls = SessionCalls(
        session=names_of([session.get("id")]) or record.where.session, subagent=bool(session.get("parent_session_id"))
    )
    for at, item in enumerate(record.list_of("messages")):
        message = record.inner("messages", at)
        if message is None:
            raise record.error(f"messages[{at}] must be a message object, not {kind(item)}", "messages", at)
        fields, role = message.fields, message.fields.get("role")
        sent = _messages(message)
        if role == "assistant":
            if not sent:
                calls.leave_out(FAILED)  # it ended before a word of the model
                continue
            answer = SessionAnswer(
                record=message,
                messages=sent,
                model=names_of([fields.get("model")]),
                provider=names_of([fields.get("provider")]),
                identity=names_of([fields.get("id")]),
                end=seconds(fields.get("finished_at") or fields.get("created_at"), "s"),
            )
            calls.answer(answer, whole=True)
            if fields.get("is_summary_message"):
                calls.forget([{**sent[0], "role": "user"}])
                calls.compacted = True
        elif role in ("user", "tool", "system"):
            calls.say(sent, seconds(fields.get("created_at"), "s"))
        else:
            calls.leave_out(NEW_KIND)
    return calls.close()


def _messages(record: Record) -> list[Message]:
    """Return a message as the chat API has it, and a message for each result of a tool."""
    role = str(record.fields.get("role"))
    said: list[Any] = []
    calls: list[Fields] = []
    results: list[Message] = []
    for at, part in enumerate(record.list_of("parts")):
        data, name = object_of(object_of(part).get("data")), str(object_of(part).get("type"))
        label = f"parts[{at}] ({role})"
        match name:
            case "text":
                if data.get("text"):
                    text = record.text(data["text"], "parts", at, "data", "text", part=label)
                    said.append({"type": "text", "text": text})
            case "tool_call":
                function = {"name": data.get("name"), "arguments": str(data.get("input") or "{}")}
                calls.append({"id": data.get("id"), "type": "function", "function": function})
            case "tool_result":
                text = record.text(data.get("content") or "", "parts", at, "data", "content", part=label)
                results.append({"role": "tool", "tool_call_id": data.get("tool_call_id"), "content": text})
            case "shell_command":
                texts = [
                    {"type": "text", "text": record.text(data.get(each) or "", "parts", at, "data", each, part=label)}
                    for each in ("command", "output")
                ]
                said += texts
            case kept_back if kept_back in _NOT_SENT:
                continue
            case other:
                kinds = str(data.get("MIMEType") or other).partition("/")[0]
                said.append({"type": record.text(kind_of_part(kinds), "parts", at, "type", part=label)})
    message: list[Message] = [{"role": role, "content": said}] if said or calls else []
    if calls:
        message[0]["tool_calls"] = calls
    return [*results, *message]


_EXAMPLE = """
{"crush_session": {"id": "s1"}, "messages": [{"id": "m1", "role": "user", "created_at": 1770022800,
 "parts": [{"type": "text", "data": {"text": "Is it open?"}}]}, {"id": "m2", "role": "assistant",
 "model": "claude-sonnet-4-5", "provider": "anthropic", "created_at": 1770022801, "finished_at": 1770022802,
 "parts": [{"type": "text", "data": {"text": "Yes."}}]}]}
"""
FORMAT = RecordFormat(
    "crush",
    "crush_session + messages",
    lambda fields: isinstance(fields.get("crush_session"), dict),
    read,
    example=_EXAMPLE,
    ending=".json",
)
