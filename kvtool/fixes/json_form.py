"""JSON on one line, with one blank behind each comma and colon: outside of code, how it is laid out says nothing (tier P1)."""

from __future__ import annotations

import re
from collections.abc import Collection

from kvtool.fixes.one_form import outside
from kvtool.fixes.turn_texts import edited, map_texts
from kvtool.text.json_text import json_in
from kvtool.text.structure.fenced import fenced_ranges
from kvtool.workload.turn import Turn

WRITE_JSON = "write-json"
"""How the key of the fix begins."""
_BETWEEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|([,:])[ \t\r\n]*+|[ \t\r\n]++', re.DOTALL)


def on_one_line(turn: Turn, roles: Collection[str]) -> Turn:
    """The turn with all JSON in texts of these roles so; strings, numbers and the order of keys stay, and so does fenced code."""

    def change(text: str) -> str:
        plain = str.__str__(text)
        edits: list[tuple[int, int, str]] = []
        for found in json_in(plain):
            for blank in _BETWEEN.finditer(plain, found.start, found.stop):
                if blank[0][0] == '"':
                    continue
                written = f"{blank[1]} " if blank[1] else ""
                if written != blank[0]:
                    edits.append((*blank.span(), written))
        edits = outside(edits, fenced_ranges(plain)) if edits else edits
        return edited(text, edits) if edits else text

    return map_texts(turn, change, roles)
