"""Tables whose numbers, codes and paths are never cut: columns go, then prose shrinks, then rows stack.

On a plain console (`--plain`) a row is one line, `Group support: reqs 400; hit 39.4%`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtool.text.terminal.console import UNBOUNDED, ascii_only, cell_width, fold, is_plain, put, shorten

if TYPE_CHECKING:
    from rich.console import Console

_MIN_PROSE = 8
_FOLDED = 24
"""Cells of a last column of prose from which on it is folded and not cut: about four words a line."""
_MOST_LINES = 4
_INDENT = 2
_GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `align` is `<` or `>`; `keep` None stays at any width, else columns of the lowest `keep` go first.

    Only a `prose` column may be shortened; the last one goes on below its row, where it has room. What a `drawing` column shows is
    in the other columns as figures, too.
    """

    title: str
    align: str = ">"
    keep: int | None = None
    prose: bool = False
    drawing: bool = False


def put_table(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a table under a bold header."""
    heading = None if is_plain(console) else "bold"
    for line in table(columns, rows, console.width, ascii_only=ascii_only(console)):
        put(console, line, heading)
        heading = None


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    indent: int = _INDENT,
    ascii_only: bool = False,
) -> list[str]:
    """Header and rows as lines of at most `width` cells; records where that is `UNBOUNDED`.

    Cells must be safe to show already (`sanitize`).
    """
    if width >= UNBOUNDED:
        return [_record(columns, row) for row in rows]
    sizes, excess = _shown_sizes(columns, rows, width - indent)
    shown = list(sizes)
    if not shown:
        return [""]
    for c in (c for c in shown if columns[c].prose and excess > 0):
        shrunk = max(sizes[c] - excess, min(_MIN_PROSE, sizes[c]), cell_width(columns[c].title))
        excess -= sizes[c] - shrunk
        sizes[c] = shrunk
    if excess > 0:
        return _stacked(columns, rows, shown, width, indent)

    last = shown[-1]
    folds = columns[last].prose and sizes[last] >= _FOLDED

    def lines(cells: Sequence[str]) -> list[str]:
        parts: list[str] = []
        for c in shown:
            room = _MOST_LINES * sizes[c] if folds and c == last else sizes[c]
            text = shorten(cells[c], room, ascii_only=ascii_only) if columns[c].prose else cells[c]
            padding = " " * (sizes[c] - cell_width(text))
            parts.append(padding + text if columns[c].align == ">" else text + padding)
        ahead = " " * indent + "".join(part + " " * _GAP for part in parts[:-1])
        first, *others = fold(parts[-1], sizes[last]) if folds else (parts[-1],)
        return [(ahead + first).rstrip(), *(" " * cell_width(ahead) + each.rstrip() for each in others)]

    return [each for row in ([column.title for column in columns], *rows) for each in lines(row)]


def shown_titles(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> set[str]:
    """Return the titles of the columns that a table of this width has."""
    return {columns[c].title for c in _shown_sizes(columns, rows, width - _INDENT)[0]}


def _shown_sizes(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> tuple[dict[int, int], int]:
    """Return the cells that each column takes which stays, and how many all of them take too many."""
    sizes = {
        c: max(cell_width(text) for text in (col.title, *(row[c] for row in rows))) for c, col in enumerate(columns)
    }
    while True:
        excess = sum(sizes.values()) + _GAP * (len(sizes) - 1) - width
        folds = bool(sizes) and columns[max(sizes)].prose  # the last column, before others go
        spare = max(sizes[max(sizes)] - _FOLDED, 0) if folds else 0
        optional = [(keep, -c) for c in sizes if (keep := columns[c].keep) is not None]
        if excess <= spare or not optional:
            return sizes, excess
        del sizes[-min(optional)[1]]


def _record(columns: Sequence[Column], row: Sequence[str]) -> str:
    """A row in words, without drawings and empty cells."""
    head, *cells = (
        # What is aligned to the right is figures, which may be padded within.
        f"{column.title} {' '.join(cell.split()) if at and column.align == '>' else cell.strip()}".strip()
        for at, (column, cell) in enumerate(zip(columns, row, strict=True))
        if not at or (cell.strip() and not column.drawing)
    )
    return f"{head}: {'; '.join(cells)}" if cells else head


def room_for_first(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> int:
    """The cells that the first column may take for a table of all these columns to fit; it may be negative."""
    sizes = [max(cell_width(text) for text in (c.title, *(row[at] for row in rows))) for at, c in enumerate(columns)]
    return width - _INDENT - sum(sizes[1:]) - _GAP * (len(columns) - 1)


def _stacked(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], shown: Sequence[int], width: int, indent: int
) -> list[str]:
    """Every row as lines `title value`, the first column as the heading of its block, a figure with its title, on as many
    lines as it takes."""
    first, *rest = shown
    size = max((cell_width(columns[c].title) for c in rest), default=0)
    lines: list[str] = []
    for row in rows:
        head = row[first] if columns[first].align == "<" else f"{columns[first].title} {row[first].strip()}"
        lines += fold(" " * indent + head, width, indent=indent + 2)
        for c in rest:
            if row[c]:
                lines += _titled(columns[c].title, row[c], size, width, indent + 2)
    return lines


def _titled(title: str, cell: str, size: int, width: int, indent: int) -> list[str]:
    """A cell after its title, which takes `size` cells where there is room; else close to it, else below it."""
    margin = " " * indent
    aligned = margin + title + " " * (size - cell_width(title) + 2) + cell
    if cell_width(aligned) <= width:
        return [aligned]
    close = f"{margin}{title} {cell.strip()}"
    if cell_width(close) <= width:
        return [close]
    below = fold(margin + "  " + cell.strip(), width, indent=indent + 2)
    return [*fold(margin + title, width, indent=indent), *below]
