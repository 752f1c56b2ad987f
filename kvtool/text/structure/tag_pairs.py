"""XML- and HTML-like elements in a text: opening tags and the closing ones that belong to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kvtool.text.structure.masking import Span
from kvtool.text.structure.tag_name import TAG_NAME

_TAG = re.compile(rf"<(/?)({TAG_NAME})((?:\s[^<>]{{0,300}})?)>|\[(/?)([A-Z][A-Z_]{{1,40}})\]")
_ONLY_TAGS = re.compile(
    rf"^[ \t]*+((?:(?:</?{TAG_NAME}(?:[^\S\n][^<>\n]{{0,300}})?>|\[/?[A-Z][A-Z_]{{1,40}}\])[ \t\r]*+)++)$",
    re.MULTILINE,
)
_EMPTY = frozenset({"br", "hr", "img", "input", "meta", "link"})


class Element(NamedTuple):
    """An element at `[start, stop)`; its content begins at `body` and ends at `close`."""

    start: int
    stop: int
    body: int
    close: int


def elements_in(text: str, hidden: Sequence[Span]) -> list[Element]:
    """The elements in order of their ends, nested or apart; tags in `hidden` spans (in order) and lonely ones do not count."""
    if "<" not in text and "[/" not in text:
        return []
    found: list[Element] = []
    opened: list[tuple[str, int, int]] = []
    waiting: dict[str, int] = {}
    index = 0
    for tag in _TAG.finditer(text):
        low, high = tag.span()
        while index < len(hidden) and hidden[index][1] <= low:
            index += 1
        if index < len(hidden) and hidden[index][0] < high:
            continue
        closing, name, values, closes, capitals = tag.groups()
        name = name or f"[{capitals}"
        if (values and values.endswith("/")) or name.lower() in _EMPTY:
            continue
        if not (closing or closes):
            opened.append((name, low, high))
            waiting[name] = waiting.get(name, 0) + 1
        elif waiting.get(name):
            while True:
                last, start, body = opened.pop()
                waiting[last] -= 1
                if last == name:
                    break
            found.append(tuple.__new__(Element, (start, high, body, low)))
    return found


def tag_name(opening: str) -> str:
    """The name in an opening tag; empty where there is none."""
    tag = _TAG.search(opening)
    return "" if tag is None else tag[2] or f"[{tag[5]}"


def tag_lines(text: str) -> list[Span]:
    """The lines that hold tags and nothing else, without their indents."""
    if "<" not in text and "[" not in text:
        return []
    return [(found.start(1), found.start(1) + len(found[1].rstrip())) for found in _ONLY_TAGS.finditer(text)]
