"""Values of a workload file that nobody stated: `kvtool init` made them up, and marks their lines."""

from __future__ import annotations

import re
from itertools import takewhile

from kvtool.text.files.yaml_document import YamlDocument

MADE_UP = "made up"
"""Marks a guess, in values and in comments."""
MARK = f"# {MADE_UP}"
_COPIED = re.compile(
    r"\s*# (?:Copied from (?P<place>.+?)(?:, sent by (?P<sender>.+))?\. Copy it again after a change there|Sent by (?P<code>.+))\."
)
_NAME = re.compile(r"[^\W\d]\w*")


def has_made_up(workload: str) -> bool:
    """Return whether a workload file, one that was edited since too, has made-up values."""
    return any(MARK in line or f'"{MADE_UP}: ' in line for line in workload.splitlines())


def copied_comment(place: str, sender: str = "") -> str:
    """Return the comment above a message, or tools, that are a copy of a text elsewhere; `sender`: another file sends it."""
    return f"# Copied from {place}{f', sent by {sender}' if sender else ''}. Copy it again after a change there."


def sent_comment(place: str) -> str:
    """Return the comment above a message that is all of a file, which code at this place sends."""
    return f"# Sent by {place}."


def copied_from(workload: str, line: int, *, sender: bool = False) -> str | None:
    """Return the place of which a line of a workload file is a copy, or all that it is a part of; None for one that is none.

    `sender`: where another file sends the text, return that file.
    """
    lines = workload.splitlines()[:line]
    inside = _indent(lines[-1]) if lines else 0
    for number in range(len(lines) - 1, -1, -1):
        text = lines[number]
        if number < len(lines) - 1 and (_indent(text) >= inside or not text.strip()):
            continue
        inside = _indent(text)
        comments = takewhile(lambda each: each.lstrip().startswith("#"), reversed(lines[:number]))
        if (found := next(filter(None, map(_COPIED.fullmatch, comments)), None)) is not None:
            return (found["sender"] if sender else None) or found["place"] or found["code"]
    return None


def is_made_up(document: YamlDocument, group: str, variable: str) -> bool:
    """Return whether a comment says that a variable, as templates name it, is made up."""
    found = _NAME.match(variable)
    if found is None or MARK not in document.source:
        return False
    path = (*_vars_of(document, group, found[0]), found[0])
    if document.find(path) is None:
        return False
    line = document.place(path, key=True).line
    lines = document.source.splitlines()[(line or 1) - 1 :]
    indent = _indent(lines[0])
    below = takewhile(lambda each: not each.strip() or _indent(each) > indent, lines[1:])
    return any(MARK in each for each in (lines[0], *below))


def _vars_of(document: YamlDocument, group: str, name: str) -> tuple[str | int, ...]:
    """Return where a variable is declared: in its group, else for all of them."""
    number = 0
    while document.find(("groups", number)) is not None:
        here = ("groups", number)
        named = document.find((*here, "name"))
        if getattr(named, "value", None) == group and document.find((*here, "vars", name)) is not None:
            return (*here, "vars")
        number += 1
    return ("vars",)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
