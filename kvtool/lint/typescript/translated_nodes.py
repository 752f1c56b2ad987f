"""Nodes of tree-sitter as parts of Python's syntax tree: places, names and texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeVar

from tree_sitter import Node

from kvtool.lint.python.syntax import KNOWN_ROOT

Placed = TypeVar("Placed", bound=ast.AST)

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
_WRAPPERS = frozenset(
    (
        "parenthesized_expression",
        "as_expression",
        "satisfies_expression",
        "non_null_expression",
        "instantiation_expression",
    )
)
FUNCTIONS = frozenset(("arrow_function", "function_expression", "generator_function", "function"))


class KnownName(ast.Name):
    """The Python name of something that JavaScript has under another one; `written` is how the file calls it."""

    written: str = ""


def at(made: Placed, node: Node) -> Placed:
    """Give a part of the tree the place of the node that it is made of."""
    start, end = node.start_point, node.end_point
    place = {
        "lineno": start.row + 1,
        "col_offset": start.column,
        "end_lineno": end.row + 1,
        "end_col_offset": end.column,
    }
    for name, value in place.items():
        setattr(made, name, value)
    return made


def text(node: Node | None) -> str:
    """Return the source of a node; empty for none."""
    return (node.text or b"").decode("utf-8", "replace") if node is not None else ""


def field(node: Node, name: str) -> Node | None:
    """Return the child under a field, without the brackets and types around it."""
    found = node.child_by_field_name(name)
    return None if found is None else bare(found)


def bare(node: Node) -> Node:
    """Return an expression without brackets, `as const`, `satisfies T` and `!` around it."""
    while node.type in _WRAPPERS and (inside := first_named(node)) is not None:
        node = inside
    if node.type == "type_assertion" and node.named_child_count:
        return bare(node.named_children[-1])
    return node


def first_named(node: Node) -> Node | None:
    """Return the first child that is more than punctuation or a comment."""
    return next(iter(named(node)), None)


def named(node: Node) -> Iterator[Node]:
    """Yield the children that are more than punctuation and comments."""
    return (child for child in node.named_children if child.type != "comment")


def unescaped(escape: str) -> str:
    """Return the character that an escape sequence means."""
    code = escape[1:]
    if code[:1] in ("x", "u"):
        digits = code[1:].strip("{}")
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError):
            return escape
    return _ESCAPES.get(code, code)


def string_text(node: Node) -> str:
    """Return the text of a string, or of a template without values."""
    parts = [
        unescaped(text(child)) if child.type == "escape_sequence" else text(child)
        for child in node.children
        if child.type in ("string_fragment", "escape_sequence")
    ]
    return "".join(parts)


def key_of(node: Node | None) -> str:
    """Return the name of a property, in quotes or not; empty for one that is computed."""
    if node is None or node.type == "computed_property_name":
        return ""
    return string_text(node) if node.type == "string" else text(node)


def constant(value: object, node: Node) -> ast.Constant:
    """Return a constant at the place of a node."""
    return at(ast.Constant(value), node)  # type: ignore[arg-type]  # any constant


def name(identifier: str, node: Node) -> ast.Name:
    """Return a name that is read at the place of a node."""
    return at(ast.Name(identifier, ast.Load()), node)


def known_name(dotted: str, written: str, node: Node) -> KnownName:
    """Return the Python name of what the file calls `written`."""
    made = at(KnownName(f"{KNOWN_ROOT}.{dotted}", ast.Load()), node)
    made.written = written
    return made


def call(function: ast.expr, arguments: list[ast.expr], node: Node) -> ast.Call:
    """Return a call without keywords."""
    return at(ast.Call(function, arguments, []), node)


def method(base: ast.expr, attribute: str, arguments: list[ast.expr], node: Node) -> ast.Call:
    """Return a call of a method."""
    return call(at(ast.Attribute(base, attribute, ast.Load()), node), arguments, node)


_SPECIAL = re.compile(r"[.^$*+?()\[\]|]|\{\d")
_ESCAPED = re.compile(r"\\([^\w\s])")


def regex_text(pattern: str) -> str:
    """Return the one text that a regular expression matches; empty where it matches others too."""
    plain = _ESCAPED.sub("", pattern)
    if "\\" in plain or _SPECIAL.search(plain):
        return ""
    return _ESCAPED.sub(r"\1", pattern)
