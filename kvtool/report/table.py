"""Tables whose numbers, codes and paths are never cut: columns go, then prose shrinks, then rows stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvtool.report.console import cell_width, shorten

_MIN_PROSE = 8


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `align` is `<` or `>`; `keep` None stays at any width, else columns of the lowest `keep` go first.

    Only a `prose` column may be shortened.
    """

    title: str
    align: str = ">"
    keep: int | None = None
    prose: bool = False


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    indent: int = 2,
    gap: int = 2,
    ascii_only: bool = False,
) -> list[str]:
    """Header and rows as lines of at most `width` cells. Cells must be safe to show already (`sanitize`)."""
    shown = list(range(len(columns)))
    while True:
        sizes = {c: max(cell_width(text) for text in (columns[c].title, *(row[c] for row in rows))) for c in shown}
        excess = indent + sum(sizes.values()) + gap * (len(shown) - 1) - width
        optional = [(keep, c) for c in shown if (keep := columns[c].keep) is not None]
        if excess <= 0 or not optional:
            break
        shown.remove(min(optional, key=lambda pair: (pair[0], -pair[1]))[1])
    for c in (c for c in shown if columns[c].prose and excess > 0):
        shrunk = max(sizes[c] - excess, min(_MIN_PROSE, sizes[c]), cell_width(columns[c].title))
        excess -= sizes[c] - shrunk
        sizes[c] = shrunk
    if excess > 0:
        return _stacked(columns, rows, shown, indent)

    def line(cells: Sequence[str]) -> str:
        parts: list[str] = []
        for c in shown:
            text = shorten(cells[c], sizes[c], ascii_only=ascii_only) if columns[c].prose else cells[c]
            padding = " " * (sizes[c] - cell_width(text))
            parts.append(padding + text if columns[c].align == ">" else text + padding)
        return (" " * indent + (" " * gap).join(parts)).rstrip()

    return [line([column.title for column in columns]), *(line(row) for row in rows)]


def room_for_first(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, *, indent: int = 2, gap: int = 2
) -> int:
    """The cells that the first column may take for a table of all these columns to fit; it may be negative."""
    sizes = [max(cell_width(text) for text in (c.title, *(row[at] for row in rows))) for at, c in enumerate(columns)]
    return width - indent - sum(sizes[1:]) - gap * (len(columns) - 1)


def _stacked(columns: Sequence[Column], rows: Sequence[Sequence[str]], shown: Sequence[int], indent: int) -> list[str]:
    """Every row as lines `title value`, the first column as the heading of its block."""
    first, *rest = shown
    size = max((cell_width(columns[c].title) for c in rest), default=0)
    lines: list[str] = []
    for row in rows:
        lines.append(" " * indent + row[first])
        lines += [
            " " * (indent + 2) + columns[c].title + " " * (size - cell_width(columns[c].title) + 2) + row[c]
            for c in rest
            if row[c]
        ]
    return lines
