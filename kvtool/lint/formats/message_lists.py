"""Chats as lists of messages with a role and a text, in which something is left open."""

from __future__ import annotations

from kvtool.lint.formats.prompt_data import DataFile, HeldPrompts, Prompt, at, items, text_at, texts, word_at
from kvtool.text.files.yaml_nodes import Mapping, YamlNode

_ROLES = frozenset(("system", "developer", "user", "human", "assistant", "ai", "model", "tool"))


def read_messages(file: DataFile) -> HeldPrompts | None:
    """A file that is one chat, or has one under `messages`; None where no message has a placeholder: then it is one of a log."""
    messages = items(file.root) or items(at(file.root, "messages"))
    found = chat(file, messages)
    if not found or not any(part.style for part in found):
        return None
    return HeldPrompts((found,))


def chat(file: DataFile, messages: list[YamlNode]) -> Prompt:
    """The texts of messages; empty where these are none."""
    found: list[Prompt] = []
    for message in messages:
        if not isinstance(message, Mapping) or word_at(message, "role") not in _ROLES:
            return ()
        parts = texts(message, "content") or texts(message, "template", "text", "prompt")
        parts += [text for part in items(at(message, "content")) if (text := text_at(part, "text")) is not None]
        found.append(tuple(file.part(part, None) for part in parts))
    return tuple(part for parts in found for part in parts)
