"""Data in a text: JSON values, YAML front matter, and lines between brackets that are neither."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvtool.text.json_text import json_in
from kvtool.text.structure.masking import Span, masked, placeholders

_FRONT = re.compile(r"---[ \t\r]*\n(?:[^\n]*\n){1,200}?(?:---|\.\.\.)[ \t\r]*(?=\n|\Z)")
_KEY = re.compile(r"[ \t]*(?:#|- |[\w.\"'-]{1,60}[ \t]*:)")
_OPENS = re.compile(r"(?:\A|[\s=:(,])[\[{(][ \t\r]*\Z|\A[ \t]*[\[{(][ \t\r]*\Z")
_PARTNER = {"}": "{", "]": "[", ")": "("}
_SHORT = 500


def data_in(text: str) -> list[Span]:
    """Where values of data stand, the outermost only, in order."""
    spans = [(found.start, found.stop) for found in json_in(_as_json(text))]
    if front := _front_matter(text):
        spans = [front, *(span for span in spans if span[0] >= front[1])]
    if "\n" not in text or not ("{" in text or "[" in text or "(" in text):
        return spans
    return _outermost([*spans, *_bracketed(text)])


def _as_json(text: str) -> str:
    """The text with placeholders as digits, which JSON takes as a number and in a string alike."""
    return masked(text, placeholders(text), "1")


def _front_matter(text: str) -> Span | None:
    found = _FRONT.match(text) if text.startswith("---") else None
    if found is None:
        return None
    lines = found[0].split("\n")[1:-1]
    return found.span() if all(_KEY.match(line) for line in lines if line.strip() and line[0] not in " \t") else None


def _bracketed(text: str) -> Iterator[Span]:
    """From a line that ends with an opening bracket to the line that begins with its closing one."""
    opened: list[tuple[str, int]] = []
    at = 0
    for line in text.split("\n"):
        shown = line.strip()
        if shown and opened and shown[0] in _PARTNER:
            if opened[-1][0] == _PARTNER[shown[0]]:
                start = opened.pop()[1]
                yield start, at + len(line.rstrip())
            else:
                opened.clear()
        if shown and len(line) <= _SHORT and shown[-1] in "{[(" and _OPENS.search(line):
            opened.append((shown[-1], at + len(line) - len(line.lstrip())))
        at += len(line) + 1


def _outermost(spans: list[Span]) -> list[Span]:
    kept: list[Span] = []
    for start, stop in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not kept or start >= kept[-1][1]:
            kept.append((start, stop))
        elif stop > kept[-1][1]:
            kept[-1] = (kept[-1][0], stop)
    return kept
