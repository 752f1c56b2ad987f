"""Find the part of a request that changed since the one before: its tools, its system prompt, or a message."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePath

from kvtool.accounting.misses.own_text import content_texts
from kvtool.accounting.misses.prompt_states import MessageForm, PromptState, ToolForm
from kvtool.results.misses import MissCause
from kvtool.text.message import role_of
from kvtool.text.pieces import found_in_order
from kvtool.text.traced import Traced
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Turn

_NAME = re.compile(r"[A-Za-z_][\w.:/-]{0,63}", re.ASCII)
"""A tool's name as APIs allow it; anything else in its place may be prompt text."""
_LEADING = ("system", "developer")
_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class ChangedPart:
    """`place` is the way to it in the request; `says` is what changed about it."""

    cause: MissCause
    place: str
    says: str


def find_changed_part(
    before: PromptState, turn: Turn, forms: tuple[MessageForm, ...], tools: tuple[ToolForm, ...]
) -> ChangedPart | None:
    """Return the first part that differs from the request before; None where its whole content is sent again, or is not known."""
    if (changed := find_changed_tools(before.tools, tools)) is not None:
        return changed
    for number, (was, now) in enumerate(zip(before.forms, forms, strict=False)):
        if (was.role, was.text) == (now.role, now.text):
            continue
        place = place_of_message(turn, number)
        if was.role in _LEADING and now.role in _LEADING:
            return ChangedPart("system_changed", place, "the system prompt changed")
        if len(forms) < len(before.forms):
            return ChangedPart("compaction", place, "the conversation begins anew and is shorter")
        return ChangedPart("history_edited", place, "an earlier message changed")
    return None


def find_other_json(
    before: PromptState, job: Job, forms: tuple[MessageForm, ...], tools: tuple[ToolForm, ...], read: int
) -> ChangedPart | None:
    """Return the first part of which the same JSON is written in another form, where no value differs before it.

    What ends within the first `read` tokens was read, so it did no harm.
    """
    if not _same_tools(before.tools, tools):
        return None
    for number, (old, new) in enumerate(zip(before.tools, tools, strict=True)):
        if old.json != new.json and not _ends_within(job, 1, read):
            says = "the definition of a tool has its keys in another order"
            return ChangedPart("wire_form", _place_of_tool(number, new), says)
    for number, (was, now) in enumerate(zip(before.forms, forms, strict=False)):
        if (was.role, was.text) != (now.role, now.text):
            return None
        if was.json != now.json and not _ends_within(job, number + 1, read):
            what = "a tool call" if (job.turn.messages or [])[number].get("tool_calls") else "the result of a tool"
            says = f"the JSON of {what} has other spaces or another order of keys"
            return ChangedPart("wire_form", place_of_message(job.turn, number), says)
    return None


def _same_tools(was: tuple[ToolForm, ...], now: tuple[ToolForm, ...]) -> bool:
    """Return whether two requests have tools of the same values in the same order."""
    return [each[:2] for each in was] == [each[:2] for each in now]


def _ends_within(job: Job, messages: int, read: int) -> bool:
    """Return whether so many messages end within the first tokens of a prompt: the next text begins there."""
    after = token_of_message(job, messages) if read > 0 else None
    return after is not None and after <= read


def token_of_message(job: Job, number: int) -> int | None:
    """Return our tokens before the text of a message; None where the prompt does not hold it as it was sent."""
    if job.prompt is None or job.prompt.text is None:
        return None
    texts = [list(content_texts(each)) for each in job.turn.messages or []]
    before = sum(map(len, texts[:number]))
    places = list(found_in_order(chain.from_iterable(texts), str.__str__(job.prompt.text)))
    found = next((place for place in places[before:] if place is not None), None)
    return None if found is None else job.prompt.token_at(found[0])


def place_in_record(turn: Turn, place: str) -> str:
    """Return a place with its file and record, where there is one, as `a.jsonl:4, tools[0]`."""
    name = turn.name
    return f"{PurePath(name.path).name}:{name.record}, {place}" if name is not None and name.record else place


def part_of_place(place: str) -> str:
    """Return the part of all requests that a place is in: `messages (user)` of `messages[3] (user), line 2`."""
    part = _INDEX.sub("", place.partition(", line ")[0])
    return "tools" if part.startswith("tools") else part


def place_of_message(turn: Turn, number: int) -> str:
    """Return the way to a message of a request in its record, as its text says: a system prompt may be beside the others."""
    message = (turn.messages or [])[number]
    content = message.get("content")
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) else part
        origin = text.at(0)[0] if isinstance(text, Traced) and text else None
        if origin is not None and origin.pointer and origin.part:
            return origin.part
    return f"messages[{number}] ({role_of(message)})"


def place_of_token(job: Job, token: int) -> str | None:
    """Return the message and line of a token; None where no text of the record holds it: templates are kvtool's own."""
    found = None if job.prompt is None else job.prompt.char_range(token)
    if job.prompt is None or found is None or not isinstance(text := job.prompt.text, Traced) or found[0] >= len(text):
        return None
    origin, offset = text.at(found[0])
    if origin is None or not origin.pointer or not origin.part:
        return None
    return f"{origin.part}, line {origin.lines.number(offset)}"


def find_changed_tools(was: tuple[ToolForm, ...], now: tuple[ToolForm, ...]) -> ChangedPart | None:
    """Return the first tool that differs; None where all have the same values in the same order."""
    if _same_tools(was, now):
        return None
    same = zip(was, now, strict=False)
    number = next((at for at, (old, new) in enumerate(same) if old[:2] != new[:2]), min(len(was), len(now)))
    shown = now if number < len(now) else was
    place = _place_of_tool(number, shown[number])
    if sorted(each[:2] for each in was) == sorted(each[:2] for each in now):
        says = "the order of the tools changed"
    elif not was or not now:
        says = "the request before had no tools" if not was else "the tools are not sent any more"
    elif number < min(len(was), len(now)) and was[number].name == now[number].name:
        says = "the definition of a tool changed"
    else:
        says = f"there were {len(was)} tools and are {len(now)}" if len(was) != len(now) else "a tool was replaced"
    return ChangedPart("tools_changed", place, says)


def _place_of_tool(number: int, tool: ToolForm) -> str:
    return f"tools[{number}] {tool.name if _NAME.fullmatch(tool.name) else ''}".rstrip()
