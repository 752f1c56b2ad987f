"""What a Next line says to do before its command."""

from __future__ import annotations

PREVIEW_EDIT = "Preview the edit (add --write to apply it)"
SEE_EDITED_REQUEST = "See a request before and after"
RUN_CHANGE = "Run again with this change"
_BEFORE_COMMANDS = tuple(f"{label}: " for label in (PREVIEW_EDIT, SEE_EDITED_REQUEST, RUN_CHANGE))


def command_of(line: str) -> tuple[str, str] | None:
    """Return what a line of an answer says to do, and its command; None where the line has none."""
    label = next((label for label in _BEFORE_COMMANDS if line.startswith(label)), None)
    return None if label is None else (label.removesuffix(": "), line.removeprefix(label))
