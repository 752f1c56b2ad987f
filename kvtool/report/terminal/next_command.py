"""Commands on lines that a shell can take, and names and places that are shortened to fit a line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from kvtool.text.terminal.console import cell_width, sanitize

_MARGIN = " " * 2
_DEEPER = " " * 4


def shell_lines(command: Sequence[str], width: int, plain: bool) -> list[str]:
    """The command quoted for a shell; what does not fit a line goes on behind a backslash, which leaves the words whole."""
    lines = _broken(command[0], width, plain, _MARGIN)
    for words in _with_values(command[1:]):
        shown = " ".join(_quoted(word, plain) for word in words)
        if cell_width(lines[-1]) + 1 + cell_width(shown) + 2 <= width:
            lines[-1] += f" {shown}"
        elif len(_DEEPER) + cell_width(shown) + 2 <= width:
            lines[-1] += " \\"
            lines.append(_DEEPER + shown)
        else:
            for word in words:
                lines[-1] += " \\"
                lines += _broken(word, width, plain, _DEEPER)
    return lines


def _with_values(words: Sequence[str]) -> list[list[str]]:
    """Words that better stay on one line: a flag and what stands behind it."""
    groups: list[list[str]] = []
    for word in words:
        if groups and len(groups[-1]) == 1 and groups[-1][0].startswith("-") and not word.startswith("-"):
            groups[-1].append(word)
        else:
            groups.append([word])
    return groups


def _broken(word: str, width: int, plain: bool, margin: str) -> list[str]:
    """A word on as many lines as it takes; only the first has a margin, as spaces would part the word."""
    lines: list[str] = []
    while cell_width(margin + _quoted(word, plain)) + 2 > width and len(word) > 1:
        cut = _fitting(word, width - len(margin) - 1, plain)
        lines.append(margin + _quoted(word[:cut], plain) + "\\")
        word, margin = word[cut:], ""
    return [*lines, margin + _quoted(word, plain)]


def _quoted(word: str, plain: bool) -> str:
    return sanitize(shlex.quote(word), ascii_only=plain)


def _fitting(word: str, room: int, plain: bool) -> int:
    """How many characters of a word take at most `room` cells when they are quoted; at least one."""
    cut = 1
    while cut < len(word) - 1 and cell_width(_quoted(word[: cut + 1], plain)) <= room:
        cut += 1
    return cut


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
