"""A unified diff in the terminal, safe to show and no wider than it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvtool.text.terminal.console import cell_width, put, sanitize

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_HEADS = ("+++ ", "--- ")
_TAB = "\t"


def put_patch(console: Console, patch: str, *, plain: bool) -> None:
    """Each line with its sign; what does not fit goes on below, behind the sign again and an ellipsis."""
    for line in patch.split("\n")[:-1]:
        style = "bold" if line.startswith(_HEADS) else _STYLES.get(line[:1])
        head = line.startswith((*_HEADS, "@@", "\\"))
        shown = sanitize(line.rstrip(_TAB) if head else line.expandtabs(), ascii_only=plain)
        for piece in [shown] if head else _pieces(shown, console.width, "... " if plain else "… "):
            put(console, piece, style)


def _pieces(line: str, width: int, mark: str) -> Iterator[str]:
    sign, rest = line[:1], line[1:]
    room = max(width - 1, 8)
    while cell_width(rest) > room:
        cut = used = 0
        while used + cell_width(rest[cut]) <= room:
            used += cell_width(rest[cut])
            cut += 1
        yield sign + rest[:cut]
        sign, rest = line[:1], mark + rest[cut:]
    yield sign + rest
