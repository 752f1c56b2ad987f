"""What is known of a text that Python code builds, before it is a prompt."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kvtool.lint.skeleton import Node

MOST_PIECES = 400
MESSAGE_KEYS = ("content", "text")


@dataclass(frozen=True, slots=True)
class Literal:
    """A string constant: its text, and the source range it is written in, where placeholders are looked up."""

    text: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Items:
    """The elements of a list, as far as they are known; `messages` are parts of one prompt, others only once they are joined."""

    values: tuple[Value, ...]
    messages: bool = False


Value = tuple["Node | Literal | Items", ...]


def plain(value: Iterable[Node | Literal | Items]) -> list[Node]:
    """What is filled in, as text: placeholders inside of it are not looked for again."""
    result: list[Node] = []
    for piece in value:
        if isinstance(piece, Literal):
            result.append(piece.text)
        elif not isinstance(piece, Items):
            result.append(piece)
    return result


def cut(pieces: Iterable[Node | Literal | Items]) -> Value:
    """At most so many pieces that copying them stays cheap."""
    result: list[Node | Literal | Items] = []
    for piece in pieces:
        if piece != "":
            result.append(piece)
        if len(result) >= MOST_PIECES:
            break
    return tuple(result)


def is_message(node: ast.expr) -> bool:
    return isinstance(node, ast.Dict) and any(key in keyed(node) for key in MESSAGE_KEYS)


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
