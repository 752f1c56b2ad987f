"""Cache marks on blocks of a request: `cache_control`, and what other providers call it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

CACHE_MARKS = ("cache_control", "prompt_cache_breakpoint", "cachePoint")
"""Keys of a block that mark the end of a prefix to store."""

MOST_MARKS = 4
"""Marks that a request may have, at Anthropic and at OpenAI."""


def is_marked(block: object) -> bool:
    """Return whether a block, a message or a tool has a mark of its own."""
    return isinstance(block, dict) and any(block.get(name) for name in CACHE_MARKS)


def markable(tools: Sequence[Any] | None, messages: Sequence[Any] | None) -> Iterator[Any]:
    """Yield what may have a mark: tools, messages and the parts of these."""
    yield from tools or ()
    for message in messages or ():
        yield message
        content = message.get("content") if isinstance(message, dict) else None
        yield from content if isinstance(content, list) else ()


def marks_on(block: object) -> dict[str, Any]:
    """Return the marks of a block, with their keys."""
    return {name: block[name] for name in CACHE_MARKS if block.get(name)} if isinstance(block, dict) else {}


def without_marks(block: Any) -> Any:
    """Return the block without its marks; what is no object as it is."""
    if not isinstance(block, dict):
        return block
    return {name: value for name, value in block.items() if name not in CACHE_MARKS}


def marks_kept_in_place(before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    """Return reordered blocks with the marks where they were: a mark ends a prefix, whichever block comes there."""
    if not any(map(is_marked, before)):
        return list(after)
    placed: list[Any] = []
    for number, block in enumerate(after):
        marks = marks_on(before[number]) if number < len(before) else {}
        moved = isinstance(block, dict) and marks_on(block) != marks
        placed.append({**without_marks(block), **marks} if moved else block)
    return placed
