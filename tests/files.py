"""Files for tests to work on."""

from __future__ import annotations

import shlex
from pathlib import Path

from kvtool.text.terminal.console import cell_width


def write(path: str, text: str | bytes) -> str:
    """Write a file, with its folders; returns its path."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def widest(shown: str) -> int:
    """Return the cells of the widest line. A word of a command is never broken, so lines of a single word do not count."""
    lines = (line for line in shown.splitlines() if len(_words(line.removesuffix(" \\"))) > 1)
    return max(map(cell_width, lines), default=0)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # prose with an apostrophe
        return line.split()
