"""Attributes of agent frameworks that have names of their own for a prompt, with the names of the GenAI conventions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvtool.workload.logs.records.record import object_of, parsed_text

_ADK, _ADK_ANSWER = "gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response"
_LIVEKIT = (("lk.chat_ctx", "lk.response.text"), ("lk.pii.chat_ctx", "lk.pii.response.text"))
"""Prompt and answer, as they are called before and since the summer of 2026."""
_SNAKE_PARTS = {"function_call": "functionCall", "function_response": "functionResponse", "inline_data": "inlineData"}


def with_standard_names(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return attributes with those of the conventions added that Google's ADK or LiveKit write under other names."""
    if _ADK in given:
        return {**_of_adk(given), **given, **_told_by_adk(given)}
    names = next((names for names in _LIVEKIT if names[0] in given), None)
    return given if names is None else {**_of_livekit(given, *names), **given}


def _told_by_adk(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is right whatever the span says: the operation of a request of a model (spans of tools have an empty one), and
    its output with the thoughts, which the span's own count lacks."""
    if not _parsed(given.get(_ADK)).get("contents"):
        return {}
    usage = object_of(_parsed(given.get(_ADK_ANSWER)).get("usage_metadata"))
    output, thoughts = usage.get("candidates_token_count") or 0, usage.get("thoughts_token_count")
    told: dict[str, Any] = {"gen_ai.operation.name": "chat"}
    if type(output) is int and type(thoughts) is int:
        told["gen_ai.usage.output_tokens"] = output + thoughts
        told["gen_ai.usage.reasoning.output_tokens"] = thoughts
    return told


def _of_adk(given: Mapping[str, Any]) -> dict[str, Any]:
    asked, answer = _parsed(given.get(_ADK)), _parsed(given.get(_ADK_ANSWER))
    contents, config = asked.get("contents"), object_of(asked.get("config"))
    if not isinstance(contents, list) or not contents:
        return {}
    usage = object_of(answer.get("usage_metadata"))
    told = {
        "gen_ai.input.messages": [_content(each) for each in contents],
        "gen_ai.system_instructions": config.get("system_instruction"),
        "gen_ai.tool.definitions": config.get("tools"),
        "gen_ai.output.messages": [_content({"role": "model", **object_of(answer.get("content"))})],
        "gen_ai.request.model": asked.get("model"),
        "gen_ai.usage.input_tokens": usage.get("prompt_token_count"),
        "gen_ai.usage.cache_read.input_tokens": usage.get("cached_content_token_count"),
    }
    return {name: value for name, value in told.items() if value}


def _content(content: Any) -> Any:
    parts = object_of(content).get("parts")
    if not isinstance(parts, list):
        return content
    named = [{_SNAKE_PARTS.get(name, name): value for name, value in object_of(each).items()} for each in parts]
    return {**content, "parts": named}


def _of_livekit(given: Mapping[str, Any], prompt: str, answer: str) -> dict[str, Any]:
    items = _parsed(given[prompt]).get("items")
    messages = [made for each in items if (made := _item(object_of(each)))] if isinstance(items, list) else []
    told = {"gen_ai.input.messages": messages, "gen_ai.output.messages": given.get(answer)}
    return {name: value for name, value in told.items() if value}


def _item(item: dict[str, Any]) -> dict[str, Any] | None:
    """Return an item of a conversation as a message; None for what is not sent, as a change of agents."""
    match item.get("type"):
        case "message":
            return {"role": item.get("role"), "content": item.get("content")}
        case "function_call":
            call = {"id": item.get("call_id"), "name": item.get("name"), "arguments": item.get("arguments")}
            return {"role": "assistant", "content": None, "tool_calls": [call]}
        case "function_call_output":
            return {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
        case _:
            return None


def _parsed(value: Any) -> dict[str, Any]:
    return object_of(parsed_text(value) if isinstance(value, str) else value)
