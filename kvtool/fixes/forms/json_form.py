"""JSON on one line, with one blank behind each comma and colon: outside of code, how it is laid out says nothing (tier P1)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from kvtool.fixes.forms.text_form import outside
from kvtool.fixes.turn_texts import edited, map_texts
from kvtool.text.json_text import json_in
from kvtool.text.structure.masking import fenced_ranges
from kvtool.workload.turn import Turn

WRITE_JSON = "write-json"
"""How the key of the fix begins."""
_BETWEEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|([,:])[ \t\r\n]*+|[ \t\r\n]++', re.DOTALL)


def one_line_of(json_text: str) -> str:
    """JSON on one line, in the same way; what is the same but for its layout is the same text then."""
    return edited(json_text, list(_blanks(json_text, 0, len(json_text))))


def _blanks(text: str, start: int, stop: int) -> Iterator[tuple[int, int, str]]:
    """What is written between the strings and numbers of JSON in another way, as edits."""
    for blank in _BETWEEN.finditer(text, start, stop):
        if blank[0][0] == '"':
            continue
        written = f"{blank[1]} " if blank[1] else ""
        if written != blank[0]:
            yield (*blank.span(), written)


def on_one_line(turn: Turn, roles: Collection[str]) -> Turn:
    """The turn with all JSON in texts of these roles so; strings, numbers and the order of keys stay, and so does fenced code."""

    def change(text: str) -> str:
        plain = str.__str__(text)
        edits: list[tuple[int, int, str]] = []
        for found in json_in(plain):
            edits += _blanks(plain, found.start, found.stop)
        edits = outside(edits, fenced_ranges(plain)) if edits else edits
        return edited(text, edits) if edits else text

    return map_texts(turn, change, roles)
