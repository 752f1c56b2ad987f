"""The answer of a profile at the head of its screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.report.answer import Answer
from kvtool.report.terminal.next_command import shell_lines
from kvtool.text.terminal.console import ascii_only, put, put_field, sanitize

if TYPE_CHECKING:
    from rich.console import Console

LABEL = 10
"""Cells of a label at the head of a line."""
_MOST_COMMAND_LINES = 4
_STYLES = {"Hit rate": "bold", "Lost": "bold red"}
_STEADY = {"Hit rate": "bold"}
"""Where no line is to blame, nothing is marked."""


def print_answer(console: Console, answer: Answer, *, gate: str = "") -> None:
    """A line each for the rate, with what a `gate` says of it, for the loss and for what to do; then the command for that."""
    plain = ascii_only(console)
    styles = _STYLES if answer.finding is not None else _STEADY
    lines = shell_lines(["kvtool", *answer.command], console.width, plain) if answer.command else []
    if len(lines) > _MOST_COMMAND_LINES:
        lines = []
    for label, text in answer.lines:
        if label == "Next":
            text += ":" if lines else f": the same command with {answer.change}" if answer.change else ""
        more = gate if label == "Hit rate" else ""
        shown = sanitize(text, ascii_only=plain)
        put_field(console, label, shown, more, size=LABEL, hang=LABEL + 2, style=styles.get(label))
    for line in lines:
        put(console, line)  # a shell takes it as it is: nothing may stand before what goes on in the next line
