"""Names and templates as they are written in Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_NUMBERS = frozenset(("int", "float", "bool"))


def keyed(node: ast.Dict) -> dict[str, ast.expr]:
    """The values of a mapping by their keys, where those are strings."""
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def percents(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and name (may be empty) of each conversion of a `%` template."""
    at = 0
    while (at := text.find("%", at)) >= 0:
        start, at, name = at, at + 1, ""
        if text.startswith("(", at):
            close = text.find(")", at, at + 100)
            name, at = (text[at + 1 : close], close + 1) if close >= 0 else ("", at)
        while at < len(text) and text[at] in "#0- +.*123456789":
            at += 1
        kind = text[at : at + 1]
        at += 1
        if kind and kind in "sdrafgexiuoXEFGc":
            yield start, at, name


def dotted(node: ast.expr) -> str:
    """`self.user.name` for what it is, `ctx.now` for `ctx["now"]`; empty for anything that is no such chain."""
    parts: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            parts.append(node.slice.value)
        else:
            return ""
        node = node.value
    return ".".join([node.id, *reversed(parts)])


def is_written(node: ast.expr) -> bool:
    """Whether it is a text that is written there, with values in it or without."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def is_number(annotation: ast.expr | None) -> bool:
    """Whether a parameter is declared as a number, or as one or nothing."""
    names = [one.id for one in ast.walk(annotation) if isinstance(one, ast.Name)] if annotation is not None else []
    return bool(_NUMBERS.intersection(names)) and _NUMBERS.union(("Optional", "Union")).issuperset(names)


def names_in(node: ast.expr) -> set[str]:
    """All names in an expression: those that a target of a loop binds."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
