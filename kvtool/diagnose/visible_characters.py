"""Invisible characters made visible: those in which two texts that look alike first differ."""

from __future__ import annotations

from kvtool.diagnose.compare.units import common_prefix

NOTHING = "nothing"
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MOST = 8
"""Characters that are for each other at one place, at most."""
_BEHIND = (2, 1, 0)
"""Characters that both have after that place: some where they can be had, for one is the same by chance."""


def visible_text(one: str, other: str) -> tuple[str, str]:
    """Return the characters of either text where they first differ, as `\\r\\n` or `U+0430`; `nothing` where it has none there.

    Both are empty for equal texts.
    """
    if one == other:
        return "", ""
    at = common_prefix(one, other)
    ends = _line_end(one, at), _line_end(other, at)
    if all(ends) and ends[0] != ends[1]:
        return _written(ends[0]), _written(ends[1])
    length, other_length = _apart(one[at:], other[at:])
    stop, other_stop = at + length, at + other_length
    mine, theirs = one[at:stop], other[at:other_stop]
    if not (mine and theirs) and "\r" in mine + theirs:  # a line end as a whole
        behind = one[stop : stop + 1]
        same = behind == "\n" == other[other_stop : other_stop + 1]
        mine, theirs = (mine + behind, theirs + behind) if same else (mine, theirs)
    return _written(mine), _written(theirs)


def _line_end(text: str, at: int) -> str:
    """Return the line end that begins at a place of a text; empty where none does."""
    return next((end for end in ("\r\n", "\n", "\r") if text.startswith(end, at)), "")


def _apart(one: str, other: str) -> tuple[int, int]:
    """Return how many characters at the beginning of either text are for each other."""
    for behind in _BEHIND:
        for total in range(1, 2 * _MOST):
            for length in range(max(total - _MOST, 0), min(total, _MOST) + 1):
                rest, other_rest = one[length : length + behind], other[total - length : total - length + behind]
                if rest == other_rest and (rest or (length >= len(one) and total - length >= len(other))):
                    return length, total - length
    return min(len(one), 1), min(len(other), 1)


def _written(text: str) -> str:
    if not text:
        return NOTHING
    pieces = [_ESCAPES.get(sign) or f"U+{ord(sign):04X}" for sign in text]
    return ("" if all(sign in _ESCAPES for sign in text) else " ").join(pieces)
