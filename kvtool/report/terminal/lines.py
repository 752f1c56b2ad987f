"""Lines that many terminal views have: the bold head, a command to copy, the colour of a hit rate, the verdict, a path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kvtool.report.terminal.next_command import shell_lines
from kvtool.report.views.facts import rate_kind
from kvtool.results.verdict import Outcome, Verdict
from kvtool.text.terminal.console import ascii_only, pack, put, sanitize, say

if TYPE_CHECKING:
    from rich.console import Console

_OUTCOMES: dict[Outcome, str] = {
    "fail": "bold red",
    "warn": "bold yellow",
    "partial": "bold yellow",
    "pass": "bold green",
    "none": "bold",
}
_COMMAND = "bold cyan"
_RATES = {"good": "green", "fair": "yellow", "bad": "red"}


def put_head(console: Console, parts: Iterable[str], style: str | None = "bold") -> None:
    """Print facts beside each other, on as many lines as they take."""
    plain = ascii_only(console)
    shown = [sanitize(part, ascii_only=plain) for part in parts if part]
    for line in pack(shown, console.width, separator=" | " if plain else " · ", indent=2):
        put(console, line, style)


def put_command(console: Console, words: Sequence[str]) -> None:
    """Print a command that can be copied, in the colour of commands."""
    for line in shell_lines(words, console.width, ascii_only(console)):
        put(console, line, _COMMAND)


def put_next(console: Console, todo: str, words: Sequence[str]) -> None:
    """Print what to do next, and the command for it on lines of its own; `words` follow `kvtool`."""
    say(console, f"Next: {sanitize(todo, ascii_only=ascii_only(console))}:", indent=0, style="bold")
    put_command(console, ["kvtool", *words])


def rate_style(rate: float) -> str:
    """Return the colour of a hit rate."""
    return _RATES[rate_kind(rate)]


def print_notices(console: Console, verdict: Verdict) -> None:
    """Print what must be known besides the verdict."""
    plain = ascii_only(console)
    for notice in verdict.notices:
        say(console, f"notice: {sanitize(notice, ascii_only=plain)}", indent=0, hang=4, style="bold yellow")


def print_sentence(console: Console, verdict: Verdict) -> None:
    """Print the last line of the report."""
    text = sanitize(verdict.sentence, ascii_only=ascii_only(console))
    say(console, text, indent=0, hang=4, style=_OUTCOMES[verdict.outcome])


def shown_path(path: str, plain: bool) -> str:
    """Return a path as text that no CI log reads as a command."""
    text = sanitize(path, ascii_only=plain)
    return f"./{text}" if text.startswith("::") else text
