"""What is known of a text that Python code builds, before it is a prompt.

A value is a tuple of pieces. Text is `str` (it will not be filled any more) or `Literal` (it may be), what varies is a `Hole`;
a `Param` stands for what a caller gives. Lists, mappings, functions, objects and paths carry others. Nothing known: `()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kvtool.lint.skeleton import Hole, TemplatePlace
from kvtool.lint.work_budget import spend

if TYPE_CHECKING:
    import ast

    from kvtool.lint.python_package import ClassCode, FunctionCode
    from kvtool.lint.python_source import PythonSource

MOST_PIECES = 400
MOST_INSIDE = 600
"""Pieces in a value, with those inside of others, from which on no other is joined to it: what is joined often doubles."""
_SYSTEM = ("system", "developer")
MESSAGE_KEYS = ("content", "text", "parts")


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A string constant: its text, and the source range it is written in, where placeholders are looked up (None: a text file).

    `told`: a file that it is written in tells what varies in it; otherwise the one that fills it does. `shown`: it is an example,
    whose placeholders a model is to see.
    """

    text: str
    start: int = 0
    stop: int = 0
    source: PythonSource | None = None
    told: bool = True
    shown: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """What a caller gives for a parameter; `hole` is what its name says where no caller is known, `template` the text that it
    stands for where a caller gives nothing, `declared` its annotation. One of a constructor, to all methods: `self.name`."""

    name: str
    hole: Hole | None = None
    template: tuple[Any, ...] = ()
    declared: ast.expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The elements of a collection, as far as they are known; `order` where going over it gives another order each time."""

    values: tuple[Value, ...]
    order: Hole | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """A mapping with known keys."""

    pairs: tuple[tuple[str, Value], ...]

    def get(self, key: str) -> Value | None:
        return next((value for name, value in reversed(self.pairs) if name == key), None)


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
    """An object of a class of the same program, with what it was made with."""

    cls: ClassCode
    given: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class FilePath:
    """A path, as far as constants and what callers give say it: `prompts/system.md`."""

    parts: tuple[Value, ...]

    def written(self) -> tuple[str, ...] | None:
        """Its parts; None where callers give one of them."""
        if not all(isinstance(piece, str | Literal) for part in self.parts for piece in part):
            return None
        return tuple(
            "".join(text_of(piece) for piece in part if isinstance(piece, str | Literal)) for part in self.parts
        )


@dataclass(frozen=True, slots=True, eq=False)
class FileText:
    """The text of a file whose path callers give; `read` gives it."""

    path: FilePath
    read: Callable[[tuple[str, ...]], str | None]

    def text(self) -> Value:
        """The text itself, once its path is known; nothing where there is none."""
        written = self.path.written()
        if written is None:
            return (self,)
        text = self.read(written)
        return (Literal(text),) if text else ()


@dataclass(frozen=True, slots=True, eq=False)
class Either:
    """One of several values."""

    branches: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Many:
    """A value any number of times."""

    body: Value


Piece = (
    str | Literal | Hole | Param | Items | Mapped | Message | Callee | Instance | FilePath | FileText | Either | Many
)
Value = tuple[Piece, ...]


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
    """One of these; what they begin with alike stands before. A list that only grew is the longer one."""
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
            result += given(piece)
        elif isinstance(piece, Hole):
            result.append(piece if made is None else replace(piece, made=made))
        elif isinstance(piece, Items):
            result.append(replace(piece, values=tuple(map(inside, piece.values))))
        elif isinstance(piece, Mapped):
            result.append(Mapped(tuple((key, inside(one)) for key, one in piece.pairs)))
        elif isinstance(piece, Message):
            result.append(replace(piece, content=inside(piece.content)))
        elif isinstance(piece, Either):
            result.append(Either(tuple(map(inside, piece.branches))))
        elif isinstance(piece, Many):
            result.append(Many(inside(piece.body)))
        elif isinstance(piece, FilePath):
            result.append(FilePath(tuple(map(inside, piece.parts))))
        elif isinstance(piece, FileText):
            result += FileText(FilePath(tuple(map(inside, piece.path.parts))), piece.read).text()
        else:
            result.append(piece)
    return cut(result)


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


def has_param(value: Value) -> bool:
    return any(isinstance(piece, Param) for piece in pieces_of(value))


_LEAST_TEMPLATE = 120


def has_fields(value: Value) -> bool:
    """Whether there is a longer text in it that may be a template."""
    written, marked = 0, False
    for piece in pieces_of(value):
        if isinstance(piece, str | Literal):
            written += len(text_of(piece))
            marked = marked or (isinstance(piece, Literal) and ("{" in piece.text or "%(" in piece.text))
    return marked and written >= _LEAST_TEMPLATE


def with_hole(value: Value, hole: Hole | None) -> Value:
    """What callers give, with what is known of it where it is put; all else stays."""
    if hole is None:
        return value
    return tuple(
        replace(piece, hole=hole)
        if isinstance(piece, Param) and piece.hole is None
        else Either(tuple(with_hole(one, hole) for one in piece.branches))
        if isinstance(piece, Either)
        else piece
        for piece in value
    )


def is_given(value: Value) -> bool:
    """Whether it is what callers give, and nothing else: or a constant where they give nothing."""
    return all(
        isinstance(piece, Param)
        or (
            isinstance(piece, Either)
            and any(one and is_given(one) for one in piece.branches)
            and not any(isinstance(one, Hole | Items | Mapped) for branch in piece.branches for one in branch)
        )
        for piece in value
    )


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
        return (Many(every(piece.body)),) if isinstance(piece, Many) else (piece,)

    def every(inside: Value) -> Value:
        spend(len(inside))
        return tuple(part for piece in inside for part in one(piece))

    return every(value)


def varies(value: Value) -> bool:
    """Whether anything in it may be told."""
    for piece in pieces_of(value):
        if isinstance(piece, Hole | Callee):
            return True
        if isinstance(piece, Param) and piece.hole is not None:
            return True
        if isinstance(piece, Items) and piece.order is not None:
            return True
    return False


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


def placed(value: Value, spot: TemplatePlace, *, foreign_to: str = "") -> Value:
    """What varies, told at the place where it is put; what stands within text of its own keeps its place.

    `foreign_to` is a file: what was found in another is told here, whatever stands around it.
    """
    if not foreign_to and any(
        isinstance(piece, str | Literal) and text_of(piece).strip() for piece in pieces_of(value)
    ):
        return value

    def change(piece: Piece) -> Value | None:
        if isinstance(piece, Hole):
            return (piece if foreign_to and piece.spot.path == foreign_to else piece.at(spot),)
        if isinstance(piece, Param) and piece.hole is not None:
            return (replace(piece, hole=None if foreign_to else piece.hole.at(spot)),)
        if isinstance(piece, Items) and piece.order is not None and foreign_to:
            inside = tuple(placed(one, spot, foreign_to=foreign_to) for one in piece.values)
            return (Items(inside, piece.order.at(spot)),)
        return None

    return changed(value, change)


def text_of(piece: str | Literal) -> str:
    """The constant text of a piece."""
    return piece if isinstance(piece, str) else piece.text
