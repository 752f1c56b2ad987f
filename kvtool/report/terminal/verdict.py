"""The verdict in the terminal: the words of gates, notices, and the last line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvtool.results.verdict import Check, Outcome, Status, Verdict
from kvtool.text.terminal.console import ascii_only, sanitize, say

if TYPE_CHECKING:
    from rich.console import Console

_WORST: tuple[Status, ...] = ("fail", "warn", "open", "pass")
STATUS_WORDS: dict[str, str] = {"fail": "FAIL", "warn": "WARN", "open": "open", "pass": "ok"}
_STYLES: dict[Outcome, str] = {
    "fail": "bold red",
    "warn": "bold yellow",
    "partial": "bold yellow",
    "pass": "bold green",
    "none": "bold",
}


def status_word(checks: Iterable[Check]) -> str:
    """Return the status of the worst of the checks; empty where there are none."""
    found = {check.status for check in checks}
    return next((STATUS_WORDS[status] for status in _WORST if status in found), "")


def print_notices(console: Console, verdict: Verdict) -> None:
    """Print what must not be overlooked."""
    plain = ascii_only(console)
    for notice in verdict.notices:
        say(console, f"notice: {sanitize(notice, ascii_only=plain)}", indent=0, hang=4, style="bold yellow")


def print_sentence(console: Console, verdict: Verdict) -> None:
    """Print the last line of the report."""
    text = sanitize(verdict.sentence, ascii_only=ascii_only(console))
    say(console, text, indent=0, hang=4, style=_STYLES[verdict.outcome])
