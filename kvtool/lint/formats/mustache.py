"""Placeholders of Mustache and its kin: `{{name}}`, `{{$name}}`, `{{.Name}}`, and sections that may be there or not."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from kvtool.lint.evidence.placeholders import placeholder, section, unnamed
from kvtool.lint.skeleton import Choice, Node, TemplatePlace, TemplatePlaces
from kvtool.text.traced import Traced

_TAG = re.compile(r"\{\{(\{?)[-~]?\s{0,80}([#^/&$.!>@]{0,2})\s{0,8}([A-Za-z_][\w.\-$]{0,200})?[^{}]{0,400}\}\}\}?")
_ROLE = frozenset(
    ("role", "history", "media", "section", "else", "end", "range", "with", "if", "unless", "each", "this", "raw")
)
_BLOCK = frozenset(("if", "unless", "each", "with", "range"))
_DEEPEST = 40


def mustache_nodes(text: Traced, known: Collection[str] = ()) -> list[Node]:
    """A text with such placeholders as nodes. What is in a section is there, or it is not.

    Of names in `known` is known what they get: there is a hole for each, whatever it is called.
    """
    places = TemplatePlaces(text)
    stack: list[tuple[list[Node], str, TemplatePlace | None]] = [([], "", None)]
    at = 0
    for tag in _TAG.finditer(text):
        stack[-1][0].append(str.__getitem__(text, slice(at, tag.start())))
        at = tag.end()
        sign, name = tag[2], tag[3] or ""
        if sign.startswith(("!", ">")):
            continue
        place = places.at(tag.start(), tag.end())
        if sign.startswith("/") or name == "end":
            if len(stack) > 1:
                _close(stack)
        elif sign.startswith(("#", "^")) or (name in _BLOCK and not sign.startswith("$")):
            if len(stack) < _DEEPEST:
                words = re.findall(r"[A-Za-z_][\w.]{0,200}", tag[0])
                stack.append(([], words[-1] if name in _BLOCK else name, place))
        elif name and not (name in _ROLE and not sign):
            hole = placeholder(name, place) or (unnamed(name, place) if name in known else None)
            stack[-1][0].extend([hole] if hole is not None else [])
    stack[-1][0].append(str.__getitem__(text, slice(at, None)))
    while len(stack) > 1:
        _close(stack)
    return [node for node in stack[0][0] if node != ""]


def _close(stack: list[tuple[list[Node], str, TemplatePlace | None]]) -> None:
    inside, name, place = stack.pop()
    body = tuple(node for node in inside if node != "")
    stack[-1][0].append(Choice((body, ())))
    if body and name and place is not None and (hole := section(name, place)) is not None:
        stack[-1][0].append(replace(hole, spot=place))
