"""Two lines of text, one above the other, with carets under the value that differs."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from kvtool.diff.prompts import Excerpt
from kvtool.text.redact import redact_marked
from kvtool.text.terminal.console import ascii_only, cell_width, escape, is_plain, is_visible, put, shorten

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_PLAIN_WINDOW = 240
"""Characters of a line around the difference, where there are no columns to fill."""
_LOOKED_AT = 4_096
"""Differences of a line, and characters of each, that are looked at."""
_CARETS = "      | "
_STYLES = {"a": "red", "b": "green"}


def redacted(side: Excerpt) -> Excerpt:
    """Return a line with marks in place of what looks secret."""
    if side.text is None:
        return side
    text, start, stop = redact_marked(side.text, *side.value)
    spans = tuple(redact_marked(side.text, *span)[1:] for span in side.spans)
    return Excerpt(text, spans, (start, stop))


def print_excerpt(console: Console, a: Excerpt, b: Excerpt, note: str = "") -> None:
    """Print the lines `a | …` and `b | …` with carets; a plain console gets them without, and the note on a line of its own."""
    plain = ascii_only(console)
    if not is_plain(console):
        for line in excerpt(a, b, note, console.width, plain):
            put(console, line)
        return
    for line in excerpt(a, b, "", _PLAIN_WINDOW, plain):
        if not line.plain.startswith(_CARETS):
            put(console, line.plain)
    if note:
        put(console, note)


def excerpt(a: Excerpt, b: Excerpt, note: str, width: int, plain: bool) -> list[Text]:
    """The lines `a | …`, `b | …` and the carets, no wider than `width`, with `note` behind the last carets.

    Long lines are cut to a window around the first difference, the same in both. Differing characters that would not be seen, and
    characters that a terminal would not draw, are shown as escapes.
    """
    from rich.text import Text

    room = max(width - 9, 8)
    hidden = _hidden_lines(a, b)
    lead = a if a.text is not None else b
    first = min(
        (start for side in (a, b) if side.text is not None for start, _ in (*side.spans, side.value)), default=0
    )
    fits = all(side.text is None or _fits(side.text, room, plain) for side in (a, b))
    start = 0 if fits else _window_start(lead.text or "", first, room, plain)
    shown: list[tuple[str, Text | None, str]] = []
    for side, name in ((a, "a"), (b, "b")):
        if side.text is None:
            shown.append((name, None, ""))
            continue
        pieces, carets = _side(side, name, start, room, hidden, plain)
        shown.append((name, pieces, carets))
    lines: list[Text] = []
    (_, _, carets_a), (_, _, carets_b) = shown
    common = carets_a == carets_b
    for name, body, carets in shown:
        line = Text().append(f"    {name} | ", "dim")
        if body is None:
            line.append("(no such line)", "dim italic")
        else:
            line.append_text(body)
        lines.append(line)
        if carets and not (common and name == "a"):
            lines.append(Text().append(_CARETS, "dim").append(carets, "bold yellow"))
    if not note:
        return lines
    if lines and lines[-1].plain.startswith(_CARETS) and cell_width(lines[-1].plain) + 3 + len(note) <= width:
        lines[-1].append(f"   {note}", "dim")
    else:
        lines.append(Text().append(_CARETS, "dim").append(shorten(note, room, ascii_only=plain), "dim"))
    return lines


def _hidden_lines(a: Excerpt, b: Excerpt) -> bool:
    """Return whether the differing characters look the same: only space, or one text in two Unicode forms or scripts."""
    changed_a, changed_b = (
        "".join((side.text or "")[start : min(stop, start + _LOOKED_AT)] for start, stop in side.spans[:_LOOKED_AT])
        for side in (a, b)
    )
    if not (changed_a + changed_b).strip():
        return True
    if _skeleton(changed_a) == _skeleton(changed_b):
        return True
    return len(changed_a) == len(changed_b) <= 2 and _scripts(changed_a) != _scripts(changed_b)


def _skeleton(text: str) -> str:
    return "".join(
        c
        for c in unicodedata.normalize("NFKC", text)
        if is_visible(c) and not c.isspace() and not unicodedata.combining(c)
    )


def _scripts(text: str) -> set[str]:
    """The scripts of letters, as the first words of their names: LATIN, CYRILLIC."""
    return {unicodedata.name(c, "?").split(" ")[0] for c in text if c.isalpha()}


def _piece(char: str, hidden: bool, plain: bool) -> str:
    if hidden and (char.isspace() or not char.isascii()):
        return escape(char)
    if char.isascii():
        return char if char.isprintable() else escape(char)
    return char if is_visible(char) and not plain else escape(char)


def _fits(text: str, room: int, plain: bool) -> bool:
    return len(text) <= room * 4 and cell_width("".join(_piece(c, False, plain) for c in text)) <= room


def _window_start(text: str, first: int, room: int, plain: bool) -> int:
    """The first character to show so that the difference stands in the left half of the window."""
    budget, at = room // 2, min(first, len(text))
    while at > 0:
        budget -= cell_width(_piece(text[at - 1], False, plain))
        if budget < 0:
            break
        at -= 1
    return at


def _side(side: Excerpt, name: str, start: int, room: int, hidden: bool, plain: bool) -> tuple[Text, str]:
    """The visible part of a line and the carets under it."""
    from rich.text import Text

    cut = "..." if plain else "…"
    text = side.text or ""
    body, carets = Text(), ""
    if start:
        body.append(cut, "dim")
        carets = " " * len(cut)
    used = len(carets)
    spans = iter(side.spans)
    span = next(spans, None)
    for at in range(start, len(text)):
        while span is not None and span[1] <= at:
            span = next(spans, None)
        differs = span is not None and span[0] <= at
        piece = _piece(text[at], hidden and differs, plain)
        size = cell_width(piece)
        last = at + 1 == len(text)
        if used + size > room - (0 if last else len(cut)):
            body.append(cut, "dim")
            break
        body.append(piece, f"bold {_STYLES[name]}" if differs else "")
        carets += ("^" if differs or side.value[0] <= at < side.value[1] else " ") * size
        used += size
    return body, carets.rstrip()
