"""Records that hold messages: request bodies of the chat APIs, recorded conversations, agent trajectories, benchmark dialogues."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

from kvtool.text.bounded_number import whole_number
from kvtool.text.message import Message, document_texts
from kvtool.workload.call import Call, Usage
from kvtool.workload.logs.records.call_fields import call_of, choices_of, decimal_of, sampled_in, sampled_of
from kvtool.workload.logs.records.incomplete_prompts import NO_PROMPT, parts_not_counted, texts_of, why_incomplete
from kvtool.workload.logs.records.record import (
    RESPONSES,
    Record,
    RecordError,
    Transcript,
    kind,
    text_of,
    time_of,
)
from kvtool.workload.logs.records.record_format import Turns
from kvtool.workload.logs.records.streamed_answers import answer_in
from kvtool.workload.logs.records.usage import usage_of
from kvtool.workload.request_fields import CLIENT_FIELDS, request_fields, requested_answers
from kvtool.workload.turn import Sampled

_BODIES = frozenset(("body", "params", "request", "request_body", "full_request", "payload"))
"""Fields that hold what a client sends."""
_ASKS = frozenset(
    (
        *("max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "seed", "stop", "stop_sequences"),
        *("stream", "stream_options", "ignore_eos", "min_tokens", "tool_choice", *CLIENT_FIELDS),
    )
)
"""Fields that only a client sets: a record that has one is a request."""
_OF_TOOLS = ("name", "description", "parameters", "strict", "format")
"""What a model reads of a tool; `format` is the grammar of a custom one."""
_ARGUMENTS = ("kwargs", "model_parameters", "modelParameters", "parameters", "optional_params", "invocation_params")
"""Where loggers keep what a request says beside its messages."""


def requests_of(
    record: Record,
    messages: list[Message],
    *,
    transcript: bool = False,
    single: bool = False,
    uncounted: Counter[str] | None = None,
    incomplete: str | None = None,
) -> Turns:
    """Return one request, or one per assistant turn where the messages are the record of a conversation, unless it is said to be a
    `single` one. `uncounted` are parts that did not become messages, `incomplete` says why some are missing."""
    if not messages:
        call = call_of(record, incomplete=NO_PROMPT)
        if call.usage is None:
            raise record.error("the list of messages is empty")
        return [record.promptless_turn(call)]
    tools = tools_of(record)
    fields = {} if transcript else request_fields(record.fields)
    last = messages[-1]
    echoed = text_of(last) if last["role"] == "assistant" else ""
    first, *more = answers_of(record, requested_answers(fields), echoed if fields.get("echo") is True else "")
    spoken = transcript or (last["role"] == "assistant" and not _is_unanswered(record))
    if first.text is None and not single and spoken:
        answers = [i for i, message in enumerate(messages) if i and message["role"] == "assistant"]
        if answers:
            return Transcript(
                record, messages, answers, {"tools": tools}, _AnswerCalls(record, messages, answers, tools, incomplete)
            )
    call = reported_call(record, messages, tools, uncounted, incomplete)
    return [
        record.turn(
            call=call,
            messages=messages,
            output_text=first.text,
            output_ids=first.ids,
            output_tokens=first.tokens,
            more_answers=tuple(more),
            tools=tools,
            fields=fields,
        )
    ]


def _is_unanswered(record: Record) -> bool:
    """Return whether a record is a request without its answer: then its messages are the prompt, even if the assistant's comes
    last."""
    asks = not _ASKS.isdisjoint(record.fields) or (bool(record.pointer) and record.pointer[-1] in _BODIES)
    return asks and call_of(record).usage is None


class _AnswerCalls:
    """Calls of each answer in the record of a conversation; counts for the whole of it are of none of them."""

    def __init__(
        self,
        record: Record,
        messages: list[Message],
        answers: list[int],
        tools: list[Any] | None,
        incomplete: str | None,
    ) -> None:
        self._messages = messages
        common = reported_call(record, messages, tools, incomplete=incomplete, counts=False)
        self._common = replace(common, usage=None, cost=None, end=None)
        self._told = {at: told for at in answers if (told := _reported_in(record, messages[at])) is not None}

    def __call__(self, at: int) -> tuple[Call, float | None]:
        message = self._messages[at]
        extra = message.get("extra")
        usage, model, cost = self._told.get(at, (None, None, None))
        call = replace(self._common, usage=usage, model=self._common.model or model, cost=cost)
        answered = time_of(message) or (time_of(extra) if isinstance(extra, dict) else None)
        asked = time_of(self._messages[at - 1])
        return call, asked if asked is not None and (answered is None or asked <= answered) else answered


def _reported_in(record: Record, message: Message) -> tuple[Usage | None, str | None, Decimal | None] | None:
    """Return usage, model and cost that a message of a conversation says, itself or in what its program keeps in `extra`."""
    extra = message.get("extra")
    response = extra.get("response") if isinstance(extra, dict) else None
    usage, model, cost = None, None, None
    for fields, path in ((message, ()), (extra, ("extra",)), (response, ("extra", "response"))):
        if isinstance(fields, dict) and isinstance(fields.get("usage"), dict):
            try:
                usage = usage_of(fields["usage"], (*path, "usage")) or usage
                cost = decimal_of(fields["usage"].get("cost")) or cost
            except RecordError as error:
                raise record.error(error.message, *_way_to(record, fields), *error.pointer, hint=error.hint) from None
        if isinstance(fields, dict) and isinstance(fields.get("model"), str):
            model = fields["model"]
    return None if usage is model is None else (usage, model, cost)


def _way_to(record: Record, fields: dict[str, Any]) -> tuple[str | int, ...]:
    """Return the way to the message of a list of the record that holds the usage of these fields."""
    for name, value in record.fields.items():
        for at, item in enumerate(value if isinstance(value, list) else []):
            extra = item.get("extra") if isinstance(item, dict) else None
            held = (item, extra, extra.get("response") if isinstance(extra, dict) else None)
            if any(isinstance(each, dict) and each.get("usage") is fields["usage"] for each in held):
                return name, at
    return ()


def reported_call(
    record: Record,
    messages: list[Message],
    tools: list[Any] | None,
    uncounted: Counter[str] | None = None,
    incomplete: str | None = None,
    *,
    counts: bool = True,
) -> Call:
    """Return the call of a record, with the parts of the prompt that are not text and the reason why some are missing."""
    parts = parts_not_counted(messages)
    if uncounted:
        parts.update(uncounted)
    cites = any(map(_asks_for_citations, messages))
    call = call_of(record, uncounted=parts, images=parts["image"], citations=cites, counts=counts)
    if incomplete is None:
        texts = texts_of(messages)
        prompt = None if call.usage is None else call.usage.prompt
        if prompt is not None and tools:
            texts.append(json.dumps(tools, ensure_ascii=False))
        incomplete = why_incomplete(texts, prompt, uncounted=bool(parts))
    return call if incomplete is None else replace(call, incomplete=incomplete)


def _asks_for_citations(message: Message) -> bool:
    content = message.get("content")
    asked = [part.get("citations") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return any(isinstance(each, dict) and each.get("enabled") is True for each in asked)


def messages_of(record: Record, items: list[Any], *path: str | int, first: int = 0) -> list[Message]:
    """Return the list of messages at `path`, with its texts traced; `items` are those from number `first` on."""
    label = "".join(f"[{key}]" if isinstance(key, int) else key for key in path)
    return [
        message
        for i, item in enumerate(items, first)
        for message in message_at(record, item, f"{label}[{i}]", *path, i)
    ]


def message_at(record: Record, item: Any, label: str, *path: str | int) -> list[Message]:
    """Return the message at `path`, with its texts traced; several where it also holds what tools gave."""
    if not isinstance(item, dict):
        raise record.error(f"{label} must be a message object, not {kind(item)}", *path)
    role = item.get("role")
    if not isinstance(role, str):
        raise record.error(f"{label} has no `role`", *path, *(("role",) if "role" in item else ()))
    content = content_of(record, item.get("content"), (*path, "content"), f"{label} ({role})")
    if not isinstance(item.get("tool_calls", []) or [], list):
        raise record.error(f"{label} has `tool_calls` that are not a list", *path, "tool_calls")
    message = {**item, "content": content}
    return without_anthropic_blocks(message) if isinstance(content, list) else [message]


def content_of(record: Record, value: Any, path: tuple[str | int, ...], part: str, *, numbered: bool = False) -> Any:
    """Return the content of a message: text, or a list of parts whose texts are traced, or None.

    `numbered`: each part of the list has its number in its name, as `system[2]`.
    """
    if value is None:
        return None
    if not isinstance(value, list):
        return record.text(value, *path, part=part, name=f"the content of {part}")
    parts: list[Any] = []
    whole = part
    for i, item in enumerate(value):
        part = f"{whole}[{i}]" if numbered else whole
        if isinstance(item, dict) and not isinstance(item.get("type"), str | None):
            wrong = f"the content of {part} has a part with a `type` that is {kind(item['type'])}, not text"
            raise record.error(wrong, *path, i, "type")
        if isinstance(item, str):
            parts.append({"type": "text", "text": record.text(item, *path, i, part=part)})
        elif not isinstance(item, dict):
            raise record.error(f"the content of {part} has {kind(item)} instead of a part", *path, i)
        elif "text" in item and item.get("type") in ("text", "input_text", "output_text", None):
            parts.append({**item, "type": "text", "text": record.text(item["text"], *path, i, "text", part=part)})
        elif item.get("type") == "tool_result":
            parts.append({**item, "content": content_of(record, item.get("content"), (*path, i, "content"), part)})
        elif isinstance(item.get("type"), str):
            typed = {**item, "type": record.text(item["type"], *path, i, "type", part=part)}
            parts.append(typed if document_texts(item) is None else _document(record, typed, (*path, i), part))
        else:
            parts.append(item)
    return parts


def _document(record: Record, item: dict[str, Any], path: tuple[str | int, ...], part: str) -> dict[str, Any]:
    """Return a document or search result with its texts traced."""
    source = item.get("source")
    if not isinstance(source, dict):
        return {**item, "content": content_of(record, item["content"], (*path, "content"), part)}
    name = "data" if "data" in source else "content"
    return {**item, "source": {**source, name: content_of(record, source[name], (*path, "source", name), part)}}


def without_anthropic_blocks(message: Message) -> list[Message]:
    """Return the message with Anthropic's tool blocks in the form that chat templates know: `tool_calls`, and messages of a
    tool."""
    kinds = {part.get("type") for part in message["content"]}
    if not kinds & {"tool_use", "tool_result", "thinking", "redacted_thinking"}:
        return [message]
    results: list[Message] = []
    calls: list[Any] = []
    rest: list[Any] = []
    for part in message["content"]:
        match part.get("type"):
            case "tool_result":
                called = {"role": "tool", "tool_call_id": part.get("tool_use_id"), "content": part["content"]}
                results.append({**called, **_mark_of(part)})
            case "tool_use":
                arguments = json.dumps(part.get("input"), ensure_ascii=False)
                function = {"name": part.get("name"), "arguments": arguments}
                calls.append({"id": part.get("id"), "type": "function", "function": function, **_mark_of(part)})
            case "thinking" | "redacted_thinking":
                pass  # the API drops it from the turns before the last
            case _:
                rest.append(part)
    kept = {**message, "content": rest or None}
    if calls:
        kept["tool_calls"] = calls
    return [*results, kept] if rest or calls else results or [{**message, "content": None}]


def tools_of(record: Record) -> list[Any] | None:
    """Return the tools in the form of OpenAI's chat API, which chat templates expect."""
    name = next((name for name in ("tools", "functions", "function") if record.fields.get(name) is not None), None)
    if name is None:
        return _tools_beside(record)
    tools = record.fields[name]
    if name == "function" and isinstance(tools, dict):
        tools = [tools]
    if not isinstance(tools, list):
        raise record.error(f"`{name}` must be a list, not {kind(tools)}", name)
    result: list[Any] = []
    for i, tool in enumerate(tools):
        if not isinstance(tool, dict):
            raise record.error(f"{name}[{i}] must be an object, not {kind(tool)}", name, i)
        result.append(_tool(tool))
    return result or None


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool in that form; the tools of a namespace stay inside it."""
    if "function" in tool or "name" not in tool:
        return tool
    function = {key: tool[key] for key in _OF_TOOLS if key in tool}
    if "input_schema" in tool:
        function["parameters"] = tool["input_schema"]
    if isinstance(inner := tool.get("tools"), list):
        function["tools"] = [_tool(each) if isinstance(each, dict) else each for each in inner]
    return {"type": "function", "function": function, **_mark_of(tool)}


def _mark_of(block: dict[str, Any]) -> dict[str, Any]:
    """Return the mark for a provider's cache that a block of Anthropic's carries."""
    return {"cache_control": block["cache_control"]} if block.get("cache_control") else {}


def _tools_beside(record: Record) -> list[Any] | None:
    """Return tools that are among the other arguments of a call, as loggers of client libraries write them."""
    for name in _ARGUMENTS:
        if isinstance(record.fields.get(name), dict | str):
            beside = record.inner(name)
            if beside is not None and (beside.fields.get("tools") or beside.fields.get("functions")):
                return tools_of(beside)
    return None


def answer_of(value: Any) -> tuple[str | None, int | None]:
    """Return text and length in tokens of a response of any of the chat APIs; None where it does not tell."""
    if isinstance(value, str):
        return value, None
    if not isinstance(value, dict):
        return None, None
    if isinstance(body := answer_in(value.get("body")), dict):
        return answer_of(body)
    usage = value.get("usage")
    length = None
    if isinstance(usage, dict):
        length = whole_number(usage.get("completion_tokens", usage.get("output_tokens")), most=(1 << 31) - 1)
    return _answer_text(value), length


def answers_of(record: Record, count: int, echoed: str | None = "") -> list[Sampled]:
    """Return the answers beside a request, one for each of the `count` requests that an engine makes of it.

    `echoed` is what each text repeats of its prompt; None where that is not known.
    """
    text, tokens = answer_of(record.found(*RESPONSES)[0])
    if count == 1:
        return [Sampled(_without(text, echoed), sampled_of(record), tokens)]
    choices = choices_of(record)
    found = []
    for at in range(count):
        choice = choices.get(at, {})
        text, ids = _without(_answer_text({"choices": [choice]}), echoed), sampled_in(choice)
        unknown = text is None and ids is None and tokens is not None
        found.append(Sampled(text, ids, tokens // count if unknown and tokens is not None else None))
    return found


def _without(text: str | None, echoed: str | None) -> str | None:
    return None if text is None or echoed is None else text.removeprefix(echoed)


def _answer_text(value: dict[str, Any]) -> str | None:
    choices = value.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        choice = choices[0]
        if isinstance(choice.get("message"), dict):
            return text_of(choice["message"])
        return choice["text"] if isinstance(choice.get("text"), str) else None
    if isinstance(value.get("output"), list):  # Responses API
        items = [item for item in value["output"] if isinstance(item, dict)]
        calls = [item for item in items if item.get("type") == "function_call"]
        texts = "".join(text_of(item) for item in items if item.get("type", "message") == "message")
        return text_of({"content": texts, "tool_calls": calls})
    content = value.get("content")
    if isinstance(content, list):  # Anthropic
        calls = [part for part in content if isinstance(part, dict) and part.get("type") == "tool_use"]
        return text_of({"content": content, "tool_calls": calls})
    return content if isinstance(content, str) else None
