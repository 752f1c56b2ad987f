"""Prompt text that a command does not print outside of a terminal, and text that it prints with marks for secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.config.command_line import flags
from kvtool.report.terminal.patch import put_patch
from kvtool.text.redact import redact_marked
from kvtool.text.terminal.console import sanitize, say
from kvtool.text.terminal.numbers import plural

if TYPE_CHECKING:
    from rich.console import Console

    from kvtool.results.show_text import ShowText


def hidden_text() -> str:
    """Say how to see prompt text in a pipe."""
    return f"Prompt text is hidden in pipes. Add {' '.join(flags(show_text='full'))} to print it."


def put_prompt_patch(console: Console, patch: str, *, plain: bool, show_text: ShowText) -> None:
    """Print a diff of prompts; without text the names of its files, and how many lines of each change."""
    if show_text == "snippet":
        patch = "".join(line[:1] + redact_marked(line[1:], 0, 0)[0] for line in patch.splitlines(keepends=True))
    if show_text != "none":
        put_patch(console, patch, plain=plain)
        return
    counts: dict[str, list[int]] = {}
    name = ""
    for line in patch.splitlines():
        if line.startswith("--- "):
            name = line.removeprefix("--- ").rstrip("\t")
        elif not line.startswith("+++ ") and line[:1] in ("-", "+"):
            counts.setdefault(name, [0, 0])[line.startswith("+")] += 1
    for path, (gone, come) in counts.items():
        say(console, f"{sanitize(path, ascii_only=plain)}: {plural(gone, 'line')} removed, {come:,} added.")
    say(console, hidden_text())
