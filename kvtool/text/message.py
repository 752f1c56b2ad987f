"""A chat message as the APIs write it."""

from __future__ import annotations

import json
from typing import Any

Message = dict[str, Any]
"""A chat message as the APIs write it; its text (`content`, or `content[i]["text"]`) is `Traced`."""


def role_of(message: object) -> str:
    """The role of a message, empty where it has none: a log may hold anything."""
    role = message.get("role") if isinstance(message, dict) else None
    return str.__str__(role) if isinstance(role, str) else ""


def answer_message(text: str) -> Message | None:
    """Return the message of an answer's text that ends with tool calls as a JSON list; None for one that does not."""
    at = text.find("[{") if text.endswith("]") else -1
    while at >= 0:
        try:
            calls = json.loads(text[at:])
        except (ValueError, RecursionError):
            at = text.find("[{", at + 1)
            continue
        if isinstance(calls, list) and all(isinstance(call, dict) and "function" in call for call in calls):
            return {"role": "assistant", "content": text[:at] or None, "tool_calls": calls}
        return None
    return None
