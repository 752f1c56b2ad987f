"""A chat message as the APIs write it."""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]
"""A chat message as the APIs write it; its text (`content`, or `content[i]["text"]`) is `Traced`."""


def role_of(message: object) -> str:
    """The role of a message, empty where it has none: a log may hold anything."""
    role = message.get("role") if isinstance(message, dict) else None
    return str.__str__(role) if isinstance(role, str) else ""
