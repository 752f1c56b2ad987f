"""Entries of the catalogue in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.diagnose.codes import TIERS, CodeEntry
from kvtool.diagnose.severity import severity_text
from kvtool.text.terminal.console import ascii_only, fold, put, sanitize, say

if TYPE_CHECKING:
    from rich.console import Console

_HEAD = "bold"


def print_entry(console: Console, entry: CodeEntry) -> None:
    """Print the catalogue's entry of one code."""
    for line in fold(f"{entry.code}  {entry.name}", console.width, indent=7):
        put(console, line, _HEAD)
    put(console)
    say(console, entry.what)
    _section(console, "Why it costs")
    say(console, entry.why)
    if severity := severity_text(entry.code):
        _section(console, "How severe")
        say(console, severity)
    for title, example in (("Before", entry.before), ("After", entry.after)):
        _section(console, title)
        _example(console, example)
    _section(console, "What to do")
    for remedy in entry.remedies:
        for line in fold(f"  {remedy.tier or '--'}  {remedy.what}", console.width, indent=6):
            put(console, line)
    _section(console, "When to ignore it")
    say(console, entry.ignore)
    put(console)
    for tier in sorted({remedy.tier for remedy in entry.remedies if remedy.tier is not None}):
        say(console, f"{tier}: {TIERS[tier]}", indent=2, style="dim")
    if entry.can_be_ignored:
        say(console, f"Ignore it with a comment: # kvtool: ignore[{entry.code}] reason", style="dim")
        say(console, f"In TypeScript and JavaScript: // kvtool: ignore[{entry.code}] reason", style="dim")


def print_list(console: Console, entries: Sequence[CodeEntry]) -> None:
    """Codes and names, with the proof tiers of what can be done."""
    for entry in entries:
        tiers = ", ".join(dict.fromkeys(remedy.tier for remedy in entry.remedies if remedy.tier is not None))
        text = f"{entry.code}  {entry.name}" + (f"  ({tiers})" if tiers else "")
        for line in fold(text, console.width, indent=7):
            put(console, line)
    put(console)
    say(console, "Details of a code: kvtool explain CODE", style="dim")


def _section(console: Console, title: str) -> None:
    put(console)
    put(console, title, _HEAD)


def _example(console: Console, text: str) -> None:
    plain = ascii_only(console)
    for written in text.split("\n"):
        for line in fold(f"    {sanitize(written, ascii_only=plain)}", console.width, indent=6):
            put(console, line)
