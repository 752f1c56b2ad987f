"""Debug logs of Copilot Chat in VS Code (Chat Debug view, "Export All as JSON"): each request as it was sent, with its usage.

Roles and kinds of parts are words in some versions and numbers in others.
"""

from __future__ import annotations

from typing import Any

from kvtool.workload.logs.records.call_context import FieldsAround, found_call
from kvtool.workload.logs.records.call_fields import names_of
from kvtool.workload.logs.records.chat_records import messages_of
from kvtool.workload.logs.records.failed_calls import FAILED, PROMPTLESS
from kvtool.workload.logs.records.record import Record, object_of, seconds
from kvtool.workload.logs.records.record_format import NEW_KIND, Fields, LeftOut, Reading, RecordFormat, Several
from kvtool.workload.logs.records.usage import usage_of

_ROLES = ("system", "user", "assistant", "tool")
_PARTS = ("image", "text", "opaque", "cache_breakpoint")
_NO_REQUESTS = ("toolCall", "element")
_TOOL = LeftOut("tool call or prompt element beside the requests")


def read(record: Record) -> Reading:
    """Return the requests of an export, of one of its prompts, or of one of its entries."""
    fields = record.fields
    if isinstance(fields.get("prompts"), list):
        inner = [record.inner("prompts", at) for at in range(len(fields["prompts"]))]
        return Several(each for prompt in inner for each in (() if prompt is None else _logs(prompt)))
    return _logs(record) if isinstance(fields.get("logs"), list) else Several([_entry(record)])


def _logs(record: Record) -> Several:
    logs = record.fields.get("logs")
    entries = [record.inner("logs", at) for at in range(len(logs) if isinstance(logs, list) else 0)]
    return Several(NEW_KIND if entry is None else _entry(entry) for entry in entries)


def _entry(record: Record) -> Any:
    fields = record.fields
    if fields.get("kind") in _NO_REQUESTS:
        return _TOOL
    if fields.get("kind") != "request":
        return NEW_KIND
    response, metadata = object_of(fields.get("response")), object_of(fields.get("metadata"))
    inner = record.inner("requestMessages")
    items = None if inner is None else inner.fields.get("messages")
    if inner is None or not isinstance(items, list) or not items:
        return PROMPTLESS if metadata else _TOOL  # a page about models
    if response.get("type") in ("failure", "canceled", "completion_failure"):
        return FAILED
    around = FieldsAround(
        session=f"{record.where.session} {fields.get('name') or ''}".strip(),
        time=seconds(metadata.get("startTime"), "ms"),
        end=seconds(metadata.get("endTime"), "ms"),
        identity=names_of([metadata.get("serverRequestId"), metadata.get("requestId"), fields.get("id")]),
        model=names_of([metadata.get("model")]),
        provider="github_copilot",
        usage=usage_of(metadata.get("usage"), (*record.pointer, "metadata", "usage")),
    )
    said = response.get("message")
    answer = "".join(map(str, said)) if isinstance(said, list) else said if isinstance(said, str) else None
    messages = messages_of(inner, [_message(each) for each in items], "messages")
    return found_call(record, messages, around=around, tools=metadata.get("tools"), answer=answer)


def _message(item: Any) -> Any:
    """Return a message as the chat API writes it; a breakpoint is a mark of the part before it."""
    if not isinstance(item, dict):
        return item
    made = {**item, "role": _named(item.get("role"), _ROLES)}
    for name, theirs in (("tool_calls", "toolCalls"), ("tool_call_id", "toolCallId")):
        if theirs in item:
            made[name] = item[theirs]
    if isinstance(item.get("content"), list):
        parts: list[Any] = []
        for part in item["content"]:
            kind = _named(object_of(part).get("type"), _PARTS)
            if kind == "cache_breakpoint":
                if parts:
                    parts[-1] = {**parts[-1], "cache_control": {"type": "ephemeral"}}
            elif kind != "opaque":
                parts.append({**object_of(part), "type": "image_url" if kind == "image" else kind})
        made["content"] = parts
    return made


def _named(value: Any, names: tuple[str, ...]) -> Any:
    """Return the name of a number of an enumeration; anything else as it is."""
    return names[value] if type(value) is int and 0 <= value < len(names) else value


def fits(fields: Fields) -> bool:
    """Return whether a record is an export of the debug view, or a part of one."""
    if fields.get("kind") == "request" and "requestMessages" in fields:
        return True
    logs = fields.get("logs")
    if "promptId" in fields and isinstance(logs, list):
        return True
    prompts = fields.get("prompts")
    first = prompts[0] if isinstance(prompts, list) and prompts else None
    return "totalLogEntries" in fields and isinstance(first, dict) and isinstance(first.get("logs"), list)


_EXAMPLE = """
{"exportedAt": "2026-02-02T09:01:00Z", "totalPrompts": 1, "totalLogEntries": 1, "prompts": [{"promptId": "p1",
 "prompt": "Is it open?", "logs": [{"id": "l1", "kind": "request", "type": "ChatMLSuccess", "name": "panel/editAgent",
 "metadata": {"model": "claude-opus-4.6", "startTime": "2026-02-02T09:00:00Z", "endTime": "2026-02-02T09:00:01Z",
 "usage": {"prompt_tokens": 24, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 16}}},
 "requestMessages": {"messages": [{"role": "system", "content": "You are Mina."}, {"role": 1,
 "content": [{"type": 1, "text": "Is it open?"}]}]}, "response": {"type": "success", "message": ["Yes."]}}]}]}
"""
FORMAT = RecordFormat(
    "copilot-chat", "prompts with logs of kind: request", fits, read, example=_EXAMPLE, ending=".json"
)
