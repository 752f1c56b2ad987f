"""Put cache breakpoints into a request as its provider's API takes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kvtool.accounting.caches.breakpoints import BlockPlace, block_places, takes_mark
from kvtool.accounting.caches.mark_plan import MarkSet, placed
from kvtool.text.cache_marks import is_marked, without_marks
from kvtool.text.message import Message, role_of
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.accounting.caches.providers import Provider

_NAMES = {True: "cache_control", False: "prompt_cache_breakpoint"}
"""Keys of marks: of providers that cache nothing without a mark, and of those that set marks of their own."""


def marked_turn(turn: Turn, marks: MarkSet, rules: Provider) -> Turn:
    """Return a request with these marks and no others; the very turn where these are its marks."""
    places = block_places(turn)
    lead = sum(not each.name.startswith("messages") for each in places)
    last = {each.name.partition(".")[0]: at for at, each in enumerate(places) if at >= lead}
    unmarkable = frozenset(at for at, each in enumerate(places) if rules.implicit and not _takes_mark(turn, each))
    found = placed(marks, lead, list(last.values()), len(places), rules.most, unmarkable)
    messages = [_bare_message(message) for message in turn.messages or ()]
    tools = [_bare(tool) for tool in turn.tools or ()]
    for at, ttl in found.items():
        mark: dict[str, str] = {"type": "ephemeral"} if rules.needs_mark else {"mode": "explicit"}
        if ttl is not None:
            mark["ttl"] = f"{ttl / 3600:g}h"
        target: Any = {"tools": tools, **dict(enumerate(messages))}
        for step in places[at].path:
            target = target[step]
        said = target.get("content")
        if isinstance(said, str) and role_of(target) != "tool":  # only a block of a list takes a mark
            target["content"] = [{"type": "text", "text": said, _NAMES[rules.needs_mark]: mark}]
        else:
            target[_NAMES[rules.needs_mark]] = mark
    settings = turn.call.settings
    if settings.cache_ttl is not None or (rules.implicit and settings.cache_mode != "explicit"):
        mode = "explicit" if rules.implicit else settings.cache_mode
        call = replace(turn.call, settings=replace(settings, cache_ttl=None, cache_mode=mode))
        return replace(turn, messages=messages, tools=tools or turn.tools, call=call)
    if messages == turn.messages and tools == (turn.tools or []):
        return turn
    return replace(turn, messages=messages, tools=tools or turn.tools)


def without_refused_marks(turn: Turn) -> Turn:
    """Return a request without marks on empty blocks, which its provider refuses."""
    messages = [
        {**each, "content": [without_marks(part) if _is_empty(part) else part for part in content]}
        if isinstance(content := each.get("content"), list)
        and any(is_marked(part) and _is_empty(part) for part in content)
        else each
        for each in turn.messages or ()
    ]
    return turn if messages == (turn.messages or []) else turn.with_messages(messages)


def _is_empty(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(text := part.get("text"), str) and not text.strip()


def _takes_mark(turn: Turn, place: BlockPlace) -> bool:
    number = place.path[0]
    return not isinstance(number, int) or takes_mark((turn.messages or [])[number])


def _bare(holder: Any) -> Any:
    """Return a copy of a block without its marks."""
    found = without_marks(holder)
    if isinstance(found, dict) and isinstance(inner := found.get("function"), dict):
        found["function"] = without_marks(inner)
    return found


def _bare_message(message: Message) -> Message:
    found: Message = _bare(message)
    for name in ("content", "tool_calls"):
        if isinstance(blocks := found.get(name), list):
            found[name] = [_bare(block) for block in blocks]
    return found
