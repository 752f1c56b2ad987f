"""One order of tools, and of the keys of JSON (tier P1)."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from kvtool.diagnose.compare.tools import is_tool, tool_name
from kvtool.fixes.turn_texts import INSTRUCTIONS, map_texts
from kvtool.text.json_text import sorted_json
from kvtool.text.message import Message
from kvtool.workload.turn import Turn

_DEEPEST = 100


def sort_tools(turn: Turn) -> Turn:
    """The turn with its tools by name, those in JSON arrays of its instructions as well."""
    turn = map_texts(turn, lambda text: sorted_json(text, keys=False, item_key=_tool_in_text), INSTRUCTIONS)
    if not isinstance(turn.tools, list):
        return turn
    tools = sorted(turn.tools, key=lambda tool: (tool_name(tool), _dumped(tool)))
    return replace(turn, tools=tools) if any(a is not b for a, b in zip(tools, turn.tools, strict=True)) else turn


def _tool_in_text(item: str) -> str | None:
    """The name of a tool that is written as JSON."""
    try:
        tool = json.loads(str.__str__(item))
    except (ValueError, RecursionError):
        return None
    return tool_name(tool) if is_tool(tool) else None


def _dumped(value: object) -> str:
    try:
        return json.dumps(value, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        return ""


def sort_keys(turn: Turn, roles: Collection[str] = INSTRUCTIONS) -> Turn:
    """The turn with the keys of its tools, of the arguments of its tool calls and of JSON in texts of these roles in order."""
    turn = map_texts(turn, sorted_json, roles)
    tools = _sorted_value(turn.tools, 0)
    messages = [_sorted_calls(message) for message in turn.messages or ()]
    changed: dict[str, Any] = {}
    if tools is not turn.tools:
        changed["tools"] = tools
    if any(a is not b for a, b in zip(messages, turn.messages or (), strict=True)):
        changed["messages"] = messages
    return replace(turn, **changed) if changed else turn


def _sorted_value(value: Any, depth: int) -> Any:
    """The value with the keys of all its objects in order; the very value where they are."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, dict):
        keys = sorted(value) if all(isinstance(key, str) for key in value) else list(value)
        items = {key: _sorted_value(value[key], depth + 1) for key in keys}
        same = list(value) == keys and all(items[key] is value[key] for key in keys)
        return value if same else items
    if isinstance(value, list):
        entries = [_sorted_value(item, depth + 1) for item in value]
        return value if all(a is b for a, b in zip(entries, value, strict=True)) else entries
    return value


def _sorted_calls(message: Message) -> Message:
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    sorted_calls = [_sorted_call(call) for call in calls]
    return (
        message
        if all(a is b for a, b in zip(sorted_calls, calls, strict=True))
        else {**message, "tool_calls": sorted_calls}
    )


def _sorted_call(call: Any) -> Any:
    holder = call.get("function") if isinstance(call, dict) else None
    if not isinstance(holder, dict):
        return call
    arguments = holder.get("arguments")
    changed = sorted_json(arguments) if isinstance(arguments, str) else _sorted_value(arguments, 0)
    return call if changed is arguments else {**call, "function": {**holder, "arguments": changed}}
