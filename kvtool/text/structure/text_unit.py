"""A unit of a text: what stays whole when it is moved, shown or compared."""

from __future__ import annotations

from typing import Literal, NamedTuple

UnitKind = Literal[
    "document",
    "section",
    "element",
    "introduced",
    "quote",
    "list",
    "numbered",
    "item",
    "table",
    "row",
    "fence",
    "data",
    "rows",
    "paragraph",
    "statement",
]
"""What a unit is.

`section`: a heading and what it heads, to the next one of the same or a higher level. `element`: from an opening tag to its closing
one. `introduced`: a line that ends with a colon and the lines, list, table or data after it. `numbered`: a list whose items bear
numbers. `data`: a JSON value, YAML front matter, or lines between brackets. `rows`: lines of a tree of files or of a status.
`statement`: a sentence, or a line that is one.
"""

SEALED: frozenset[UnitKind] = frozenset({"fence", "data", "table", "rows", "quote"})
"""What nothing can be taken out of without tearing it: a part of it says nothing by itself."""


class TextUnit(NamedTuple):
    """Characters `[start, stop)` of a text, no white space at either end but indents; its content begins at `body`.

    What is before `body` is the heading, the introduction, the opening tag or the marker of an item.
    """

    kind: UnitKind
    start: int
    stop: int
    body: int
    children: tuple[TextUnit, ...] = ()

    def holds(self, start: int, stop: int) -> bool:
        """Return whether it holds all of `[start, stop)`."""
        return self.start <= start and stop <= self.stop
