"""Characters that nobody sees, or sees as a plain space, as parts of a set of characters in a pattern."""

from __future__ import annotations

FORMAT = "\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
"""They have no form of their own, and say nothing in any script."""
JOINERS = "\u200c\u200d\ufe00-\ufe0f"
"""No form of their own either, but between letters or in emoji they say how these are written."""
KINDS_OF_SPACE = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
"""Spaces of other widths, and those at which no line is broken."""
