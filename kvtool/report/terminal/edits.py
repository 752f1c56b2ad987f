"""Edits of files in the terminal: what each does, what to look at, what other code must do, and the command that undoes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.diagnose.codes.layout.kv203 import KV203
from kvtool.report.terminal.lines import shown_path
from kvtool.results.documents.parts import PromptEdit
from kvtool.text.terminal.console import ascii_only, cell_width, fold, put, sanitize, say

if TYPE_CHECKING:
    from rich.console import Console


def put_edits(console: Console, edits: Sequence[PromptEdit], notes: Sequence[str]) -> None:
    """Print each edit with its warnings, then what other code must do."""
    plain = ascii_only(console)
    for edit in edits:
        put_sentence(console, what_of(edit, plain))
        put_warnings(console, edit, plain, indent="  ")
    put_notes(console, notes)


def put_notes(console: Console, notes: Sequence[str]) -> None:
    """Print what code outside of the edited files must do."""
    for note in notes:
        say(console, sanitize(note, ascii_only=ascii_only(console)), indent=0)


def what_of(edit: PromptEdit, plain: bool) -> str:
    """Return the place of an edit and what it does."""
    place = place_of(edit, plain)
    column = f":{edit.column}" if edit.column is not None and not edit.place else ""
    return f"{place}{column}: {sanitize(edit.fix, ascii_only=plain)}" if place else sanitize(edit.fix, ascii_only=plain)


def place_of(edit: PromptEdit, plain: bool) -> str:
    """Return the file with its line on disk; empty where an edit is about no file."""
    if edit.path is None:
        return ""
    path = shown_path(edit.path, plain)
    if edit.place:
        return f"{path}:{edit.line}, {sanitize(edit.place, ascii_only=plain)}"
    return f"{path}, in a line that an edit above wrote" if edit.line is None else f"{path}:{edit.line}"


def put_sentence(console: Console, text: str, style: str | None = None) -> None:
    """Print a sentence below the tables; further lines are indented by its number."""
    for line in fold(f"  {text}", console.width, indent=5):
        put(console, line, style)


def put_warnings(console: Console, edit: PromptEdit, plain: bool, *, indent: str) -> None:
    """Print the place that a line was copied from, and what to look at."""
    if edit.copied_from is not None:
        place = sanitize(edit.copied_from, ascii_only=plain)
        told = f"copy: {place} is not edited. Make the same change there."
        if edit.code == KV203.code:
            told = f"code: {place} sends this message. Set the same cache_control there."
        put_sentence(console, f"{indent}{told}", "yellow")
    for warning in edit.warnings:
        put_sentence(console, f"{indent}look: {sanitize(warning, ascii_only=plain)}", "yellow")


def put_undo(console: Console, command: str) -> None:
    """Print the command that takes the edits back, on two lines where one is too short for it."""
    command = sanitize(command, ascii_only=ascii_only(console))
    head, _, file = command.rpartition("< ")
    if cell_width(command) + 2 <= console.width:
        put(console, f"  {command}")
    else:
        put(console, f"  {head}\\")
        put(console, f"    < {file}")
