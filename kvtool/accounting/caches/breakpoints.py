"""Where the content blocks of a request end in its tokens, and which of them its author marked for a provider's cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvtool.accounting.caches.providers import Provider
from kvtool.text.message import Message
from kvtool.text.pieces import found_in_order
from kvtool.workload.jobs import Job

_MARKS = ("cache_control", "prompt_cache_breakpoint")
"""What a content block carries that ends a prefix to be stored."""


@dataclass(frozen=True, slots=True)
class ContentBlocks:
    """Token counts at which content blocks end, rising, and those that are breakpoints."""

    ends: tuple[int, ...]
    marked: tuple[int, ...]

    def readable(self, lookback: int) -> frozenset[int]:
        """The ends at which a stored prefix is looked for: each breakpoint's and those of `lookback` blocks before it."""
        place = {end: at for at, end in enumerate(self.ends)}
        found: set[int] = set()
        for mark in self.marked:
            at = place[mark]
            found.update(self.ends[max(at - lookback, 0) : at + 1])
        return frozenset(found)


def find_blocks(job: Job, provider: Provider) -> ContentBlocks:
    """The content blocks of a request; one without messages is one block.

    A request without marks has a breakpoint at its last block, and one with marks too where the provider sets an implicit one. More
    marks than the provider takes: the latest count.
    """
    count = len(job.ids)
    if job.prompt is None or job.prompt.text is None or not job.turn.messages:
        return ContentBlocks((count,), (count,))
    ends: dict[int, bool] = {}
    contents = list(_contents(job.turn.messages))
    places = found_in_order((text for text, _ in contents), str.__str__(job.prompt.text))
    for (_, marked), place in zip(contents, places, strict=True):
        if place is not None:
            end = job.prompt.token_at(place[1])
            ends[end] = ends.get(end, False) or marked
    if not ends:
        return ContentBlocks((count,), (count,))
    ordered = tuple(sorted(ends))
    marks = [end for end in ordered if ends[end]]
    if provider.implicit:
        marks = [*marks[len(marks) - min(len(marks), provider.most - 1) :], ordered[-1]]
    elif not marks:
        marks = [ordered[-1]]
    return ContentBlocks(ordered, tuple(sorted(set(marks[-provider.most :]))))


def _contents(messages: list[Message]) -> Iterator[tuple[str, bool]]:
    """Every text of the messages, in order, and whether a breakpoint follows it."""
    for message in messages:
        content: Any = message.get("content")
        if isinstance(content, str):
            yield str.__str__(content), _is_marked(message)
        elif isinstance(content, list):
            for part in content:
                text = part.get("text") if isinstance(part, dict) else None
                if isinstance(text, str):
                    yield str.__str__(text), _is_marked(part)


def _is_marked(holder: dict[str, Any]) -> bool:
    return any(holder.get(name) for name in _MARKS)
