"""What the files that are read say of each other: templates that code fills, that include or extend others, and their marks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os.path import realpath

from kvtool.lint.findings.file_result import JudgedText
from kvtool.lint.formats.included_texts import included_texts, linked_files
from kvtool.lint.lint_inputs import DATA, TextInput
from kvtool.lint.passed_values import PassedValue
from kvtool.lint.python.rendered_files import template_paths

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
        if one.is_code and ".replace(" in one.text
        for found in _REPLACED.finditer(one.text)
        if _MARK.fullmatch(found[2])
    }
    return [_marked(one, marks) for one in texts] if marks else list(texts)


def _marked(one: TextInput, marks: set[str]) -> TextInput:
    if one.is_code or one.style in (DATA, "jinja", "format", "mustache"):
        return one
    held = tuple(sorted(mark for mark in marks if mark in one.text))
    return replace(one, style="marks", marks=held) if held else one


_MOST_CHILDREN = 16


class TemplateLinks:
    """Templates that code fills, with what it passes to them, and templates that include or extend each other."""

    def __init__(self) -> None:
        self.filled: dict[str, str] = {}
        """Files that get something from code, by their real paths."""
        self.bases: dict[str, str] = {}
        """Files that a template extends, by their real paths: its prompt begins there."""
        self._passed: dict[str, tuple[PassedValue, ...]] = {}
        self._children: dict[str, list[str]] = {}
        """Texts of the templates that extend a file, by its real path."""
        self._of_children: dict[str, dict[str, str]] = {}
        """Texts of files that these include, by their names."""

    def add(self, code: Iterable[tuple[TextInput, JudgedText]], templates: Sequence[TextInput]) -> list[TextInput]:
        """Add what code passes to templates, and return the templates with all that is known of them.

        What a template is given is given to those that it includes or extends, too.
        """
        paths = [one.path for one in templates]
        waiting = [
            (path, file.values)
            for one, found in code
            for file in found.rendered
            for path in template_paths(one.path, file.name, paths)
        ]
        links = {realpath(one.path): _links(one) for one in templates}
        waiting += [(one.path, self._passed.get(realpath(one.path), ())) for one in templates]
        for path, values in waiting:  # it grows
            real = realpath(path)
            known = self._passed.get(real, ())
            new = tuple(value for value in values if value not in known)
            if values or path not in paths:
                self.filled.setdefault(real, path)
            self._passed[real] = (*known, *new)
            waiting += [(each, new) for each, _ in links.get(real, ()) if new]
        self.bases |= {realpath(path): path for each in links.values() for path, is_base in each if is_base}
        for one in templates:
            self._add_to_bases(one, links)
        return [self._linked(one) for one in templates]

    def _add_to_bases(self, one: TextInput, links: Mapping[str, Sequence[tuple[str, bool]]]) -> None:
        """Add a text to all files that its template extends, directly or not."""
        text, real = one.text, realpath(one.path)
        seen = {real}
        while bases := [
            each for path, extends in links.get(real, ()) if extends and (each := realpath(path)) not in seen
        ]:
            real = bases[0]
            seen.add(real)
            children = self._children.setdefault(real, [])
            if len(children) < _MOST_CHILDREN and text not in children:
                children.append(text)
                self._of_children.setdefault(real, {}).update(included_texts(one.path, text))

    def _linked(self, one: TextInput) -> TextInput:
        real = realpath(one.path)
        included = included_texts(one.path, one.text) if one.style == "jinja" else ()
        included = tuple((self._of_children.get(real, {}) | dict(included)).items())
        children = tuple(self._children.get(real, ())) if one.style == "jinja" else ()
        return replace(one, passed=self._passed.get(real, ()), included=included, children=children)


def _links(one: TextInput) -> list[tuple[str, bool]]:
    """Return the files that a template includes or extends, as its own path is written, each with whether it is extended."""
    if one.style != "jinja":
        return []
    from_here = os.path.isabs(one.path)  # noqa: PTH117 - a string, as all inputs are
    return [
        (str(file) if from_here else os.path.relpath(file), is_base)
        for file, is_base in linked_files(one.path, one.text)
    ]
