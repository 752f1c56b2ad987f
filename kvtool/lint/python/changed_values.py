"""Values with other pieces: filled with what callers give, reported at another place, in another order."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from kvtool.lint.python.text_values import (
    Either,
    Items,
    Literal,
    Many,
    Mapped,
    Message,
    Mixed,
    Param,
    Piece,
    Value,
    cut,
    pieces_of,
    text_of,
)
from kvtool.lint.python.work_budget import spend
from kvtool.lint.skeleton import Hole, TemplatePlace

_SYSTEM = ("system", "developer")


def with_between(values: Iterable[Value], between: str) -> Iterator[Piece]:
    """Texts that `join` puts together."""
    for number, value in enumerate(values):
        if number and between:
            yield between
        yield from (replace(one, between=between) if isinstance(one, Many) else one for one in value)


def backwards(value: Value) -> Value:
    """A list in the opposite order."""
    return tuple(
        replace(piece, values=piece.values[::-1])
        if isinstance(piece, Items)
        else Either(tuple(map(backwards, piece.branches)))
        if isinstance(piece, Either)
        else piece
        for piece in reversed(value)
    )


def system_first(value: Value) -> Value:
    """Messages as a model gets them: those of the system before all others, in whatever order a list of them was put together."""
    flat = tuple(part for piece in value for part in (_elements(piece) if isinstance(piece, Items) else (piece,)))
    leading = [piece for piece in flat if isinstance(piece, Message) and piece.role in _SYSTEM]
    if not leading or not any(isinstance(piece, Message) and piece.role not in _SYSTEM for piece in flat):
        return value
    return (*leading, *(piece for piece in flat if not any(piece is one for one in leading)))


def _elements(items: Items) -> Iterator[Piece]:
    if items.order is not None:
        yield items.order
    for one in items.values:
        yield from one


def substituted(
    value: Value, given: Callable[[Param], Value], work: list[int], made: TemplatePlace | None = None
) -> Value:
    """A value with what a caller gives; `work` is what is left to be done. `made`: the call, which makes it anew."""

    def inside(one: Value) -> Value:
        return substituted(one, given, work, made)

    result: list[Piece] = []
    spend(len(value))
    for piece in value:
        work[0] -= 1
        if work[0] < 0:
            break
        if isinstance(piece, Param):
            value_given = given(piece)
            if piece.filled is not None and piece not in value_given:
                value_given = piece.filled(value_given)
            result += value_given if piece.put is None else placed(value_given, piece.put)
        elif isinstance(piece, Hole):
            result.append(piece if made is None else replace(piece, made=made))
        elif isinstance(piece, Items):
            result.append(replace(piece, values=tuple(_spread(piece.values, inside))))
        elif isinstance(piece, Mapped):
            result.append(Mapped(tuple((key, inside(one)) for key, one in piece.pairs)))
        elif isinstance(piece, Message):
            result.append(replace(piece, content=inside(piece.content)))
        elif isinstance(piece, Either):
            result.append(Either(tuple(map(inside, piece.branches))))
        elif isinstance(piece, Many):
            result.append(replace(piece, body=inside(piece.body)))
        elif isinstance(piece, Mixed):
            result += _mixed(inside((piece.order,)), tuple(_spread(piece.parts, inside)), piece)
        else:
            result.append(piece)
    return cut(result)


def _spread(values: Iterable[Value], inside: Callable[[Value], Value]) -> Iterator[Value]:
    """Yield the elements of a list; a list that a caller gives for all of them has them itself."""
    for one in values:
        given = inside(one)
        items = given[0] if len(one) == len(given) == 1 and isinstance(one[0], Param) else None
        if isinstance(items, Items) and items.order is None:
            yield from items.values
        else:
            yield given


def _mixed(order: Value, parts: tuple[Value, ...], before: Mixed) -> Value:
    """Return a list in no fixed order with other parts; one whose order is no longer known to vary is its parts."""
    if len(order) == 1 and isinstance(order[0], Hole):
        return (replace(before, order=order[0], parts=parts),)
    return (*order, *(piece for part in parts for piece in part))


def in_order(value: Value) -> Value:
    """The same elements in an order that is always the same."""
    result: list[Piece] = []
    for piece in value:
        if isinstance(piece, Items):
            result.append(Items(piece.values))
        elif isinstance(piece, Either):
            result.append(Either(tuple(map(in_order, piece.branches))))
        elif not isinstance(piece, Hole | Param):
            result.append(piece)
    return tuple(result)


def with_hole(value: Value, hole: Hole | None) -> Value:
    """Add a hole to parameters that have none; all else stays."""
    if hole is None:
        return value
    return tuple(
        replace(piece, hole=hole)
        if isinstance(piece, Param) and piece.hole is None
        else Either(tuple(with_hole(one, hole) for one in piece.branches))
        if isinstance(piece, Either)
        else replace(piece, body=with_hole(piece.body, hole))
        if isinstance(piece, Many)
        else piece
        for piece in value
    )


def is_given(value: Value) -> bool:
    """Return whether it is what callers give, and nothing else: or a constant where they give nothing."""
    return all(
        isinstance(piece, Param)
        or (isinstance(piece, Many) and bool(piece.body) and is_given(piece.body))
        or (
            isinstance(piece, Either)
            and any(one and is_given(one) for one in piece.branches)
            and not any(
                isinstance(one, Hole | Mapped) or _has_elements(one) for branch in piece.branches for one in branch
            )
        )
        for piece in value
    )


def _has_elements(piece: Piece) -> bool:
    return isinstance(piece, Items) and (bool(piece.values) or piece.order is not None)


def changed(value: Value, change: Callable[[Piece], Value | None]) -> Value:
    """A value with other pieces, those inside of others too; `change` gives None for what stays, or is looked into."""

    def one(piece: Piece) -> Value:
        new = change(piece)
        if new is not None:
            return new
        if isinstance(piece, Items):
            return (Items(tuple(map(every, piece.values)), piece.order),)
        if isinstance(piece, Mapped):
            return (Mapped(tuple((key, every(inside)) for key, inside in piece.pairs)),)
        if isinstance(piece, Message):
            return (replace(piece, content=every(piece.content)),)
        if isinstance(piece, Either):
            return (Either(tuple(map(every, piece.branches))),)
        if isinstance(piece, Mixed):
            return _mixed(every((piece.order,)), tuple(map(every, piece.parts)), piece)
        return (replace(piece, body=every(piece.body)),) if isinstance(piece, Many) else (piece,)

    def every(inside: Value) -> Value:
        spend(len(inside))
        return tuple(part for piece in inside for part in one(piece))

    return every(value)


_INDENTED = re.compile(r"\n([ \t]*)(?=\S|\Z)")


def dedented(value: Value) -> Value:
    """A text without the white space that all of its written lines begin with, as `textwrap.dedent` leaves it."""
    texts = [text_of(piece) for piece in pieces_of(value) if isinstance(piece, str | Literal)]
    if not texts:
        return value
    first = isinstance(value[0], str | Literal)
    texts[-1] = texts[-1].rstrip(" \t")
    texts[0] = f"\n{texts[0]}" if first else texts[0]
    indents = [found[1] for text in texts for found in _INDENTED.finditer(text)]
    margin = os.path.commonprefix(indents)  # noqa: RUF071 - of white space, character by character
    if not margin:
        return value
    line = f"\n{margin}"

    def change(piece: Piece) -> Value | None:
        if isinstance(piece, str):
            return (piece.replace(line, "\n"),)
        return (replace(piece, text=piece.text.replace(line, "\n")),) if isinstance(piece, Literal) else None

    start = value[0]
    if isinstance(start, str):
        value = (start.removeprefix(margin), *value[1:])
    elif isinstance(start, Literal):
        value = (replace(start, text=start.text.removeprefix(margin)), *value[1:])
    return changed(value, change)


def holes_of(value: Value) -> Value:
    """Only what varies: of a value that code made something else of."""
    found: dict[object, Piece] = {}
    for piece in pieces_of(value):
        if isinstance(piece, Hole):
            if not piece.doubt:
                found.setdefault((piece.kind.key, piece.what), piece)
        elif isinstance(piece, Param):
            found.setdefault(piece.name, Param(piece.name) if piece.hole is not None and piece.hole.doubt else piece)
    return tuple(found.values())[:8]


def placed(value: Value, spot: TemplatePlace, *, held: bool = False) -> Value:
    """Move varying values to the place where they are put; those within text of their own keep their place.

    `held`: a text holds it there, so what callers give is reported there, too.
    """
    if any(isinstance(piece, str | Literal) and text_of(piece).strip() for piece in pieces_of(value)):
        return value

    def change(piece: Piece) -> Value | None:
        if isinstance(piece, Hole):
            return (piece.at(spot),)
        if isinstance(piece, Param):
            hole = None if piece.hole is None else piece.hole.at(spot)
            return (replace(piece, hole=hole, put=spot if held else piece.put),)
        return None

    return changed(value, change)


def places_found(pieces: Value, literal: Literal) -> Value:
    """The pieces of a template that its file does not hold as it reads, each hole where its name is between braces.

    They are looked for in their order; what is not found stays where the template begins.
    """
    source = literal.source
    if source is None:
        return pieces
    at = literal.start

    def change(piece: Piece) -> Value | None:
        nonlocal at
        if not isinstance(piece, Hole) or piece.certain:
            return None
        name = re.compile(r"\{[{%][^{}%\n]{0,80}?\b" + re.escape(piece.what.strip("`")) + r"\b[^{}%\n]{0,80}[}%]\}")
        found = name.search(source.text, at, literal.stop) or name.search(source.text, literal.start, literal.stop)
        if found is None:
            return None
        at = found.start()
        return (replace(piece, spot=source.spot(*found.span())),)

    return changed(pieces, change)
