"""A line of a file with carets under the part in question, as errors and findings show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.text.terminal.console import ascii_only, cell_width, is_plain, put, sanitize
from kvtool.text.terminal.runner_commands import blunt

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def put_marked_line(
    console: Console, label: str, text: str, start: int, width: int, *, first: int, room: int, style: str | None = None
) -> None:
    """Print ``label | text`` from character `first` on, cut to `room` cells, and carets under `text[start:start + width]`.

    `width` 0 asks for no carets; a plain console gets the part in words. Text may be hostile: what a terminal would not draw is
    shown escaped.
    """
    plain = ascii_only(console)
    before = sanitize(text[first:start], ascii_only=plain)
    meant = sanitize(text[start : start + width], ascii_only=plain)
    shown = before + meant + sanitize(text[start + width : start + width + room], ascii_only=plain)
    more = "..." if plain else "…"
    if first:
        before = shown = more + before
        shown += meant + sanitize(text[start + width : start + width + room], ascii_only=plain)
    if cell_width(blunt(shown)) > room or len(text) > start + width + room:
        while shown and cell_width(blunt(shown)) > room - len(more):
            shown = shown[:-1]
        shown += more
    if is_plain(console):
        put(console, f"{label} | {shown}")
        if width:
            put(console, f"marked: {meant}", style)
        return
    put(
        console,
        _styled(
            f"{label} | {shown[: len(before)]}",
            shown[len(before) : len(before + meant)],
            shown[len(before + meant) :],
            style,
        ),
    )
    if width and cell_width(before) < room:
        carets = max(min(cell_width(meant), room - cell_width(before)), 1)
        put(console, _styled(f"{' ' * len(label)} | {' ' * cell_width(before)}", "^" * carets, "", style))


def _styled(before: str, meant: str, behind: str, style: str | None) -> Text:
    """Colour only what the finding is about."""
    from rich.text import Text

    return Text(before).append(meant, style).append(behind)
