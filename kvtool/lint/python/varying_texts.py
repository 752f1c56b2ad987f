"""Texts with what varies in them, as lint says it: how sure each is, and what is the same."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.codes.values.kv102 import REQUEST_ID
from kvtool.diagnose.codes.values.kv106 import ENVIRONMENT
from kvtool.lint.evidence.placeholders import is_set_up, is_setting, may_be_question, names_a_part
from kvtool.lint.evidence.value_precision import DATE
from kvtool.lint.evidence.volatile_calls import HOST, RANDOM
from kvtool.lint.python.changed_values import changed, placed
from kvtool.lint.python.text_values import Items, Literal, Mapped, Message, Param, Piece, Value, pieces_of, text_of
from kvtool.lint.skeleton import Choice, Hole, Node, Repeat, TemplatePlace, leaves, with_holes


def without_holes(value: Value) -> Value:
    """Return a function's value without what varies in it by itself, reported where it is written. Collections are ordered."""

    def change(piece: Piece) -> Value | None:
        if isinstance(piece, Items) and piece.order is not None:
            return without_holes((Items(piece.values),))
        return () if isinstance(piece, Hole) else None

    return changed(value, change)


def without_doubtful(value: Value) -> Value:
    """The same but for what varies by its use only: the template that it is put into says that by its placeholder."""

    def change(piece: Piece) -> Value | None:
        if isinstance(piece, Hole):
            return () if _doubts(piece) else None
        if isinstance(piece, Param) and _doubts(piece):
            return (replace(piece, hole=None),)
        return None

    return changed(value, change)


def filler(given: Mapping[str, Value], unknown: Mapping[str, Hole]) -> Callable[[Param], Value]:
    """Return a function that gives a call's arguments for parameters; those in `unknown` get an unknown value.

    What may be another in each request is reported where a text holds it, not where it is given.
    """

    def fill(param: Param) -> Value:
        value = given.get(param.name, ())
        if param.name not in given and param.name.startswith("self."):
            return (param,)  # what the constructor was given, for a method that another one of the same object calls
        hole = param.hole
        if hole is None or not hole.doubt:
            return value if hole is not None or written_length(value) >= _FEW_WORDS else without_doubtful(value)
        if not value:
            argument = unknown.get(param.name)
            says_more = argument is not None and (argument.doubt != "open" or is_setting(argument.what))
            return () if argument is None else (argument.at(hole.spot) if says_more else hole,)
        if all(
            (isinstance(one, Hole) and _doubts(one)) or (isinstance(one, Param) and one.hole is None) for one in value
        ):
            return tuple(Param(one.name, hole) if isinstance(one, Param) else hole for one in value[:1])
        if all(
            isinstance(one, Items | Mapped) or (isinstance(one, Param) and one.hole is None) for one in pieces_of(value)
        ):
            return (hole,)  # put together of what its own callers give
        if any(isinstance(one, Hole | Param) and _doubts(one) for one in pieces_of(value)):
            return (hole, *without_doubtful(value))
        return value

    return fill


def _doubts(piece: Hole | Param) -> bool:
    """Return whether nothing but a name or a use says that it varies; a text that is not seen is no value."""
    hole = piece.hole if isinstance(piece, Param) else piece
    return hole is not None and bool(hole.doubt) and not hole.unseen


def held(value: Value, spot: TemplatePlace, name: str = "") -> Value:
    """A value as a text holds it at a place; what has a few words around it is reported by this place and `name`."""
    put = placed(value, spot, held=True)
    if written_length(value) >= _FEW_WORDS:
        return put

    def reported_here(hole: Hole) -> Hole:
        says_more = name and (not names_a_part(name) or names_a_part(hole.what))
        return replace(hole.at(spot), what=f"`{name}`" if says_more else hole.what)

    def change(piece: Piece) -> Value | None:
        if isinstance(piece, Hole) and piece.doubt:
            return (reported_here(piece),)
        if isinstance(piece, Param) and piece.hole is not None and piece.hole.doubt:
            return (replace(piece, hole=reported_here(piece.hole), put=spot),)
        return None

    return changed(put, change)


def written_length(value: Value) -> int:
    """Characters of constant text in a value."""
    return sum(len(text_of(piece)) for piece in pieces_of(value) if isinstance(piece, str | Literal))


_FEW_WORDS = 160
"""Characters of constant text around a value, up to which the place of all of it in a longer text is the one to look at."""
_OF_THE_SYSTEM = ("system", "developer")


def asked_for(value: Value) -> Value:
    """A text that a model is asked with: what callers of the function give is another in each call, unless it sets a program up.

    What is in a message of the system may be given to an object once, for all of its calls.
    """

    def change(piece: Piece) -> Value | None:
        if isinstance(piece, Hole) and _is_given(piece):
            return (replace(piece, doubt="use"),)
        if isinstance(piece, Param) and piece.hole is not None and _is_given(piece.hole):
            return (replace(piece, hole=replace(piece.hole, doubt="use")),)
        return (piece,) if isinstance(piece, Message) and piece.role in _OF_THE_SYSTEM else None

    return changed(value, change)


def _is_given(hole: Hole) -> bool:
    return hole.given and hole.doubt == "open" and not names_a_part(hole.what)


OF_TOOLS = ("description", "inputs", "parameters", "args")
"""Attributes of a class for a tool that are reported to a model."""


def is_tool(node: ast.ClassDef) -> bool:
    """Return whether a class is one of a tool: it or one that it is made of is called so."""
    names = [
        node.name,
        *(base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases),
    ]
    return any(name.endswith("Tool") for name in names)


def leading(value: Iterable[Piece], *, dates: bool = False) -> list[Hole]:
    """The clocks and ids in what is before a whole conversation; with `dates`, what is new once a day, too.

    What is chosen by chance is one of a few: conversations share what it is before.
    """
    return [
        replace(piece, leads=True, minor=piece.kind is DATE)
        for piece in pieces_of(tuple(value), 400)
        if isinstance(piece, Hole)
        and piece.certain
        and not piece.order
        and piece.kind is not RANDOM
        and piece.kind.code in (TIME.code, REQUEST_ID.code)
        and (dates or piece.kind is not DATE)
    ]


def judged(nodes: Iterable[Node], *, weak: bool, unnamed: bool, late: bool, names: bool = True) -> list[Node]:
    """Rate each varying value: by its name only, or once a day, it is no error; without `names` it is information.

    `unnamed`: nothing but how it reads says that the text is a prompt. `late`: the text answers what is before it in a
    conversation, so what is another by its use or its name costs nothing.
    """

    def told(hole: Hole) -> Hole:
        hidden = hole.hidden or (late and not hole.certain)
        hidden = hidden or (
            hole.doubt == "open" and (unnamed or weak or (is_set_up(hole.what) and not may_be_question(hole.what)))
        )
        by_name = not hole.certain and not hole.doubt
        by_name = by_name and not (names and hole.kind.code in (TIME.code, REQUEST_ID.code))
        capped = not hole.certain or hole.kind in (DATE, HOST) or hole.kind.code == ENVIRONMENT.code
        return replace(hole, minor=hole.minor or weak or by_name, capped=hole.capped or capped, hidden=hidden)

    return with_holes(nodes if names else _without_elements(nodes), told)


def _without_elements(nodes: Iterable[Node]) -> list[Node]:
    """The same without what only a name says of the elements of a list: the list may be a setting."""

    def hide(hole: Hole) -> Hole:
        return replace(hole, hidden=hole.hidden or hole.doubt == "use")

    return [
        replace(node, body=tuple(with_holes(node.body, hide)))
        if isinstance(node, Repeat)
        else Choice(tuple(tuple(_without_elements(one)) for one in node.branches), node.order)
        if isinstance(node, Choice)
        else node
        for node in nodes
    ]


def reported_once(prompts: list[list[Node]], declared: set[TemplatePlace]) -> list[list[Node]]:
    """Without what is reported where a parameter is declared, if it is reported where a text holds it, too.

    A placeholder that gets a text that is the same in all requests is hidden, in the constant that has it, too.
    """
    settled = {one.spot for nodes in prompts for one in _holes(nodes) if one.constant}
    prompts = [
        with_holes(nodes, lambda one: replace(one, hidden=one.hidden or one.spot in settled)) for nodes in prompts
    ]
    placed = {(one.kind.key, one.what) for nodes in prompts for one in _holes(nodes) if one.spot not in declared}
    result: list[list[Node]] = []
    for nodes in prompts:
        doubled = any(one.spot in declared and (one.kind.key, one.what) in placed for one in _holes(nodes))
        result.append(_without(nodes, declared, placed) if doubled else nodes)
    return result


def _holes(nodes: Iterable[Node]) -> Iterator[Hole]:
    return (leaf for leaf in leaves(nodes) if isinstance(leaf, Hole))


def _without(nodes: Iterable[Node], declared: set[TemplatePlace], placed: set[tuple[str, str]]) -> list[Node]:
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Choice):
            result.append(Choice(tuple(tuple(_without(one, declared, placed)) for one in node.branches)))
        elif isinstance(node, Repeat):
            result.append(replace(node, body=tuple(_without(node.body, declared, placed))))
        elif not (isinstance(node, Hole) and node.spot in declared and (node.kind.key, node.what) in placed):
            result.append(node)
    return result


def key_of(node: Node) -> object:
    if isinstance(node, str):
        return len(node)
    if isinstance(node, Hole):
        return (node.spot, node.kind.key, node.certain)
    if isinstance(node, Choice):
        return tuple(tuple(map(key_of, branch)) for branch in node.branches)
    return ("*", *map(key_of, node.body))
