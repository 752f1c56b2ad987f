"""Paths as the terminal shows them."""

from __future__ import annotations

from kvtool.text.terminal.console import sanitize


def shown_path(path: str, plain: bool) -> str:
    """Return a path as text that no CI log reads as a command."""
    text = sanitize(path, ascii_only=plain)
    return f"./{text}" if text.startswith("::") else text
