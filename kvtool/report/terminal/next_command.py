"""Commands on lines that a shell takes, and names and places shortened to fit a line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from kvtool.text.terminal.console import cell_width, sanitize

_MARGIN = " " * 2
_DEEPER = " " * 4


def shell_lines(command: Sequence[str], width: int, plain: bool) -> list[str]:
    """Quote a command for a shell, with a backslash where a line ends.

    No word is ever broken, so a word that is longer than `width` makes a longer line: a terminal wraps it, and a copy is whole.
    """
    lines = [_MARGIN + _quoted(command[0], plain)]
    for words in _with_values(command[1:]):
        shown = [_quoted(word, plain) for word in words]
        together = " ".join(shown)
        if cell_width(lines[-1]) + 1 + cell_width(together) + 2 <= width:
            lines[-1] += f" {together}"
            continue
        fits = len(_DEEPER) + cell_width(together) + 2 <= width
        for part in [together] if fits else shown:
            lines[-1] += " \\"
            lines.append(_DEEPER + part)
    return lines


def _with_values(words: Sequence[str]) -> list[list[str]]:
    """Return words that stay on one line: a flag and its value."""
    groups: list[list[str]] = []
    for word in words:
        if groups and len(groups[-1]) == 1 and groups[-1][0].startswith("-") and not word.startswith("-"):
            groups[-1].append(word)
        else:
            groups.append([word])
    return groups


def _quoted(word: str, plain: bool) -> str:
    return sanitize(shlex.quote(word), ascii_only=plain)


def shorten_middle(text: str, width: int, *, ascii_only: bool = False) -> str:
    """Text of at most `width` cells that keeps its beginning and its end."""
    if cell_width(text) <= width:
        return text
    mark = "..." if ascii_only else "…"
    room = max(width - cell_width(mark), 0)
    tail = ""
    for char in reversed(text):
        if cell_width(char + tail) > room // 3:
            break
        tail = char + tail
    head = ""
    for char in text:
        if cell_width(head + char) + cell_width(tail) > room:
            break
        head += char
    return head + mark + tail


def shorten_place(place: str, width: int, *, ascii_only: bool = False) -> str:
    """The same for `path:line`, whose line number stays whole."""
    path, colon, line = place.rpartition(":")
    if not colon or not line.isdecimal():
        return shorten_middle(place, width, ascii_only=ascii_only)
    return shorten_middle(path, width - len(colon + line), ascii_only=ascii_only) + colon + line
