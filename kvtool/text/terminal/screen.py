"""A page of a terminal that is drawn again and again, beside what was on it before, which comes back."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kvtool.text.terminal.console import ColorChoice, make_console, wants_color

if TYPE_CHECKING:
    from rich.console import Console

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"


class Screen:
    """The other page of the terminal on standard output, for as long as the block lasts."""

    def __init__(self, color: ColorChoice, width: int | None) -> None:
        import os

        self._stream = sys.stdout
        self._color: ColorChoice = "always" if wants_color(color, self._stream, os.environ) else "never"
        self._width = width

    def __enter__(self) -> Self:
        self._write(_ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write(_LEAVE)

    def draw(self, shown: Callable[[Console], None]) -> None:
        """Draw the output of `shown`, from the first line on; lines without room below are left out."""
        columns, lines = shutil.get_terminal_size()
        kept = io.TextIOWrapper(io.BytesIO(), encoding=self._stream.encoding, errors="backslashreplace")
        shown(make_console(file=kept, color=self._color, width=min(self._width or columns, columns)))
        kept.flush()
        kept.seek(0)
        text = kept.read().rstrip("\n").split("\n")
        room = text[: max(1, lines - 1)]
        self._write(_HOME + "".join(f"{line}{_REST_OF_LINE}\r\n" for line in room) + _REST)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
