"""Lines that many terminal views have: the bold head, and a command to copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kvtool.report.terminal.next_command import shell_lines
from kvtool.text.terminal.console import ascii_only, pack, put, sanitize

if TYPE_CHECKING:
    from rich.console import Console


def put_head(console: Console, parts: Iterable[str], style: str | None = "bold") -> None:
    """Print facts beside each other, on as many lines as they take."""
    plain = ascii_only(console)
    shown = [sanitize(part, ascii_only=plain) for part in parts if part]
    for line in pack(shown, console.width, separator=" | " if plain else " · ", indent=2):
        put(console, line, style)


def put_command(console: Console, words: Sequence[str], style: str | None = None) -> None:
    """Print a command that can be copied."""
    for line in shell_lines(words, console.width, ascii_only(console)):
        put(console, line, style)
