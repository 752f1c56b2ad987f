"""Bodies of Gemini's API and of Vertex, with `contents`, and explicit caches (`cachedContents/…`), with calls that make and
requests that name them.

Names are written in camel case by the REST API and with underscores by the client libraries; both are read. The API says of a cache
how many tokens it has (`usageMetadata.totalTokenCount`), when it was made (`createTime`) and until when it is kept (`expireTime`);
who makes one may say `ttl` (`"3600s"`) instead.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kvtool.text.bounded_number import finite_number, whole_number
from kvtool.text.message import Message
from kvtool.workload.call import StoredContent
from kvtool.workload.logs.records.call_context import FieldsAround
from kvtool.workload.logs.records.call_fields import answer_object, names_of
from kvtool.workload.logs.records.chat_records import requests_of
from kvtool.workload.logs.records.failed_calls import FAILED
from kvtool.workload.logs.records.incomplete_prompts import kind_of_part
from kvtool.workload.logs.records.record import Record, kind, object_of, seconds, text_of
from kvtool.workload.logs.records.record_format import Fields, LeftOut, Reading, RecordFormat, Several

KEPT_APART = "its cached content is not in the log"
_ROLES = {"model": "assistant", "function": "tool"}
_SESSIONS = ("session_id", "session", "conversation_id", "thread_id")
_IN_CONFIG = ("systemInstruction", "system_instruction", "tools", "cachedContent", "cached_content", "labels")
KIND = "explicit cache"
_NAME = re.compile(r"(?:[\w.~-]+/)*cachedContents/[\w.~-]+")
_TTL = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)s?")
_NAMED = ("cachedContent", "cached_content", "cachedContents", "cached_contents")
_ASKING = ("contents", "request", "body", "payload", "params")
"""What holds a request that names caches beside it."""
_TIMES = ("ttl", "expireTime", "expire_time", "createTime", "create_time")


def read(record: Record) -> Reading:
    """Return the request of a body."""
    answer = answer_object(record)[0]
    status = record.first("status")
    if isinstance(status, str) and status and not answer and any("response" in each for each in record.around):
        return FAILED  # Vertex's batches write the reason there
    if "contents" not in record.fields:
        return LeftOut("embedding")
    if (made := creation(record)) is not None:
        return made
    fields = _with_config(record.fields)
    parts = ContentParts(record)
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
    labels = object_of(fields.get("labels"))
    model = fields.get("model")
    return FieldsAround(
        session=None if record.own_session else names_of([labels.get(name) for name in _SESSIONS]),
        output_text=answer_text(answer),
        model=names_of([answer.get("modelVersion"), answer.get("model_version"), model]),
        stored=named_by(record) or None,
    ).put_on(turns)


def answer_text(answer: Fields) -> str | None:
    """Return the text of the model; None where an answer is none of Gemini's."""
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
            calls.append(function_call(call))
    return text_of({"content": "".join(texts), "tool_calls": calls})


def _with_config(fields: Fields) -> Fields:
    """Return the fields with those that the client libraries take in `config`."""
    config = fields.get("config")
    if not isinstance(config, dict):
        return fields
    return {**{name: config[name] for name in _IN_CONFIG if name in config}, **fields}


def _tools(tools: Any, uncounted: Counter[str]) -> list[Any] | None:
    """Return the declared functions; tools of the server's own are counted."""
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
class ContentParts:
    """Messages made of contents, and the parts of them that are no text."""

    record: Record
    uncounted: Counter[str] = field(default_factory=Counter)

    def messages(self, content: Any, roles: tuple[str, ...], *path: str | int) -> list[Message]:
        """Return the messages of one content: a text, parts, or an object of both."""
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
            raise self.record.error(f"{label} has {kind(part)} instead of a part", *path)
        if part.get("thought"):
            return  # it is not sent again
        if part.get("text") is not None:
            text = self.record.text(part["text"], *path, "text", part=label)
            message["content"].append({"type": "text", "text": text})
        elif isinstance(call := part.get("functionCall", part.get("function_call")), dict):
            message.setdefault("tool_calls", []).append(function_call(call))
        elif isinstance(response := part.get("functionResponse", part.get("function_response")), dict):
            said = json.dumps(response.get("response"), ensure_ascii=False)
            name = "functionResponse" if "functionResponse" in part else "function_response"
            text = self.record.text(said, *path, name, "response", part=label)
            own = {"tool_call_id": response["id"]} if isinstance(response.get("id"), str) else {}
            results.append({"role": "tool", "name": response.get("name"), "content": text, **own})
        elif (named := _kind(part)) is not None:
            message["content"].append({**part, "type": self.record.text(named, *path, part=label)})


def _kind(part: Fields) -> str | None:
    """Return the kind of a part that is no text; None where it contains only a signature."""
    for name, value in part.items():
        media = value.get("mimeType", value.get("mime_type")) if isinstance(value, dict) else None
        if isinstance(media, str) and name.lower().replace("_", "") in ("inlinedata", "filedata"):
            first = media.partition("/")[0].lower()
            return first if first in ("image", "audio", "video") else "file"
    named = next((name for name in part if name not in ("thought_signature", "thoughtSignature")), None)
    return None if named is None else kind_of_part(named.lower())


def function_call(call: Fields) -> Fields:
    """Return a call of a function in the form of the chat API."""
    arguments = json.dumps(call.get("args") or {}, ensure_ascii=False)
    return {"id": call.get("id"), "type": "function", "function": {"name": call.get("name"), "arguments": arguments}}


def fits(fields: Fields) -> bool:
    """Return whether a record is a body of the API."""
    return (
        isinstance(fields.get("contents"), list | dict)
        or ("contents" in fields and "model" in fields)
        or (isinstance(fields.get("content"), dict) and "parts" in fields["content"])
    )


def is_cache(fields: Fields) -> bool:
    """Return whether an object is a cache or a list of them, or asks for one, and is no request of a model."""
    listed = fields.get("cachedContents", fields.get("cached_contents"))
    if isinstance(listed, list) and all(isinstance(each, dict) for each in listed):
        return bool(listed) and not any(each in fields for each in _ASKING)
    name = fields.get("name")
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and any(each in fields for each in _TIMES)


def read_caches(record: Record) -> Several:
    """Return the caches of a record that contains nothing else."""
    return Several(LeftOut(KIND, stored=each) for each in _listed(record.fields))


def creation(record: Record) -> LeftOut | None:
    """Return the cache that a body with contents makes; None for a request of a model."""
    answer = answer_object(record)[0]
    if is_cache(answer):
        made = _stored({**_cache_fields(record.fields), **answer}, made=True)
        return LeftOut(KIND, stored=made)
    if "cachedContents" in str(record.first("url", "endpoint", "path") or "") and "candidates" not in answer:
        return LeftOut(KIND)
    asks = any(record.fields.get(name) is not None for name in _TIMES[:3]) and "candidates" not in answer
    return LeftOut(KIND) if asks else None


def named_by(record: Record) -> tuple[StoredContent, ...]:
    """Return the facts on caches that a request, its answer and the fields around them name."""
    found: list[StoredContent] = []
    for fields in (record.fields, *record.around, answer_object(record)[0]):
        found += _listed(fields)
    return tuple(found)


def _listed(fields: Fields) -> Iterator[StoredContent]:
    holders: list[Any] = [fields] if is_cache(fields) else []
    for name in _NAMED:
        value = fields.get(name)
        holders += value if isinstance(value, list) else [value]
    for each in holders:
        if isinstance(each, dict) and isinstance(each.get("name"), str) and _NAME.fullmatch(each["name"]):
            yield _stored(each)


def _cache_fields(fields: Fields) -> Fields:
    return {name: fields[name] for name in ("ttl", "model") if name in fields}


def _stored(fields: Fields, *, made: bool = False) -> StoredContent:
    usage = fields.get("usageMetadata", fields.get("usage_metadata"))
    tokens = usage.get("totalTokenCount", usage.get("total_token_count")) if isinstance(usage, dict) else None
    ttl = _TTL.fullmatch(str(fields.get("ttl")))
    return StoredContent(
        name=str(fields["name"]),
        tokens=whole_number(tokens, least=1),
        created=seconds(fields.get("createTime", fields.get("create_time")), "s"),
        expires=seconds(fields.get("expireTime", fields.get("expire_time")), "s"),
        ttl=None if ttl is None else finite_number(ttl[1], in_text=True),
        model=names_of([fields.get("model")]),
        made=made,
    )


_GEMINI_CACHES_EXAMPLE = """
{"name": "cachedContents/c1", "model": "models/gemini-2.5-flash", "createTime": "2026-02-02T09:00:00Z",
 "expireTime": "2026-02-02T10:00:00Z", "usageMetadata": {"totalTokenCount": 2048}}
"""
_GEMINI_EXAMPLE = """
{"contents": [{"role": "user", "parts": [{"text": "Is it open?"}]}], "model": "gemini-2.5-flash"}
"""
FORMATS = (
    RecordFormat(
        "gemini-caches",
        "cachedContents, or name: cachedContents/… with its times",
        is_cache,
        read_caches,
        example=_GEMINI_CACHES_EXAMPLE,
    ),
    RecordFormat("gemini", "contents", fits, read, "s", example=_GEMINI_EXAMPLE),
)
