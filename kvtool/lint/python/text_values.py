"""Values of texts that Python code builds, before they are prompts.

A value is a tuple of pieces. Text is `str` (it will not be filled any more) or `Literal` (it may be), what varies is a `Hole`;
a `Param` means what a caller gives. Lists, mappings, functions, objects and paths carry others. Nothing known: `()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kvtool.lint.python.work_budget import spend
from kvtool.lint.skeleton import Hole, TemplatePlace
from kvtool.text.cache_marks import CACHE_MARKS

if TYPE_CHECKING:
    import ast

    from kvtool.lint.passed_values import Constant, SentTools
    from kvtool.lint.python.module import ClassCode, FunctionCode
    from kvtool.lint.python.python_source import PythonSource

MOST_PIECES = 400
MOST_INSIDE = 600
"""Pieces in a value, with those inside of others, from which on no other is joined to it: what is joined often doubles."""
MESSAGE_KEYS = ("content", "text", "parts")
MARKS = frozenset(CACHE_MARKS) | {"cacheControl"}
"""Keys of cache breakpoints."""


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A string constant: its text, and the source range it is written in, where placeholders are looked up.

    `shown`: it is an example, whose placeholders a model is to see. `imported`: it is written in another file, which is where
    its placeholders are reported.
    """

    text: str
    start: int = 0
    stop: int = 0
    source: PythonSource | None = None
    shown: bool = False
    imported: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """A value that a caller gives; `hole` is what its name says where no caller is known, `template` the text that it
    means where a caller gives nothing, `declared` its annotation,
    `put` where a text holds it, `filled` what is made of a template that is given. One of a constructor, to all methods:
    `self.name`."""

    name: str
    hole: Hole | None = None
    template: tuple[Any, ...] = ()
    declared: ast.expr | None = None
    put: TemplatePlace | None = None
    filled: Callable[[Value], Value] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The elements of a collection, as far as they are known; `order` where going over it gives another order each time."""

    values: tuple[Value, ...]
    order: Hole | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """A mapping with known keys."""

    pairs: tuple[tuple[str, Value], ...]
    _last: dict[str, Value] = field(default_factory=dict, init=False, repr=False)
    """The last value of each key, once it was asked for."""

    def get(self, key: str) -> Value | None:
        if self.pairs and not self._last:
            self._last.update(self.pairs)
        return self._last.get(key)


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A chat message: it is a part of a prompt, whoever sends it."""

    role: str
    content: Value


@dataclass(frozen=True, slots=True, eq=False)
class Callee:
    """A function as a value, with arguments that are bound."""

    function: FunctionCode
    owner: ClassCode | None = None
    bound: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """An object of a class of the same module, with what it was made with."""

    cls: ClassCode
    given: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class FilePath:
    """A path, a file that was opened, or what is in it; `given`: callers give all of the path.

    `name` is that of a template, as code asks its loader for it, `made` what it is made of where callers give a part of it.
    """

    given: bool = False
    name: str = ""
    made: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class RenderCall:
    """A template file that a function fills, where callers give its name or values.

    `values`: what the function passes itself, by name; `mappings`: what it unpacks. `keywords`: it passes on all further keywords.
    """

    name: Value
    values: tuple[tuple[str, Value], ...]
    mappings: tuple[Value, ...]
    constants: tuple[tuple[str, Constant], ...]
    settled: tuple[str, ...]
    keywords: bool


@dataclass(frozen=True, slots=True, eq=False)
class SentChat:
    """A chat that a function sends, where callers give texts of it; `api_call` is where the API is called."""

    messages: tuple[tuple[str, Value], ...]
    tools: SentTools | None = None
    automatic: bool = False
    api_call: TemplatePlace | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Either:
    """One of several values."""

    branches: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Many:
    """A value any number of times, with a text between them."""

    body: Value
    between: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """A text of the elements of a collection in another order each time, with a text between them."""

    order: Hole
    parts: tuple[Value, ...]
    between: str


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """A value in a text of which nothing is known but its name and its place: only copies of prompts have it."""

    hole: Hole


Piece = (
    str
    | Literal
    | Hole
    | Param
    | Items
    | Mapped
    | Message
    | Callee
    | Instance
    | FilePath
    | Either
    | Many
    | Mixed
    | Unknown
)
Value = tuple[Piece, ...]


def spread_out(value: Value) -> Value:
    """The pieces of the elements of lists, one after the other."""
    return tuple(part for piece in value for part in (sum(piece.values, ()) if isinstance(piece, Items) else (piece,)))


def data_of(value: Value) -> object | None:
    """Return a value as data: texts, lists in a fixed order, and mappings of these; None where not all of it is known."""
    one = value[0] if len(value) == 1 else None
    inside: dict[str, object | None] | list[object | None]
    if isinstance(one, Mapped):
        inside = {key: data_of(each) for key, each in one.pairs}
        return None if None in inside.values() else inside
    if isinstance(one, Items) and one.order is None:
        inside = [data_of(each) for each in one.values]
        return None if None in inside else inside
    texts = [text_of(piece) for piece in value if isinstance(piece, str | Literal)]
    return "".join(texts) if value and len(texts) == len(value) else None


def cut(pieces: Iterable[Piece]) -> Value:
    """At most so many pieces that copying them stays cheap."""
    result: list[Piece] = []
    for piece in pieces:
        if piece != "":
            result.append(piece)
        if len(result) >= MOST_PIECES:
            break
    spend(len(result))
    return tuple(result)


def either(*values: Value) -> Value:
    """One of these; what they begin with alike is before. A list that only grew is the longer one."""
    known = list(dict.fromkeys(map(_Same, values)))
    if len(known) == 1:
        return known[0].value
    first, *others = (one.value for one in known)
    result = first
    for other in others:
        result = _joined(result, other)
    return result


class _Same:
    """A value that equals another with the same pieces."""

    __slots__ = ("_key", "value")

    def __init__(self, value: Value) -> None:
        self.value = value
        self._key = tuple(map(id, value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _joined(first: Value, second: Value) -> Value:
    if sum(1 for _ in pieces_of(first, MOST_INSIDE)) + sum(1 for _ in pieces_of(second, MOST_INSIDE)) >= MOST_INSIDE:
        return max(first, second, key=len)
    same = 0
    while same < min(len(first), len(second)) and first[same] is second[same]:
        same += 1
    one, two = first[same:], second[same:]
    if not one and not two:
        return first
    if len(one) == len(two) == 1 and isinstance(one[0], Items) and isinstance(two[0], Items):
        left, right = one[0], two[0]
        longer = max(left, right, key=lambda items: len(items.values))
        return (*first[:same], replace(longer, order=left.order or right.order))
    if not same and (not one or not two) and any(isinstance(piece, Items | Mapped | Message) for piece in one or two):
        return one or two
    return (*first[:same], Either((one, two)))


def inner(piece: Piece) -> tuple[Value, ...]:
    """The values inside of a piece."""
    if isinstance(piece, Items):
        return piece.values
    if isinstance(piece, Mapped):
        return tuple(value for _, value in piece.pairs)
    if isinstance(piece, Message):
        return (piece.content,)
    if isinstance(piece, Either):
        return piece.branches
    if isinstance(piece, Mixed):
        return ((piece.order,), *piece.parts)
    return (piece.body,) if isinstance(piece, Many) else ()


def pieces_of(value: Value, most: int = 2_000) -> Iterator[Piece]:
    """All pieces, those inside of others too, in order."""
    waiting: list[Piece] = list(reversed(value))
    while waiting and most:
        most -= 1
        spend()
        piece = waiting.pop()
        yield piece
        for one in reversed(inner(piece)):
            waiting += reversed(one)


def ways(value: Value) -> list[Piece]:
    """The pieces of a value, and those of which it is one, or which it repeats."""
    return [one for piece in value for one in _parts(piece)]


def _parts(piece: Piece) -> Value:
    if isinstance(piece, Either):
        return sum(piece.branches, ())
    return piece.body if isinstance(piece, Many) else (piece,)


def has_param(value: Value) -> bool:
    return any(isinstance(piece, Param) for piece in pieces_of(value))


_LEAST_TEMPLATE = 120


def has_fields(value: Value) -> bool:
    """Return whether there is a longer text in it that may be a template."""
    written, marked = 0, False
    for piece in pieces_of(value):
        if isinstance(piece, str | Literal):
            written += len(text_of(piece))
            marked = marked or (isinstance(piece, Literal) and ("{" in piece.text or "%(" in piece.text))
    return marked and written >= _LEAST_TEMPLATE


def varies(value: Value) -> bool:
    """Return whether anything in it may be reported."""
    for piece in pieces_of(value):
        if isinstance(piece, Hole | Callee):
            return True
        if isinstance(piece, Param) and piece.hole is not None:
            return True
        if isinstance(piece, Items) and piece.order is not None:
            return True
    return False


def text_of(piece: str | Literal) -> str:
    """The constant text of a piece."""
    return piece if isinstance(piece, str) else piece.text
