"""Shapes: what the uses of a variable in templates say about its values."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

Hint = Literal[
    "text",
    "number",
    "bool",
    "list",
    "object",
    "date",
    "maybe text",
    "maybe number",
    "maybe bool",
    "shown",
    "tested",
    "added",
    "keyed",
    "iterated",
]
"""Kinds that a use needs, or only suggests; and uses: printed, tested for truth, added to a value of the same kind, asked for a key
that is no constant, all keys asked for."""
Kind = Literal["function", "list", "tuple", "object", "date", "number", "bool", "text"]

TEXT_METHODS = frozenset(name for name in dir(str) if not name.startswith("_"))
LIST_METHODS = frozenset(name for name in dir(list) if not name.startswith("_"))
MAPPING_METHODS = frozenset(name for name in dir(dict) if not name.startswith("_"))
_DATE_NAMES = frozenset(name for name in dir(datetime) if not name.startswith("_"))
_DATE_METHODS = _DATE_NAMES - TEXT_METHODS - {"min", "max", "year", "month", "day", "hour", "minute", "second"}


class ValueShape:
    """A value that templates use. Shapes of one value are unified: each then stands for all of them."""

    __slots__ = (
        "_same",
        "called",
        "fields",
        "hints",
        "item",
        "least",
        "lengths",
        "literal",
        "numbers",
        "positions",
        "result",
        "texts",
        "value",
    )

    def __init__(self, *hints: Hint) -> None:
        self._same: ValueShape | None = None
        self.hints: set[Hint] = set(hints)
        self.fields: dict[str, ValueShape] = {}
        self.called: set[str] = set()
        """Fields that are called."""
        self.item: ValueShape | None = None
        """Any item of a list."""
        self.positions: dict[int, ValueShape] = {}
        """Items of a tuple that is unpacked."""
        self.value: ValueShape | None = None
        """The value of a key that no template names."""
        self.result: ValueShape | None = None
        self.texts: list[str] = []
        self.numbers: list[float] = []
        self.lengths: list[float] = []
        """Constants that it is compared with, and that its length is."""
        self.least = 0
        """Items that a list must have."""
        self.literal: list[str] | None = None
        """All keys of a mapping that a template writes."""

    @property
    def root(self) -> ValueShape:
        shape = self
        while shape._same is not None:
            if shape._same._same is not None:
                shape._same = shape._same._same
            shape = shape._same
        return shape

    def hint(self, *hints: Hint) -> ValueShape:
        self.root.hints.update(hints)
        return self

    def field(self, name: str) -> ValueShape:
        return self.root.fields.setdefault(name, ValueShape())

    def element(self) -> ValueShape:
        """Return the shape of its items."""
        root = self.root
        if root.item is None:
            root.item = ValueShape()
        return root.item

    def position(self, number: int) -> ValueShape:
        return self.root.positions.setdefault(number, ValueShape())

    def any_value(self) -> ValueShape:
        root = self.root
        if root.value is None:
            root.value = ValueShape()
        return root.value

    def returned(self) -> ValueShape:
        root = self.root
        if root.result is None:
            root.result = ValueShape()
        return root.result

    def at_path(self, path: str) -> ValueShape:
        """Return the shape of `a.b.0`, as filters name attributes."""
        shape = self
        for step in path.split("."):
            shape = shape.element() if step.isdigit() else shape.field(step)
        return shape

    def is_structured(self) -> bool:
        """Return whether a text cannot be this value."""
        root = self.root
        return bool(root.fields or root.positions or root.item or root.value or root.result)

    def kind(self) -> Kind:
        """Return the kind of value that all uses allow, as far as there is one."""
        root = self.root
        names, hints = set(root.fields), root.hints
        if root.result is not None:
            return "function"
        if names <= _DATE_NAMES and (root.called & _DATE_METHODS or "date" in hints):
            return "date"
        if names and names <= root.called and names <= TEXT_METHODS and root.item is None and not root.value:
            return "text"
        if root.item is not None and (root.item.is_structured() or not (names - LIST_METHODS or root.value)):
            return "list"
        if root.positions:
            return "tuple"
        if names and names <= root.called and names <= LIST_METHODS:
            return "list"
        if names or root.value is not None or "object" in hints:
            return "object"
        if "list" in hints:
            return "list"
        return self._kind_of_scalar(hints)

    def _kind_of_scalar(self, hints: set[Hint]) -> Kind:
        root = self.root
        if "text" in hints or root.texts:
            return "text"
        if "number" in hints or root.numbers:
            return "number"
        if "bool" in hints:
            return "bool"
        if "added" in hints and "maybe number" not in hints:
            return "text"
        if "maybe text" in hints:
            return "text"
        if "maybe number" in hints:
            return "number"
        return "bool" if hints & {"maybe bool", "tested"} and "shown" not in hints else "text"


def unify(*shapes: ValueShape) -> ValueShape:
    """Say that these are the same value; returns one of them."""
    waiting = [(shapes[0], other) for other in shapes[1:]]
    while waiting:
        kept, gone = (shape.root for shape in waiting.pop())
        if kept is gone:
            continue
        gone._same = kept
        kept.hints |= gone.hints
        kept.called |= gone.called
        kept.texts += gone.texts
        kept.numbers += gone.numbers
        kept.lengths += gone.lengths
        kept.least = max(kept.least, gone.least)
        kept.literal = kept.literal if gone.literal is None else gone.literal
        for key, shape in gone.fields.items():
            if (mine := kept.fields.setdefault(key, shape)) is not shape:
                waiting.append((mine, shape))
        for number, shape in gone.positions.items():
            if (mine := kept.positions.setdefault(number, shape)) is not shape:
                waiting.append((mine, shape))
        for name in ("item", "value", "result"):
            mine, other = getattr(kept, name), getattr(gone, name)
            if mine is not None and other is not None:
                waiting.append((mine, other))
            elif other is not None:
                setattr(kept, name, other)
    return shapes[0].root
