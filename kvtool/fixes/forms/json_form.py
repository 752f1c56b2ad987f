"""JSON on one line, with one blank after each comma and colon: outside of code, how it is laid out says nothing (tier P1)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from kvtool.diagnose.compare.tools import is_tool, tool_name
from kvtool.fixes.forms.text_form import outside
from kvtool.fixes.turn_texts import INSTRUCTIONS, edited, map_texts, texts_of
from kvtool.text.cache_marks import marks_kept_in_place, without_marks
from kvtool.text.json_text import json_in, sorted_json
from kvtool.text.message import Message
from kvtool.text.structure.masking import fenced_ranges
from kvtool.workload.turn import Turn

_DEEPEST = 100
_MOST_TEXTS = 512
_LONGEST = 20_000
"""Characters of JSON, up to which it is looked at."""
WRITE_JSON = "write-json"
"""How the key of the fix begins."""
_BETWEEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|([,:])[ \t\r\n]*+|[ \t\r\n]++', re.DOTALL)


def single_line_of(json_text: str) -> str:
    """Return JSON on one line, in the same way; what is the same but for its layout is the same text then."""
    return edited(json_text, list(_blanks(json_text, 0, len(json_text))))


def _blanks(text: str, start: int, stop: int) -> Iterator[tuple[int, int, str]]:
    """Yield what is written between the strings and numbers of JSON in another way, as edits."""
    for blank in _BETWEEN.finditer(text, start, stop):
        if blank[0][0] == '"':
            continue
        written = f"{blank[1]} " if blank[1] else ""
        if written != blank[0]:
            yield (*blank.span(), written)


def put_on_one_line(turn: Turn, roles: Collection[str]) -> Turn:
    """Return the turn with all JSON in texts of these roles so; strings, numbers and the order of keys stay, and so does fenced
    code.
    """

    def change(text: str) -> str:
        plain = str.__str__(text)
        edits: list[tuple[int, int, str]] = []
        for found in json_in(plain):
            edits += _blanks(plain, found.start, found.stop)
        edits = outside(edits, fenced_ranges(plain)) if edits else edits
        return edited(text, edits) if edits else text

    return map_texts(turn, change, roles)


@dataclass(frozen=True)
class SingleLayout:
    """A transform: each JSON that is all of a code block, and that requests write in several layouts, is written as most do."""

    layouts: dict[str, str]
    roles: frozenset[str]

    @classmethod
    def learn(cls, samples: Sequence[Turn], roles: Collection[str]) -> SingleLayout | None:
        """Learn from the texts of these roles; return None where no JSON has two layouts. One text that shows both means to."""
        written: dict[str, Counter[str]] = {}
        meant: set[str] = set()
        texts = Counter(str.__str__(at.text) for turn in samples for at in texts_of(turn) if at.role in roles)
        for text, times in islice(texts.items(), _MOST_TEXTS):
            held: dict[str, str] = {}
            for _, _, raw, same in _blocks_of_json(text):
                if held.setdefault(same, raw) != raw:
                    meant.add(same)
            for same, raw in held.items():
                written.setdefault(same, Counter())[raw] += times
        layouts = {
            same: raws.most_common(1)[0][0] for same, raws in written.items() if len(raws) > 1 and same not in meant
        }
        return cls(layouts, frozenset(roles)) if layouts else None

    def __call__(self, turn: Turn) -> Turn:
        return put_on_one_line(map_texts(turn, self._rewritten, self.roles), self.roles)

    def _rewritten(self, text: str) -> str:
        edits = [
            (start, stop, layout)
            for start, stop, raw, same in _blocks_of_json(str.__str__(text))
            if (layout := self.layouts.get(same, raw)) != raw
        ]
        return edited(text, edits) if edits else text


def _blocks_of_json(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield start, stop, text, and text on one line of each JSON that is all of a code block, which is not indented."""
    if "```" not in text and "~~~" not in text:
        return
    for fence, close in fenced_ranges(text):
        first = text.find("\n", fence, close) + 1
        if not first or text[fence] not in "`~" or close - first > _LONGEST:
            continue
        start = first + len(text[first:close]) - len(text[first:close].lstrip())
        raw = text[start:close].rstrip()
        found = next(json_in(raw), None) if raw[:1] in ("{", "[") else None
        if found is not None and (found.start, found.stop) == (0, len(raw)):
            yield start, start + len(raw), raw, single_line_of(raw)


def sort_tools(turn: Turn) -> Turn:
    """Return the turn with its tools by name, those in JSON arrays of its instructions as well."""
    turn = map_texts(turn, lambda text: sorted_json(text, keys=False, item_key=_tool_in_text), INSTRUCTIONS)
    if not isinstance(turn.tools, list):
        return turn
    in_order = sorted(turn.tools, key=lambda tool: (tool_name(tool), _dumped(without_marks(tool))))
    tools = marks_kept_in_place(turn.tools, in_order)
    return replace(turn, tools=tools) if any(a is not b for a, b in zip(tools, turn.tools, strict=True)) else turn


def _tool_in_text(item: str) -> str | None:
    """Return the name of a tool that is written as JSON."""
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
    """Return the turn with the keys of its tools, of the arguments of its tool calls and of JSON in texts of these roles in
    order.
    """
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
    """Return the value with the keys of all its objects in order; the very value where they are."""
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
