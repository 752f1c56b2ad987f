"""What a Next line says to do before its command."""

from __future__ import annotations

PREVIEW_EDIT = "Preview the edit (add --write to apply it)"
PREVIEW_BEFORE_P3 = "Preview the edits that keep all content (those marked P3 are a second step)"
SEE_CONSENT = "See which edits need your consent"
SEE_EDITED_REQUEST = "See a request before and after"
RUN_CHANGE = "Run again with this change"
PREDICT_SERVER = "Predict with the cache of the server"
EDIT_BY_HAND = "See what to edit by hand"
_BEGINNINGS = ("Preview the ", SEE_CONSENT, SEE_EDITED_REQUEST, RUN_CHANGE, PREDICT_SERVER, EDIT_BY_HAND)


def command_of(line: str) -> tuple[str, str] | None:
    """Return what a line of an answer says to do, and its command; None where the line has none."""
    label, _, words = line.partition(": kvtool ")
    return (label, f"kvtool {words}") if words and line.startswith(_BEGINNINGS) else None
