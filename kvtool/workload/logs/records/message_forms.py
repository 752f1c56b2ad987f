"""Messages and tools in the forms of many tools and APIs, made into those of the chat API of OpenAI, which all else here reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.logs.records.record import parsed_text

_ROLES = {
    "human": "user",
    "humanmessage": "user",
    "humanmessagechunk": "user",
    "user": "user",
    "ai": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "model": "assistant",
    "assistant": "assistant",
    "chat": "user",
    "chatmessage": "user",
    "choice": "assistant",
    "system": "system",
    "systemmessage": "system",
    "developer": "developer",
    "tool": "tool",
    "toolmessage": "tool",
    "function": "tool",
    "functionmessage": "tool",
}
_CALL_PARTS = frozenset(("tool_call", "tool-call", "function_call", "tool_use", "toolCall"))
_RESULT_PARTS = frozenset(("tool_call_response", "tool-result", "tool_result", "function_response", "toolResult"))
_DATA_PARTS = frozenset(("blob", "uri", "file", "file_id", "image", "audio", "video", "document", "media"))
_DROPPED = frozenset(("reasoning", "thinking", "redacted_thinking"))


def as_messages(value: object) -> list[Message] | None:
    """Return the messages of a value in whatever form; None where it holds none."""
    if isinstance(value, str):
        parsed = parsed_text(value)
        return None if parsed is None else as_messages(parsed)
    if isinstance(value, dict):
        return _of_object(value)
    if not isinstance(value, list) or not value:
        return None
    if isinstance(value[0], list):  # a batch of one
        return as_messages(value[0])
    made: list[Message] = []
    for item in value:
        found = _message(item)
        if found is None:
            return None
        made += found
    return made


def _of_object(value: dict[str, Any]) -> list[Message] | None:
    for name in ("messages", "contents", "prompt", "input"):
        if name in value and (found := as_messages(value[name])) is not None:
            system = next(
                (
                    value[key]
                    for key in ("system", "systemInstruction", "system_instruction", "instructions")
                    if value.get(key)
                ),
                None,
            )
            return [*_system(system), *found]
    found = _message(value)
    return found if found is not None and ("role" in value or "lc" in value or "kwargs" in value) else None


def _system(value: object) -> list[Message]:
    """Return messages of what is beside the others."""
    if value is None:
        return []
    if isinstance(value, dict) and "parts" in value:
        value = value["parts"]
    if isinstance(value, str) and (parsed := parsed_text(value)) is not None:
        value = parsed
    return (
        [{"role": "system", "content": value}] if isinstance(value, str) else _of_parts("system", _listed(value), None)
    )


def system_messages(value: object) -> list[Message]:
    """Return instructions that are beside the messages: a text, or parts, or the JSON of these."""
    return _system(value)


def _message(item: object) -> list[Message] | None:
    """Return one message; several, where its parts are results of tools."""
    if isinstance(item, str):
        return [{"role": "user", "content": item}]
    if not isinstance(item, dict):
        return None
    if isinstance(item.get("message"), dict):
        return _message(item["message"])
    if isinstance(item.get("kwargs"), dict) and "lc" in item:
        named = item.get("id")
        name = named[-1] if isinstance(named, list) and named and isinstance(named[-1], str) else ""
        return _message({"type": name, **item["kwargs"]})
    if isinstance(item.get("data"), dict) and "type" in item:
        return _message({**item["data"], "type": item["type"]})
    role = _role(item)
    if role is None:
        return None
    extra = item.get("additional_kwargs")
    calls = item.get("tool_calls") or (extra.get("tool_calls") if isinstance(extra, dict) else None)
    parts = next((item[name] for name in ("parts", "contents") if isinstance(item.get(name), list)), None)
    content = item.get("content")
    if parts is None and isinstance(content, list):
        parts = content
    if parts is not None:
        messages = _of_parts(role, parts, item)
    else:
        content = content if isinstance(content, str) or content is None else json.dumps(content, ensure_ascii=False)
        messages = [_bare(item, role, content)]
    if isinstance(calls, list) and calls:
        made = [made for call in calls if (made := _call(call)) is not None]
        target = next((each for each in messages if each["role"] == role), None)
        if target is None:
            messages.append(target := _bare(item, role, None))
        target["tool_calls"] = [*target.get("tool_calls", []), *made]
    return messages


def _bare(item: Mapping[str, Any], role: str, content: Any) -> Message:
    message: Message = {"role": role, "content": content}
    for name in ("tool_call_id", "name"):
        if isinstance(item.get(name), str):
            message[name] = item[name]
    if "cache_control" in item:
        message["cache_control"] = item["cache_control"]
    return message


def _role(item: Mapping[str, Any]) -> str | None:
    for name in ("role", "type"):
        value = item.get(name)
        if isinstance(value, dict):  # an enumeration that was written as an object
            value = value.get("value")
        if isinstance(value, str) and (found := _ROLES.get(value.lower().rpartition(".")[2])) is not None:
            return found
        if name == "role" and isinstance(value, str):
            return value
    return None


def _of_parts(role: str, parts: list[Any], item: Mapping[str, Any] | None) -> list[Message]:
    """Return a message of parts; results of tools come before what else it says, as messages of their own."""
    kept: list[Any] = []
    calls: list[Any] = []
    results: list[Message] = []
    for part in parts:
        if isinstance(part, dict) and isinstance(part.get("message_content"), dict):
            part = part["message_content"]
        if isinstance(part, str):
            kept.append({"type": "text", "text": part})
            continue
        if not isinstance(part, dict):
            continue
        kind = found if isinstance(found := part.get("type"), str) else None
        if kind in _CALL_PARTS or "functionCall" in part or "toolUse" in part:
            if (call := _call(part.get("functionCall") or part.get("toolUse") or part)) is not None:
                calls.append(call)
        elif kind in _RESULT_PARTS or "functionResponse" in part or "toolResult" in part:
            results.append(_result(part.get("functionResponse") or part.get("toolResult") or part))
        elif kind in _DROPPED or part.get("thought"):
            continue
        elif isinstance(text := part.get("text", None if _is_data(part) else part.get("content")), str):
            kept.append(
                {**{key: value for key, value in part.items() if key != "content"}, "type": "text", "text": text}
            )
        else:
            kept.append({**part, "type": _kind_of_part(part)})
    if role == "tool" and not results:
        return [_bare(item or {}, role, kept)]
    if not (kept or calls) and results:
        return results
    only = kept[0]["text"] if len(kept) == 1 and kept[0].keys() == {"type", "text"} else kept or None
    message = _bare(item or {}, role, only)
    if calls:
        message["tool_calls"] = calls
    return [*results, message]


def _is_data(part: Mapping[str, Any]) -> bool:
    """Return whether the content of a part is something else than text."""
    return str(part.get("type")) in _DATA_PARTS or any(name in part for name in ("modality", "mime_type", "mimeType"))


def _kind_of_part(part: Mapping[str, Any]) -> str:
    kind = part.get("modality") or part.get("type")
    if isinstance(kind, str) and kind not in ("blob", "uri", "file_id"):
        return kind
    mime = next((part[name] for name in ("mime_type", "mimeType", "media_type") if isinstance(part.get(name), str)), "")
    inner: dict[str, Any] = next(
        (part[name] for name in ("inlineData", "fileData", "inline_data") if isinstance(part.get(name), dict)), {}
    )
    mime = mime or str(inner.get("mimeType", inner.get("mime_type", "")))
    if "image" in part or mime.startswith("image/"):
        return "image"
    return mime.partition("/")[0] or "file"


def _call(value: Any) -> dict[str, Any] | None:
    """Return a call of a tool in the form of the chat API."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("tool_call"), dict):
        value = value["tool_call"]
    function = value.get("function")
    named = function if isinstance(function, dict) else value
    name = named.get("name") or named.get("toolName") or named.get("tool_name")
    said: Any = next(
        (named[key] for key in ("arguments", "args", "input", "parameters") if named.get(key) is not None), {}
    )
    said = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    own = value.get("id") or value.get("toolCallId") or value.get("toolUseId") or value.get("call_id")
    return {"id": own, "type": "function", "function": {"name": name, "arguments": said}}


def _result(part: Mapping[str, Any]) -> Message:
    """Return the result of a tool as a message."""
    said: Any = next(
        (part[key] for key in ("response", "result", "content", "output", "text") if part.get(key) is not None), ""
    )
    if isinstance(said, dict) and said.keys() == {"type", "value"}:
        said = said["value"]
    if isinstance(said, list) and all(isinstance(each, dict) and isinstance(each.get("text"), str) for each in said):
        said = "".join(each["text"] for each in said)
    own = next(
        (part[key] for key in ("id", "tool_call_id", "tool_use_id", "toolCallId", "toolUseId") if part.get(key)), None
    )
    content = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": own, "content": content}


def as_tools(value: object) -> list[Any] | None:
    """Return tools in whatever form as a list of objects; None where there is none."""
    made: list[Any] = []
    for item in _listed(value):
        tool = item
        if isinstance(tool, dict) and isinstance(tool.get("tool"), dict):
            tool = tool["tool"]
        if isinstance(tool, dict) and "json_schema" in tool:
            tool = tool["json_schema"]
        if isinstance(tool, str):
            tool = parsed_text(tool)
        if not isinstance(tool, dict):
            continue
        declared = tool.get("functionDeclarations") or tool.get("function_declarations")
        if isinstance(declared, list):
            made += [each for each in declared if isinstance(each, dict)]
            continue
        if isinstance(tool.get("parameters"), str) and (parsed := parsed_text(tool["parameters"])) is not None:
            tool = {**tool, "parameters": parsed}
        made.append(tool)
    return made or None


def _listed(value: object) -> list[Any]:
    if isinstance(value, str):
        value = parsed_text(value)
    if isinstance(value, dict):
        return [value]
    return value if isinstance(value, list) else []
