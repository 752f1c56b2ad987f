"""Lines of a listing of files: paths, or names in the branches of a tree, and nothing else."""

from __future__ import annotations

import re

_LINE = re.compile(
    r"[\s\u2502\u251c\u2514\u2500|`+*\u2022-]{0,40}(?:\.{0,2}/)?[\w.@+~-]{1,80}(?:[/\\][\w.@+~-]{1,80}){0,12}[/\\]?"
    r"(?:\s{1,4}(?:\([^()\n]{1,40}\)|\d[\d.,]{0,12}\s?[KMG]?i?B?))?"
)
"""With the size or the date that some listings put behind."""
_TELLING = re.compile(r"[/\\]|[\w)]\.[A-Za-z][\w]{0,7}\b|[\u251c\u2514\u2502]")
_MOST_LINES = 400
_LONGEST = 400


def lists_files(text: str) -> bool:
    """Whether all lines of a text are entries of a listing of files, each with a folder, an ending or a branch in it."""
    lines = [line for line in str.__str__(text).split("\n", _MOST_LINES)[:_MOST_LINES] if line.strip()]
    return bool(lines) and all(
        _TELLING.search(line) is not None and _LINE.fullmatch(line.rstrip()) is not None for line in lines
    )


def in_file_list(text: str, at: int) -> bool:
    """Whether the line of a place is an entry of a listing of files, and the one before or behind it another."""
    plain = str.__str__(text)
    start, stop = plain.rfind("\n", 0, at) + 1, plain.find("\n", at)
    stop = len(plain) if stop < 0 else stop
    if stop - start > _LONGEST or not lists_files(plain[start:stop]):
        return False
    above = plain[max(plain.rfind("\n", 0, max(start - 1, 0)) + 1, start - _LONGEST) : max(start - 1, 0)]
    below = plain[stop + 1 : stop + 1 + _LONGEST].partition("\n")[0]
    return lists_files(above) or lists_files(below)
