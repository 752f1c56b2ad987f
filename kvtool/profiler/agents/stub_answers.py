"""Write the answers of a stub in the form of each API, as one JSON object or as the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvtool.profiler.agents.stub_script import Protocol, Reply

Events = Iterator[tuple[str | None, Any]]
"""The name of each event, where it has one, and its data."""
OUTPUT = 20
"""Tokens of each answer."""
_CREATED = 1_750_000_000


@dataclass(frozen=True, slots=True)
class StubTokens:
    """Tokens of a prompt, and those of them that an earlier prompt began with."""

    prompt: int
    cached: int


def write_answer(protocol: Protocol, model: str, reply: Reply, used: StubTokens, number: int) -> dict[str, Any]:
    """Return an answer; `number` makes its ids."""
    match protocol:
        case "messages":
            return _message(model, reply, used, number)
        case "chat":
            return _completion(model, reply, used, number)
        case "responses":
            return _response(model, reply, used, number)
        case "gemini":
            return _candidates(model, reply, used)


def write_events(protocol: Protocol, answer: dict[str, Any]) -> Events:
    """Yield the events of the same answer as a stream."""
    match protocol:
        case "messages":
            return _message_events(answer)
        case "chat":
            return _completion_events(answer)
        case "responses":
            return _response_events(answer)
        case "gemini":
            return iter([(None, answer)])


def _message(model: str, reply: Reply, used: StubTokens, number: int) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": reply.text}
    if reply.tool is not None:
        block = {"type": "tool_use", "id": f"toolu_{number:04d}", "name": reply.tool, "input": reply.arguments}
    return {
        "id": f"msg_{number:04d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block],
        "stop_reason": "end_turn" if reply.tool is None else "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 0,
            "cache_creation_input_tokens": used.prompt - used.cached,
            "cache_read_input_tokens": used.cached,
            "output_tokens": OUTPUT,
        },
    }


def _message_events(answer: dict[str, Any]) -> Events:
    [block] = answer["content"]
    is_text = block["type"] == "text"
    begun = {**block, "text": ""} if is_text else {**block, "input": {}}
    delta = (
        {"type": "text_delta", "text": block["text"]}
        if is_text
        else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    )
    stopped = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stopped, "usage": answer["usage"]},
        {"type": "message_stop"},
    ]
    for event in events:
        yield event["type"], event


def _completion(model: str, reply: Reply, used: StubTokens, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.tool is not None:
        function = {"name": reply.tool, "arguments": json.dumps(reply.arguments)}
        call = {"id": f"call_{number:04d}", "type": "function", "index": 0, "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    finish = "stop" if reply.tool is None else "tool_calls"
    return {
        "id": f"chatcmpl-{number:04d}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": used.prompt,
            "completion_tokens": OUTPUT,
            "total_tokens": used.prompt + OUTPUT,
            "prompt_tokens_details": {"cached_tokens": used.cached},
        },
    }


def _completion_events(answer: dict[str, Any]) -> Events:
    [choice] = answer["choices"]
    chunk = {name: answer[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    yield None, {**chunk, "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]}
    yield None, {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield None, {**chunk, "choices": [], "usage": answer["usage"]}
    yield None, "[DONE]"


def _response(model: str, reply: Reply, used: StubTokens, number: int) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "message", "id": f"msg_{number:04d}", "status": "completed", "role": "assistant"}
    item["content"] = [{"type": "output_text", "text": reply.text, "annotations": []}]
    if reply.tool is not None:
        item = {"type": "function_call", "id": f"fc_{number:04d}", "call_id": f"call_{number:04d}", "name": reply.tool}
        item |= {"arguments": json.dumps(reply.arguments), "status": "completed"}
    return {
        "id": f"resp_{number:04d}",
        "object": "response",
        "created_at": _CREATED,
        "status": "completed",
        "model": model,
        "output": [item],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "usage": {
            "input_tokens": used.prompt,
            "input_tokens_details": {"cached_tokens": used.cached},
            "output_tokens": OUTPUT,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": used.prompt + OUTPUT,
        },
    }


def _response_events(answer: dict[str, Any]) -> Events:
    [item] = answer["output"]
    place = {"item_id": item["id"], "output_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**answer, "status": "in_progress", "output": [], "usage": None}}
    ]
    if item["type"] == "message":
        [part] = item["content"]
        at = {**place, "content_index": 0}
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
            {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
            {"type": "response.output_text.delta", **at, "delta": part["text"], "logprobs": []},
            {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []},
            {"type": "response.content_part.done", **at, "part": part},
        ]
    else:
        said = {"arguments": item["arguments"]}
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}},
            {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]},
            {"type": "response.function_call_arguments.done", **place, **said, "name": item["name"]},
        ]
    events += [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": answer},
    ]
    for number, event in enumerate(events):
        yield event["type"], {**event, "sequence_number": number}


def _candidates(model: str, reply: Reply, used: StubTokens) -> dict[str, Any]:
    part: dict[str, Any] = {"text": reply.text}
    if reply.tool is not None:
        part = {"functionCall": {"name": reply.tool, "args": reply.arguments}}
    return {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "modelVersion": model,
        "usageMetadata": {
            "promptTokenCount": used.prompt,
            "candidatesTokenCount": OUTPUT,
            "totalTokenCount": used.prompt + OUTPUT,
            "cachedContentTokenCount": used.cached,
        },
    }
