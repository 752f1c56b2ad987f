"""Sessions of Crush, from its database. Tokens are reported for the whole session only; the system prompt is not kept."""

from __future__ import annotations

import re
from base64 import b64decode
from contextlib import suppress
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.logs.formats.agents.session_calls import SessionAnswer, SessionCalls
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.failed_calls import FAILED
from kvtool.workload.logs.records.incomplete_prompts import kind_of_part
from kvtool.workload.logs.records.record import Record, kind, object_of, seconds
from kvtool.workload.logs.records.record_format import NEW_KIND, Fields, Reading, RecordFormat

_NOT_SENT = ("reasoning", "finish")
_ATTACHED = (
    "\n<system_info>The files below have been attached by the user, consider them in your response</system_info>\n"
)
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""What a terminal does not show of the output of a command: colors and titles."""


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
                    text = record.text(str(data["text"]).strip(), "parts", at, "data", "text", part=label)
                    said.append({"type": "text", "text": text})
            case "tool_call":
                function = {"name": data.get("name"), "arguments": str(data.get("input") or "{}")}
                calls.append({"id": data.get("id"), "type": "function", "function": function})
            case "tool_result":
                text = record.text(data.get("content") or "", "parts", at, "data", "content", part=label)
                media = data.get("data") and not data.get("is_error")  # it is sent in the place of the text
                content = [_other(record, at, data.get("mime_type"), label)] if media else text
                results.append({"role": "tool", "tool_call_id": data.get("tool_call_id"), "content": content})
            case "shell_command":
                shown = f"$ {data.get('command')}\n{_TERMINAL.sub('', str(data.get('output')))}"
                shown = f"{shown}\n(exit code {data.get('exit_code') or 0})"
                text = record.text(f"\n\n{shown}" if said else shown, "parts", at, "data", "output", part=label)
                said.append({"type": "text", "text": text})
            case "binary" if str(data.get("MIMEType")).startswith("text/"):
                note = "" if any("text" in each and _ATTACHED in str(each["text"]) for each in said) else _ATTACHED
                inside = _decoded(data.get("Data"))
                path = f" path='{data['Path']}'" if data.get("Path") else ""
                text = record.text(
                    f"{note}<file{path}>\n\n{inside}\n</file>\n", "parts", at, "data", "Data", part=label
                )
                said.append({"type": "text", "text": text})
            case kept_back if kept_back in _NOT_SENT:
                continue
            case other:
                said.append(_other(record, at, data.get("MIMEType") or other, label))
    message: list[Message] = [{"role": role, "content": said}] if said or calls else []
    if calls:
        message[0]["tool_calls"] = calls
    return [*results, *message]


def _decoded(data: object) -> str:
    """Return the text of a file; empty for what is no Base64."""
    with suppress(ValueError):
        return b64decode(str(data or "")).decode("utf-8", "replace")
    return ""


def _other(record: Record, at: int, kinds: object, label: str) -> dict[str, Any]:
    """Return a part that is no text."""
    return {"type": record.text(kind_of_part(str(kinds).partition("/")[0]), "parts", at, "type", part=label)}


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
