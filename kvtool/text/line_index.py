"""Index of the lines of a text: found once, for all places that are asked for."""

from __future__ import annotations

import re
from bisect import bisect_right

ANY_BREAK = re.compile(r"\r\n|\n|\r")
"""The line ends of YAML and JSON."""
_NEWLINE = re.compile("\n")


class LineIndex:
    """The lines of a text, counted from 1; each place is found in the logarithm of their number."""

    def __init__(self, text: str, breaks: re.Pattern[str] = _NEWLINE) -> None:
        self.text = text
        self._starts = [0, *(found.end() for found in breaks.finditer(text))]

    def __len__(self) -> int:
        return len(self._starts)

    def number(self, offset: int) -> int:
        """The line of a character."""
        return bisect_right(self._starts, offset)

    def position(self, offset: int) -> tuple[int, int]:
        """The line and the column of a character."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def start(self, line: int) -> int:
        """Return the offset of a line; after the last one, the end of the text."""
        return self._starts[line - 1] if line <= len(self._starts) else len(self.text)

    def content(self, line: int) -> str:
        """A line with its line end; empty past the last one."""
        return str.__getitem__(self.text, slice(self.start(line), self.start(line + 1)))
