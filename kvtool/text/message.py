"""A chat message as the APIs write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
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


def document_texts(part: Mapping[Any, Any]) -> list[str] | None:
    """Return the texts of a document or search result whose content is text alone; None for other parts."""
    content: object = None
    if str(part.get("type")) == "search_result":
        content = part.get("content")
    elif str(part.get("type")) == "document" and isinstance(source := part.get("source"), Mapping):
        content = {"text": source.get("data"), "content": source.get("content")}.get(str(source.get("type")))
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list | tuple) or not content:
        return None
    texts = [each.get("text") if isinstance(each, Mapping) else None for each in content]
    return [text for text in texts if isinstance(text, str)] if all(isinstance(text, str) for text in texts) else None
