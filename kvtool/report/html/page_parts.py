"""What the page is made of: sections with text, drawings and tables, as data for the template."""

from __future__ import annotations

from dataclasses import dataclass, field

from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class StatusWord:
    """A word that judges; `kind` is one of pass, warn, fail, open, none and chooses its mark and its colour."""

    word: str
    kind: str


@dataclass(frozen=True, slots=True)
class TableColumn:
    """`kind`: `text`, `word` (never broken), `prose` (sentences), `number` (to the right) or `code` (a path, in fixed width)."""

    head: str
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class Figure:
    """A cell that shows `text` and is sorted by `value`."""

    text: str
    value: float

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a table; the first cell of each says what the row is about. `more` rows are left out."""

    caption: str
    columns: tuple[TableColumn, ...]
    rows: list[tuple[object, ...]]
    more: int = 0
    folded: bool = False
    """Whether it is what a drawing shows, to be opened where it is wanted."""
    sorts: str = ""
    """What its rows are, in a plural word, where readers may sort and filter them; empty where they may not."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend: a swatch, its name, and a figure or a sentence that goes with it."""

    swatch: Markup
    name: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG image. `caption` and `figures` stand above it as text that wraps; `name` is what it shows, in a word or two."""

    svg: Markup
    caption: str = ""
    figures: tuple[str, ...] = ()
    status: StatusWord | None = None
    wide: bool = False
    """Whether it takes the whole width where others stand beside each other."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a section is empty, and the command that fills it."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """`layout` is a class of the style sheet: how drawings stand beside each other."""

    id: str
    title: str
    lead: tuple[str, ...] = ()
    drawings: list[Drawing] = field(default_factory=list)
    layout: str = "single"
    keys: list[Key] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    settings: list[tuple[str, str]] = field(default_factory=list)
    commands: list[tuple[str, str]] = field(default_factory=list)
    """What each gives again, and the command."""
    notes: tuple[str, ...] = ()
    missing: Missing | None = None
