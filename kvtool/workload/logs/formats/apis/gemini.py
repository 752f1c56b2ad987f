"""Bodies of Gemini's API and of Vertex: `contents` with parts, the system's text and the declared functions beside them.

Names are written in camel case by the REST API and with underscores by the client libraries; both are read.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kvtool.text.message import Message
from kvtool.workload.logs.formats.apis import gemini_caches
from kvtool.workload.logs.records.call_context import Around
from kvtool.workload.logs.records.call_fields import answer_object, names_of
from kvtool.workload.logs.records.chat_records import requests_of
from kvtool.workload.logs.records.failed_calls import FAILED
from kvtool.workload.logs.records.incomplete_prompts import kind_of_part
from kvtool.workload.logs.records.record import Record, kind, text_of
from kvtool.workload.logs.records.record_readings import LeftOut, Reading

Fields = dict[str, Any]

KEPT_APART = "its cached content is not in the log"
_ROLES = {"model": "assistant", "function": "tool"}
_SESSIONS = ("session_id", "session", "conversation_id", "thread_id")
_IN_CONFIG = ("systemInstruction", "system_instruction", "tools", "cachedContent", "cached_content", "labels")


def read(record: Record) -> Reading:
    """The request of a body."""
    answer = answer_object(record)[0]
    status = record.first("status")
    if isinstance(status, str) and status and not answer and any("response" in each for each in record.around):
        return FAILED  # Vertex's batches write the reason there
    if "contents" not in record.fields:
        return LeftOut("embedding")
    if (made := gemini_caches.creation(record)) is not None:
        return made
    fields = _with_config(record.fields)
    parts = _Parts(record)
    messages: list[Message] = []
    for name in ("systemInstruction", "system_instruction"):
        if fields.get(name) is not None:
            messages += parts.messages(fields[name], ("system",), name)
            break
    contents = fields["contents"]
    for i, content in enumerate(contents if isinstance(contents, list) else [contents]):
        path = ("contents", i) if isinstance(contents, list) else ("contents",)
        messages += parts.messages(content, (), *path)
    body = record.holding({**fields, "tools": _tools(fields.get("tools"), parts.uncounted)})
    cached = fields.get("cachedContent") or fields.get("cached_content")
    turns = requests_of(body, messages, uncounted=parts.uncounted, incomplete=KEPT_APART if cached else None)
    labels = found if isinstance(found := fields.get("labels"), dict) else {}
    model = fields.get("model")
    return Around(
        session=None if record.own_session else names_of([labels.get(name) for name in _SESSIONS]),
        output_text=answer_text(answer),
        model=names_of([answer.get("modelVersion"), answer.get("model_version"), model]),
        stored=gemini_caches.named_by(record) or None,
    ).put_on(turns)


def answer_text(answer: Fields) -> str | None:
    """What the model wrote; None where an answer is none of Gemini's."""
    candidates = answer.get("candidates")
    if not isinstance(candidates, list) or not candidates or not isinstance(candidates[0], dict):
        return None
    content = candidates[0].get("content")
    found = content.get("parts") if isinstance(content, dict) else None
    texts: list[str] = []
    calls: list[Any] = []
    for part in found if isinstance(found, list) else ():
        if not isinstance(part, dict) or part.get("thought"):
            continue
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(call := part.get("functionCall", part.get("function_call")), dict):
            calls.append(_call(call))
    return text_of({"content": "".join(texts), "tool_calls": calls})


def _with_config(fields: Fields) -> Fields:
    """The fields with those that the client libraries take in `config`."""
    config = fields.get("config")
    if not isinstance(config, dict):
        return fields
    return {**{name: config[name] for name in _IN_CONFIG if name in config}, **fields}


def _tools(tools: Any, uncounted: Counter[str]) -> list[Any] | None:
    """The declared functions; tools of the server's own are counted."""
    found: list[Any] = []
    for tool in tools if isinstance(tools, list) else [tools]:
        if not isinstance(tool, dict):
            continue
        for name, value in tool.items():
            if name in ("functionDeclarations", "function_declarations"):
                found += (
                    [_declared(each) for each in value if isinstance(each, dict)] if isinstance(value, list) else []
                )
            elif value is not None:
                uncounted[kind_of_part(name.lower())] += 1
    return found or None


def _declared(function: Fields) -> Fields:
    said = {name: function[name] for name in ("name", "description", "parameters") if name in function}
    for name in ("parametersJsonSchema", "parameters_json_schema"):
        if name in function:
            said.setdefault("parameters", function[name])
    return {"type": "function", "function": said}


@dataclass(slots=True)
class _Parts:
    """Messages made of contents, and the parts of them that are no text."""

    record: Record
    uncounted: Counter[str] = field(default_factory=Counter)

    def messages(self, content: Any, roles: tuple[str, ...], *path: str | int) -> list[Message]:
        """Those of one content: a text, parts, or an object of both."""
        label = "".join(f"[{key}]" if isinstance(key, int) else key for key in path)
        role, parts = roles[0] if roles else "user", content
        if isinstance(content, dict):
            said = content.get("role")
            if not roles and isinstance(said, str):
                role = _ROLES.get(said.lower(), said)
            if "parts" in content:
                parts, path = content["parts"], (*path, "parts")
            elif content.keys() == {"role"}:  # as an answer that was stopped before it began
                return []
        if isinstance(parts, str):
            return [{"role": role, "content": self.record.text(parts, *path, part=f"{label} ({role})")}]
        if parts is None:
            return []
        listed = isinstance(parts, list)
        message: Message = {"role": role, "content": []}
        results: list[Message] = []
        for i, part in enumerate(parts if listed else [parts]):
            self._add(part, message, results, f"{label} ({role})", *path, *((i,) if listed else ()))
        if not message["content"]:
            message["content"] = None
        elif len(message["content"]) == 1 and message["content"][0]["type"] == "text":
            message["content"] = message["content"][0]["text"]
        return [*results, message] if message["content"] or "tool_calls" in message or not results else results

    def _add(self, part: Any, message: Message, results: list[Message], label: str, *path: str | int) -> None:
        if isinstance(part, str):
            message["content"].append({"type": "text", "text": self.record.text(part, *path, part=label)})
            return
        if not isinstance(part, dict):
            raise self.record.error(f"{label} has {kind(part)} in place of a part", *path)
        if part.get("thought"):
            return  # it is not sent again
        if part.get("text") is not None:
            text = self.record.text(part["text"], *path, "text", part=label)
            message["content"].append({"type": "text", "text": text})
        elif isinstance(call := part.get("functionCall", part.get("function_call")), dict):
            message.setdefault("tool_calls", []).append(_call(call))
        elif isinstance(response := part.get("functionResponse", part.get("function_response")), dict):
            said = json.dumps(response.get("response"), ensure_ascii=False)
            name = "functionResponse" if "functionResponse" in part else "function_response"
            text = self.record.text(said, *path, name, "response", part=label)
            results.append({"role": "tool", "name": response.get("name"), "content": text})
        elif (named := _kind(part)) is not None:
            message["content"].append({**part, "type": self.record.text(named, *path, part=label)})


def _kind(part: Fields) -> str | None:
    """What a part is that is no text; None where nothing is in it but a signature."""
    for name, value in part.items():
        media = value.get("mimeType", value.get("mime_type")) if isinstance(value, dict) else None
        if isinstance(media, str) and name.lower().replace("_", "") in ("inlinedata", "filedata"):
            first = media.partition("/")[0].lower()
            return first if first in ("image", "audio", "video") else "file"
    named = next((name for name in part if name not in ("thought_signature", "thoughtSignature")), None)
    return None if named is None else kind_of_part(named.lower())


def _call(call: Fields) -> Fields:
    arguments = json.dumps(call.get("args") or {}, ensure_ascii=False)
    return {"id": call.get("id"), "type": "function", "function": {"name": call.get("name"), "arguments": arguments}}
