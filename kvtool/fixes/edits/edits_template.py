"""Pieces of a template that edits keep whole: expressions, comments, statements, and blocks from first tag to last."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import Environment
from jinja2.exceptions import TemplateSyntaxError

_SYNTAX = ("{{", "{%", "{#")
_OPENERS = frozenset({"if", "for", "macro", "call", "filter", "with", "autoescape", "block", "trans"})

Range = tuple[int, int]


class NotEditableError(Exception):
    """The reason why the text of a file cannot do what was done to prompts; a sentence without prompt text."""


def is_template(text: str) -> bool:
    """Return whether Jinja has anything to do with the text."""
    return any(mark in text for mark in _SYNTAX)


@dataclass(frozen=True, slots=True)
class Shape:
    """`expressions` are the ranges of each `{{ … }}`, `solid` those of which nothing may be cut, in order and apart.

    `extends`: another template decides where its blocks go, and drops what is outside of them.
    """

    expressions: tuple[Range, ...] = ()
    solid: tuple[Range, ...] = ()
    extends: bool = False

    def check_cut(self, start: int, stop: int) -> None:
        """Raise NotEditableError where cutting `[start, stop)` out would take a construct apart."""
        for low, high in self.solid:
            if low < stop and start < high and not (start <= low and high <= stop):
                raise NotEditableError(
                    "the text is part of a Jinja block or a long expression, which the edit would break"
                )

    def splits(self, place: int) -> bool:
        """Return whether an insertion at `place` would come inside a construct."""
        index = bisect_left(self.solid, (place, 0)) - 1
        return index >= 0 and self.solid[index][0] < place < self.solid[index][1]


def shape_of(text: str) -> Shape:
    """Return the shape of a template; NotEditableError where it is none that can be read."""
    if not is_template(text):
        return Shape()
    plain = str.__str__(text)
    back = _offsets(plain)
    try:
        tokens = list(_tokens(plain.replace("\r\n", "\n").replace("\r", "\n")))
    except TemplateSyntaxError as error:
        raise NotEditableError("its template cannot be read") from error
    expressions: list[Range] = []
    solid: list[Range] = []
    depth = start = 0
    extends = any(kind == "extends" for kind, _, _ in tokens)
    for kind, low, high in tokens:
        if extends and kind in ("open block", "close block"):
            kind = "statement"
        if kind == "expression":
            expressions.append((back[low], back[high]))
        if kind.startswith("close"):
            depth -= 1
        elif not depth:
            start = low
        if kind.startswith("open"):
            depth += 1
        if not depth:
            solid.append((back[start], back[high]))
    if depth:
        raise NotEditableError("its template cannot be read")
    return Shape(tuple(expressions), tuple(solid), extends)


def _offsets(text: str) -> range | list[int]:
    """Return where each character of the text with its line ends made one is in the text itself."""
    if "\r" not in text:
        return range(len(text) + 1)
    found = [index for index in range(len(text)) if not (text[index] == "\n" and index and text[index - 1] == "\r")]
    return [*found, len(text)]


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each tag of a template: `expression`, `comment`, `statement`, `extends`, or the `open` and `close` of what has an end
    tag, `open block` and `close block` where that is a block of inheritance; with its range."""
    at = start = 0
    name, assigns = "", False
    for _, kind, value in Environment(autoescape=True, keep_trailing_newline=True).lexer.tokeniter(text, None):
        begin = text.find(value, at)
        at = begin + len(value)
        stop = begin + len(value.rstrip())
        if kind in ("variable_begin", "block_begin", "comment_begin"):
            start, name, assigns = begin, "", False
        elif kind == "name" and not name:
            name = value
        elif kind == "operator" and value == "=":
            assigns = True
        elif kind == "variable_end":
            yield "expression", start, stop
        elif kind == "comment_end":
            yield "comment", start, stop
        elif kind == "raw_begin":
            yield "open", begin, stop
        elif kind == "raw_end":
            yield "close", begin, stop
        elif kind == "block_end":
            opens = name in _OPENERS or (name == "set" and not assigns)
            if name in ("block", "endblock"):
                yield "open block" if opens else "close block", start, stop
            elif name == "extends":
                yield "extends", start, stop
            else:
                yield "open" if opens else "close" if name.startswith("end") else "statement", start, stop
