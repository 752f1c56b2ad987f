"""A change of a file: a range of its text replaced, everything else left byte for byte."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class FileEdit:
    """Replace characters `[start, stop)` of the file's text (line ends untouched, byte order mark counted) by `replacement`."""

    path: str
    start: int
    stop: int
    replacement: str
