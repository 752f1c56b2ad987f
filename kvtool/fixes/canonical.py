"""One way to write what can be written in several: order of tools, of JSON keys, white space, Unicode (tier P1)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

from kvtool.diagnose.compare.tools import is_tool, tool_name
from kvtool.fixes.turn_texts import INSTRUCTIONS, edited, map_texts
from kvtool.text.json_text import sorted_json
from kvtool.text.look_alike import compatible_letters, in_one_script, signs_in_ascii
from kvtool.text.message import Message
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

_DEEPEST = 100
_MOST_ROUNDS = 8
_FENCE = re.compile(r"^[ \t]{0,3}+(?:```|~~~)", re.MULTILINE)
_FORMAT = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]++"
    # between other letters than Latin ones joiners say how these are written, and in emoji which it is
    "|(?<![^\x00-\u024f])[\u200c\u200d\ufe00-\ufe0f]++(?![^\x00-\u024f])"
)
_COMPOSED = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]++")
Edit = tuple[int, int, str]
"""Characters `[start, stop)`, and what to put there."""


def _each(pattern: str | re.Pattern[str], replacement: Callable[[re.Match[str]], str]) -> Callable[[str], list[Edit]]:
    compiled = re.compile(pattern)
    return lambda text: [(found.start(), found.end(), replacement(found)) for found in compiled.finditer(text)]


def _composed(text: str) -> list[Edit]:
    if unicodedata.is_normalized("NFC", text):
        return []
    return [(found.start(), found.end(), unicodedata.normalize("NFC", found[0])) for found in _COMPOSED.finditer(text)]


_EDITS: dict[str, Callable[[str], list[Edit]]] = {
    "bom": _each("\\A\ufeff", lambda _: ""),
    "line_endings": _each(r"\r\n?+", lambda _: "\n"),
    "final_newline": _each(r"(?<![\r\n])[\r\n]++\Z", lambda _: ""),
    "trailing_space": _each(r"(?<![ \t])[ \t]++(?=\r?\n|\Z)", lambda _: ""),
    "unicode_form": _composed,
    "invisible": _each(_FORMAT, lambda _: ""),
    "compatible": compatible_letters,
    "look_alike": in_one_script,
    "signs": signs_in_ascii,
    "space_kind": _each("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\t]", lambda _: " "),
    "whitespace": _each(r"(?<![\n ])(?<!\A) {2,}+|\n{3,}+", lambda found: "\n\n" if found[0][0] == "\n" else " "),
}
"""What each kind of `kvtool.diagnose.cosmetic` replaces, the mildest first; a kind takes the milder ones along."""
COSMETIC_KINDS = tuple(_EDITS)
IN_CODE = ("bom", "line_endings", "unicode_form")
"""Kinds that say nothing in fenced code either."""


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


def normalize(turn: Turn, kind: str, roles: Collection[str] = INSTRUCTIONS) -> Turn:
    """The turn with this kind of cosmetic difference, and the milder ones, removed from texts of these roles.

    What a template variable produced stays as it is, and but for line endings and Unicode forms fenced code does.
    """
    steps = COSMETIC_KINDS[: COSMETIC_KINDS.index(kind) + 1]
    if kind not in ("final_newline", "whitespace"):
        steps = tuple(step for step in steps if step != "final_newline")
    return map_texts(turn, lambda text: _settled(text, steps), roles)


def _settled(text: str, steps: Collection[str]) -> str:
    """Normalized until nothing changes: what one step leaves out may bring work for another."""
    for _ in range(_MOST_ROUNDS):
        before = text
        text = _normalized(text, steps)
        if text is before:
            break
    return text


def _normalized(text: str, steps: Collection[str]) -> str:
    for step in steps:
        plain = str.__str__(text)
        found = [edit for edit in _EDITS[step](plain) if plain[edit[0] : edit[1]] != edit[2]]
        if found and (found := _outside(found, list(_left_alone(text, code=step not in IN_CODE)))):
            text = edited(text, found)
    return text


def _outside(edits: list[Edit], ranges: list[tuple[int, int]]) -> list[Edit]:
    """The edits that touch none of the ranges; both are in order."""
    kept: list[Edit] = []
    at = 0
    for edit in edits:
        while at < len(ranges) and ranges[at][1] <= edit[0]:
            at += 1
        if at == len(ranges) or edit[1] <= ranges[at][0]:
            kept.append(edit)
    return kept


def _left_alone(text: str, *, code: bool) -> Iterator[tuple[int, int]]:
    """The values of variables, and fenced code where that is asked for, in order and not overlapping."""
    ranges: list[tuple[int, int]] = []
    fences = [found.start() for found in _FENCE.finditer(str.__str__(text))] if code else []
    for start, stop in zip(fences[::2], [*fences[1::2], len(text)], strict=False):
        ranges.append((start, stop))
    at = 0
    for length, origin, _ in text.marks if isinstance(text, Traced) else ():
        if origin is not None and origin.variable is not None:
            ranges.append((at, at + length))
        at += length
    last = 0
    for start, stop in sorted(ranges):
        if stop > last:
            yield max(start, last), stop
            last = stop
