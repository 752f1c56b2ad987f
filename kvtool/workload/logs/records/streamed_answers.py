"""Answers that were streamed and kept as their events, put together to what the API would have answered at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

_STARTS = ("data:", "event:", "id:", "retry:", ":")
_HEAD = 1 << 12  # characters in which a stream shows what it is
_LAST = frozenset(("response.completed", "response.incomplete", "response.failed", "response.done"))
_ALONE = ("id", "model", "modelVersion", "responseId", "created", "service_tier", "provider", "system_fingerprint")
_USAGES = ("usage", "usageMetadata", "usage_metadata")
_CONVERSE = frozenset(("messageStart", "contentBlockStart", "contentBlockDelta", "metadata"))

Fields = dict[str, Any]


def answer_in(value: Any) -> Any:
    """Return an answer that is JSON in a text, a stream of events in a text or a list of them, as the object that it says; any
    other value as it is."""
    if isinstance(value, str):
        parsed = _parsed(value)
        if parsed is None:
            return assembled(_events_of(value)) if is_event_stream(value) else value
        value = parsed
    if isinstance(value, list) and value:
        if all(isinstance(each, str) for each in value):  # each an event, or a line of one
            joined = "\n".join(value)
            return assembled(_events_of(joined)) if is_event_stream(joined) else value
        if all(map(_is_event, value)):
            return assembled(value)
    return value


def is_event_stream(text: str) -> bool:
    """Return whether a text is a stream of server-sent events."""
    head = text[:_HEAD].lstrip()
    return head.startswith(_STARTS) and (head.startswith("data:") or "\ndata:" in head)


def assembled(events: Iterable[Fields]) -> Fields:
    """Return the answer of a stream of any of the chat APIs, in the form of a chat completion; of a Responses API as it ends."""
    answer = _Answer()
    for event in events:
        kind = event.get("type")
        if isinstance(kind, str) and kind in _LAST and isinstance(event.get("response"), dict):
            whole: Fields = event["response"]
            return whole
        answer.add(event)
    return answer.whole()


def _parsed(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _events_of(text: str) -> Iterator[Fields]:
    """Yield the objects of a stream of server-sent events; what is cut off or no JSON is passed over."""
    data: list[str] = []
    for line in (*text.splitlines(), ""):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            value = _parsed("\n".join(data))
            if isinstance(value, dict):
                yield value
            else:  # each line is an event of its own, as some proxies write them
                yield from (each for each in map(_parsed, data) if isinstance(each, dict))
            data.clear()


def _is_event(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    return (
        str(value.get("object", "")).endswith(".chunk")
        or (isinstance(kind, str) and (kind.startswith(("message_", "content_block_", "response.")) or kind == "ping"))
        or "candidates" in value
        or not _CONVERSE.isdisjoint(value)
        or "outputText" in value
        or "generation" in value
    )


class _Answer:
    """The answer of the events so far."""

    def __init__(self) -> None:
        self._fields: Fields = {}
        self._texts: list[str] = []
        self._calls: dict[Any, Fields] = {}

    def add(self, event: Fields) -> None:
        """Add the next event, of any API."""
        for inner in (event, event.get("message"), event.get("metadata"), event.get("response")):
            if isinstance(inner, dict):
                self._add_fields(inner)
        if isinstance(event.get("error"), dict | str) or event.get("type") == "error":
            self._fields["error"] = event.get("error") or event
        for choice in _objects_in(event.get("choices")):
            if choice.get("index") in (None, 0):
                self._chunk(choice.get("delta", choice.get("message")), choice.get("text"))
        for candidate in _objects_in(event.get("candidates"))[:1]:
            content = candidate.get("content")
            for part in _objects_in(content.get("parts") if isinstance(content, dict) else None):
                if not part.get("thought"):
                    self._text(part.get("text"))
                if isinstance(call := part.get("functionCall", part.get("function_call")), dict):
                    arguments = orjson.dumps(call.get("args", {})).decode()
                    self._call(("part", len(self._calls)), call.get("name"), arguments)
        self._block(event)
        self._text(event.get("outputText", event.get("generation", event.get("output_text"))))
        if event.get("type") == "response.output_text.delta":
            self._text(event.get("delta"))

    def whole(self) -> Fields:
        """Return the answer."""
        message: Fields = {"role": "assistant", "content": "".join(self._texts)}
        if self._calls:
            message["tool_calls"] = list(self._calls.values())
        if not self._texts and not self._calls and "error" in self._fields:
            return self._fields
        return {**self._fields, "choices": [{"index": 0, "message": message}]}

    def _add_fields(self, fields: Fields) -> None:
        for name in _ALONE:
            if isinstance(fields.get(name), str | int) and fields[name] != "":
                self._fields.setdefault(name, fields[name])
        for name in _USAGES:
            if isinstance(fields.get(name), dict):
                said = {key: value for key, value in fields[name].items() if value is not None}
                self._fields[name] = {**self._fields.get(name, {}), **said}
        if isinstance(own := fields.get("amazon-bedrock-invocationMetrics"), dict):
            self._fields.setdefault("usage", own)

    def _chunk(self, delta: Any, text: Any) -> None:
        self._text(text)
        if not isinstance(delta, dict):
            return
        self._text(delta.get("content"))
        for number, call in enumerate(_objects_in(delta.get("tool_calls"))):
            function = call.get("function")
            if isinstance(function, dict):
                self._call(call.get("index", number), function.get("name"), function.get("arguments"))

    def _block(self, event: Fields) -> None:
        """Add a block of Anthropic's or of Bedrock's Converse API."""
        delta = event.get("delta")
        if isinstance(converse := event.get("contentBlockDelta"), dict):
            delta, event = converse.get("delta"), {"index": converse.get("contentBlockIndex")}
            if isinstance(delta, dict) and isinstance(use := delta.get("toolUse"), dict):
                self._call(event["index"], None, use.get("input"))
        if isinstance(start := event.get("contentBlockStart"), dict) and isinstance(start.get("start"), dict):
            use = start["start"].get("toolUse")
            if isinstance(use, dict):
                self._call(start.get("contentBlockIndex"), use.get("name"), "")
        block = event.get("content_block")
        if isinstance(block, dict) and block.get("type") == "tool_use":
            self._call(event.get("index"), block.get("name"), "")
        if isinstance(delta, dict):
            self._text(delta.get("text"))
            if isinstance(delta.get("partial_json"), str):
                self._call(event.get("index"), None, delta["partial_json"])

    def _text(self, text: Any) -> None:
        if isinstance(text, str) and text:
            self._texts.append(text)

    def _call(self, index: Any, name: Any, arguments: Any) -> None:
        key = index if isinstance(index, int | str | tuple) else None
        call = self._calls.setdefault(key, {"type": "function", "function": {"name": "", "arguments": ""}})
        if isinstance(name, str) and name:
            call["function"]["name"] = name
        if isinstance(arguments, str):
            call["function"]["arguments"] += arguments


def _objects_in(value: Any) -> list[Fields]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
