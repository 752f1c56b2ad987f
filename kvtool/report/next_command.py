"""The command that a report proposes: the one that was given, with a flag more, on lines that a shell can take."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from kvtool.report.console import cell_width, sanitize


def with_flag(command: Sequence[str], flag: str, value: str | None) -> list[str]:
    """The command with `flag`, which replaces the one it has."""
    kept: list[str] = []
    skip = False
    for argument in command:
        if not skip and argument != flag and not argument.startswith(f"{flag}="):
            kept.append(argument)
        skip = argument == flag and value is not None and not skip
    return [*kept, flag] if value is None else [*kept, flag, value]


def shell_lines(command: Sequence[str], width: int, plain: bool, *, indent: int = 2) -> list[str]:
    """The command quoted for a shell; what does not fit a line goes on behind a backslash, which leaves the words whole."""
    lines = [" " * indent + command[0]]
    for word in command[1:]:
        shown = _quoted(word, plain)
        if cell_width(lines[-1]) + 1 + cell_width(shown) + 2 <= width:
            lines[-1] += f" {shown}"
            continue
        lines[-1] += " \\"
        margin = " " * (indent + 2)
        while cell_width(margin + shown) + 2 > width and len(word) > 1:
            cut = _fitting(word, width - len(margin) - 1, plain)
            lines.append(margin + _quoted(word[:cut], plain) + "\\")
            word, margin = word[cut:], ""  # a margin would part the word
            shown = _quoted(word, plain)
        lines.append(margin + shown)
    return lines


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
