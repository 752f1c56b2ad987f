"""Marks that the code of a project replaces in a text by itself: `text.replace("[QUESTION]", question)`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from kvtool.lint.lint_inputs import DATA, TextInput

_REPLACED = re.compile(r"\.replace\(\s{0,200}([\"'])([^\"'\\\n]{3,60})\1\s{0,80},\s{0,200}+(?![fFrR]?[\"'])")
_MARK = re.compile(
    r"[\[<{(%$#@_*|!~]{1,4}\s?[A-Za-z][\w .-]{1,40}?\s?[\]>})%$#@_*|!~]{1,4}|[A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){1,6}"
)
"""A name between signs, or in capitals with `_` in it."""


def with_marks(texts: Sequence[TextInput]) -> list[TextInput]:
    """The texts, where those without placeholders of another form know which marks in them the code among them replaces."""
    marks = {
        found[2]
        for one in texts
        if one.kind == "python" and ".replace(" in one.text
        for found in _REPLACED.finditer(one.text)
        if _MARK.fullmatch(found[2])
    }
    return [_marked(one, marks) for one in texts] if marks else list(texts)


def _marked(one: TextInput, marks: set[str]) -> TextInput:
    if one.kind == "python" or one.style in (DATA, "jinja", "format", "mustache"):
        return one
    held = tuple(sorted(mark for mark in marks if mark in one.text))
    return replace(one, style="marks", marks=held) if held else one


def mark_pattern(marks: Sequence[str]) -> re.Pattern[str]:
    """What finds these marks; those in capitals only as whole words."""
    return re.compile("|".join(rf"(?<!\w){re.escape(one)}(?!\w)" for one in sorted(marks, key=len, reverse=True)))


def name_of(mark: str) -> str:
    """What a mark names."""
    return re.sub(r"\W+", "_", mark).strip("_")
