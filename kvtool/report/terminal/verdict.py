"""The verdict in the terminal: notices and the last line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.results.verdict import Outcome, Verdict
from kvtool.text.terminal.console import ascii_only, sanitize, say

if TYPE_CHECKING:
    from rich.console import Console

_STYLES: dict[Outcome, str] = {
    "fail": "bold red",
    "warn": "bold yellow",
    "partial": "bold yellow",
    "pass": "bold green",
    "none": "bold",
}


def print_notices(console: Console, verdict: Verdict) -> None:
    """Print what must be known besides the verdict."""
    plain = ascii_only(console)
    for notice in verdict.notices:
        say(console, f"notice: {sanitize(notice, ascii_only=plain)}", indent=0, hang=4, style="bold yellow")


def print_sentence(console: Console, verdict: Verdict) -> None:
    """Print the last line of the report."""
    text = sanitize(verdict.sentence, ascii_only=ascii_only(console))
    say(console, text, indent=0, hang=4, style=_STYLES[verdict.outcome])
