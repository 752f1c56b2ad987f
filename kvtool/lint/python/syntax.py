"""Names and templates as they are written in Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator

KNOWN_ROOT = "@"
"""The first part of names that no variable can have: `@.datetime.now` is that of Python, whatever `datetime` means in a file."""
_NUMBERS = frozenset(("int", "float", "bool"))
_UNKNOWN = frozenset(("?",))
_LONGEST_ANNOTATION = 80


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


def counted_target(target: ast.expr, over: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """Return the number and the element of a loop over `enumerate(…)`; None for any other."""
    called = dotted(getattr(over, "func", over)).rpartition(".")[2]
    if isinstance(target, ast.Tuple) and len(target.elts) == 2 and called == "enumerate":
        return target.elts[0], target.elts[1]
    return None


def first_number(over: ast.expr) -> int:
    """Return the number with which `enumerate(…)` begins."""
    given = [*getattr(over, "args", ())[1:], *(word.value for word in getattr(over, "keywords", ()))]
    number = given[0].value if given and isinstance(given[0], ast.Constant) else 0
    return number if type(number) is int else 0


def as_written(node: ast.expr) -> str:
    """Return the dotted name of what is called, as its own file writes it."""
    return getattr(node, "written", "") or dotted(node)


def is_written(node: ast.expr) -> bool:
    """Return whether it is a text that is written there, with values in it or without."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def is_number(annotation: ast.expr | None) -> bool:
    """Return whether a parameter is declared as a number, or as one or nothing; in quotes, too."""
    types = frozenset() if annotation is None else _types(annotation)
    return bool(types) and types.issubset(_NUMBERS)


def _types(annotation: ast.expr) -> frozenset[str]:
    """The types that something may be of, but for `None`: their last names; `?` for what is no choice of types."""
    if isinstance(annotation, ast.Constant):
        if annotation.value is None:
            return frozenset()
        return _types(written) if (written := _in_quotes(annotation.value)) is not None else _UNKNOWN
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _types(annotation.left) | _types(annotation.right)
    if isinstance(annotation, ast.Subscript):
        chosen = annotation.slice
        if dotted(annotation.value).rpartition(".")[2] not in ("Optional", "Union"):
            return _UNKNOWN
        return frozenset().union(*map(_types, chosen.elts if isinstance(chosen, ast.Tuple) else [chosen]))
    return frozenset([dotted(annotation).rpartition(".")[2] or "?"])


def _in_quotes(text: object) -> ast.expr | None:
    """An annotation that is written in quotes."""
    if not isinstance(text, str) or len(text) > _LONGEST_ANNOTATION:
        return None
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None


def names_in(node: ast.expr) -> set[str]:
    """All names in an expression: those that a target of a loop binds."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def last_names(node: ast.expr) -> list[str]:
    """`chat`, `completions`, `create` of `OpenAI().chat.completions.create`: the names at the end of a chain."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        names.append(node.id)
    return names[::-1]
