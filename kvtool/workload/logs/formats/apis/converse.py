"""Bodies of Bedrock's Converse API, and of the models that take its form: blocks without a `type`, tools in `toolConfig`."""

from __future__ import annotations

import json
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.logs.records.call_context import FieldsAround
from kvtool.workload.logs.records.call_fields import answer_object
from kvtool.workload.logs.records.chat_records import requests_of
from kvtool.workload.logs.records.incomplete_prompts import kind_of_part
from kvtool.workload.logs.records.record import Record, kind, text_of
from kvtool.workload.logs.records.record_format import Fields, Reading, RecordFormat

_ONLY_HERE = frozenset(("toolConfig", "inferenceConfig", "additionalModelRequestFields", "guardrailConfig"))
_BLOCKS = frozenset(("text", "toolUse", "toolResult", "cachePoint", "image", "document", "video", "reasoningContent"))


def is_body(fields: Fields) -> bool:
    """Return whether these are the fields of such a body."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        return False
    if not _ONLY_HERE.isdisjoint(fields):
        return True
    for holder in (messages[0], messages[-1]):
        content = holder.get("content") if isinstance(holder, dict) else None
        first = content[0] if isinstance(content, list) and content else None
        if not isinstance(first, dict) or "type" in first or _BLOCKS.isdisjoint(first):
            return False
    return True


def read(record: Record) -> Reading:
    """Return the request of a body."""
    messages: list[Message] = []
    system = record.fields.get("system")
    if isinstance(system, str):
        messages.append({"role": "system", "content": record.text(system, "system", part="system")})
    elif system:
        blocks = _Blocks(record)
        blocks.add_all(system, "system", "system")
        messages += blocks.messages("system")
    for i, item in enumerate(record.list_of("messages")):
        if not isinstance(item, dict):
            raise record.error(f"messages[{i}] must be a message object, not {kind(item)}", "messages", i)
        role = item.get("role")
        if not isinstance(role, str):
            raise record.error(f"messages[{i}] has no `role`", "messages", i)
        label = f"messages[{i}] ({role})"
        if isinstance(item.get("content"), str):
            text = record.text(item["content"], "messages", i, "content", part=label)
            messages.append({"role": role, "content": text})
            continue
        blocks = _Blocks(record)
        blocks.add_all(item.get("content"), label, "messages", i, "content")
        messages += blocks.messages(role)
    no_mark = {"cache_control": None}  # the API knows none of a whole request
    body = record.holding({**record.fields, **no_mark, "system": None, "tools": _tools(record)})
    turns = requests_of(body, messages)
    return FieldsAround(output_text=answer_text(answer_object(record)[0])).put_on(turns)


def answer_text(answer: Fields) -> str | None:
    """Return the text of the model; None where an answer is none of this API's."""
    output = answer.get("output")
    message = output.get("message") if isinstance(output, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return None
    blocks = [each for each in content if isinstance(each, dict)]
    calls = [_call(each["toolUse"]) for each in blocks if isinstance(each.get("toolUse"), dict)]
    texts = "".join(each["text"] for each in blocks if isinstance(each.get("text"), str))
    return text_of({"content": texts, "tool_calls": calls})


def _tools(record: Record) -> list[Any] | None:
    config = record.fields.get("toolConfig")
    tools = config.get("tools") if isinstance(config, dict) else record.fields.get("tools")
    found: list[Any] = []
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict):
            continue
        if isinstance(spec := tool.get("toolSpec"), dict):
            function = {name: spec[name] for name in ("name", "description") if name in spec}
            schema = spec.get("inputSchema")
            if isinstance(schema, dict):
                function["parameters"] = schema.get("json", schema)
            found.append({"type": "function", "function": function})
        elif "cachePoint" in tool and found:
            found[-1]["cache_control"] = _mark(tool["cachePoint"])
        elif "cachePoint" not in tool:
            found.append(tool)
    return found or None


class _Blocks:
    """The message made of a list of blocks."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._parts: list[Any] = []
        self._calls: list[Any] = []
        self._results: list[Message] = []

    def add_all(self, blocks: Any, label: str, *path: str | int) -> None:
        if blocks is None:
            return
        if not isinstance(blocks, list):
            raise self._record.error(f"the content of {label} must be a list, not {kind(blocks)}", *path)
        for i, block in enumerate(blocks):
            self._add(block, label, *path, i)

    def messages(self, role: str) -> list[Message]:
        """Return results of tools first, as they are messages of their own, then the rest."""
        if not self._parts and not self._calls and self._results:
            return self._results
        content: Any = self._parts or None
        if len(self._parts) == 1 and set(self._parts[0]) == {"type", "text"}:
            content = self._parts[0]["text"]
        message: Message = {"role": role, "content": content}
        if self._calls:
            message["tool_calls"] = self._calls
        return [*self._results, message]

    def _add(self, block: Any, label: str, *path: str | int) -> None:
        if not isinstance(block, dict):
            raise self._record.error(f"the content of {label} has {kind(block)} instead of a block", *path)
        if block.get("text") is not None:
            text = self._record.text(block["text"], *path, "text", part=label)
            self._parts.append({"type": "text", "text": text})
        elif isinstance(use := block.get("toolUse"), dict):
            self._calls.append(_call(use))
        elif isinstance(result := block.get("toolResult"), dict):
            self._add_result(result, label, *path, "toolResult", "content")
        elif "cachePoint" in block:
            last = self._parts[-1] if self._parts else self._results[-1] if self._results else None
            if last is not None:
                last["cache_control"] = _mark(block["cachePoint"])
        elif isinstance(guarded := block.get("guardContent"), dict) and isinstance(guarded.get("text"), dict):
            text = self._record.text(guarded["text"].get("text"), *path, "guardContent", "text", "text", part=label)
            self._parts.append({"type": "text", "text": text})
        elif "reasoningContent" not in block:
            self._parts += self._other(block, label, *path)

    def _other(self, block: Fields, label: str, *path: str | int) -> list[Fields]:
        """Return a block that is no text, with its kind; nothing for an empty one."""
        named = next(iter(block), None)
        if named is None:
            return []
        return [{**block, "type": self._record.text(kind_of_part(named.lower()), *path, part=label)}]

    def _add_result(self, result: Fields, label: str, *path: str | int) -> None:
        texts: list[Any] = []
        content = result.get("content")
        for i, part in enumerate(content if isinstance(content, list) else ()):
            if not isinstance(part, dict):
                continue
            if isinstance(part.get("text"), str):
                texts.append({"type": "text", "text": self._record.text(part["text"], *path, i, "text", part=label)})
            elif "json" in part:
                said = json.dumps(part["json"], ensure_ascii=False)
                texts.append({"type": "text", "text": self._record.text(said, *path, i, "json", part=label)})
            else:
                texts += self._other(part, label, *path, i)
        whole = texts[0]["text"] if len(texts) == 1 and "text" in texts[0] else texts or None
        self._results.append({"role": "tool", "tool_call_id": result.get("toolUseId"), "content": whole})


def _mark(point: Any) -> Fields:
    """Return a cache point in the form of Anthropic's marks."""
    ttl = point.get("ttl") if isinstance(point, dict) else None
    return {"type": "ephemeral"} | ({"ttl": ttl} if isinstance(ttl, str) else {})


def _call(use: Fields) -> Fields:
    arguments = json.dumps(use.get("input") or {}, ensure_ascii=False)
    return {
        "id": use.get("toolUseId"),
        "type": "function",
        "function": {"name": use.get("name"), "arguments": arguments},
    }


_EXAMPLE = """
{"modelId": "amazon.nova", "messages": [{"role": "user", "content": [{"text": "Is it open?"}]}]}
"""
FORMAT = RecordFormat(
    "converse", "messages + toolConfig or blocks without a type", is_body, read, "s", example=_EXAMPLE
)
