"""A block of a report as data, without markup: its title, sentences and tables.

A view is a function `view(report) -> Section` in a file of this folder. It escapes nothing: each renderer does that as its format
demands (`terminal/render.py`, `html/page.py`, `markdown/render.py`). A new block is such a file and a line in `order.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from kvtool.text.terminal.numbers import plural

Only = Literal["all", "pages", "terminal"]
"""The formats that show a column or a table; pages are HTML and Markdown."""


@dataclass(frozen=True, slots=True)
class StatusWord:
    """A word that judges; `kind` is one of pass, warn, fail, open, none and chooses its mark and its colour."""

    word: str
    kind: str

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True, slots=True)
class Figure:
    """A cell that shows `text` and is sorted by `value`."""

    text: str
    value: float

    def __str__(self) -> str:
        return self.text


Cell = str | Figure | StatusWord


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column; a terminal shows `short` in place of `head`, where there is one.

    `kind`: `text`, `word` (never broken), `prose` (sentences), `number` (to the right), `code` (a path) or `bar` (a figure from 0
    to 1, which only a terminal draws). In a narrow terminal columns of the lowest `keep` go first (None: it stays), and names of
    a first column with `cut` are cut in their middle.
    """

    head: str
    kind: str = "text"
    short: str = ""
    keep: int | None = None
    only: Only = "all"
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a table; the first cell of each says what the row is about. `more` rows are left out."""

    caption: str
    columns: tuple[TableColumn, ...]
    rows: Sequence[tuple[Cell, ...]]
    more: int = 0
    folded: bool = False
    """Whether it repeats a drawing, and is folded away."""
    sorts: str = ""
    """A plural noun for its rows, where readers may sort and filter them; empty where they may not."""
    notes: tuple[str, ...] = ()
    only: Only = "all"
    titled: bool = False
    """Whether a terminal shows its caption, too."""

    def on_pages(self) -> Table:
        """Return the table with the columns that HTML and Markdown show."""
        kept = [place for place, column in enumerate(self.columns) if column.only != "terminal"]
        if len(kept) == len(self.columns):
            return self
        columns = tuple(self.columns[place] for place in kept)
        return replace(self, columns=columns, rows=[tuple(row[place] for place in kept) for row in self.rows])

    @property
    def left_out(self) -> str:
        """Say how many rows are left out; empty for none."""
        return f"{plural(self.more, 'more row')} in the JSON." if self.more else ""


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a section is empty, and how to fill it: `todo` says it, and `command` does it."""

    text: str
    todo: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A block of a report; `id` is its anchor on a page, unique among the blocks of a report."""

    id: str
    title: str
    lead: tuple[str, ...] = ()
    tables: Sequence[Table] = ()
    settings: Sequence[tuple[str, str]] = ()
    commands: Sequence[tuple[str, str]] = ()
    """What each repeats, and the command."""
    notes: tuple[str, ...] = ()
    missing: Missing | None = None

    def on_pages(self) -> Self:
        """Return the section with the tables and columns that HTML and Markdown show."""
        return replace(self, tables=[table.on_pages() for table in self.tables if table.only != "terminal"])
