"""The history of a conversation in a prompt that is one text: its beginning, and whether it was cut there."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from kvtool.diagnose.compare.json_forms import parsed
from kvtool.diagnose.compare.tools import is_tool
from kvtool.diagnose.compare.units import common_prefix, json_around

NEVER = 1 << 62
_MARKER = re.compile(
    r"^(?:<\|im_start\|>|<\|start_header_id\|>|\[|#{1,4} |\*\*)?(system|developer|user|human|assistant|ai|tool|observation)"
    r"(?=\]? {0,2}(?::|<\||\]|\*\*|\n))",
    re.IGNORECASE | re.MULTILINE,
)
_ANSWERS = ("assistant", "ai")
_PROBES = (200, 64, 24)
_TRIES = 16
_SHORT = 1 << 14
_KEPT = 32
"""Texts of at most so many characters whose answer is kept, the latest ones."""
_LEAST_SHARE = 8  # of a text without marks, what must be cut off for it to be a window


class Cut(NamedTuple):
    """`length` characters of the earlier text were taken out at character `at` of both."""

    at: int
    length: int


def history_start(text: str) -> int:
    """Return where the history begins in a text that has role marks at the beginning of lines; `NEVER` where no answer is in it:
    a text may end with the mark of the answer that it asks for.
    """
    plain = str.__str__(text)
    return _start_in_short(plain) if len(plain) <= _SHORT else _start(plain)


@lru_cache(maxsize=_KEPT)
def _start_in_short(text: str) -> int:
    """Return the answer for a text and keep it: a request is asked for several times, and again as the donor of later ones."""
    return _start(text)


def _start(text: str) -> int:
    first, answered = None, False
    for match in _MARKER.finditer(text):
        role = match[1].lower()
        if answered and role not in _ANSWERS:
            return NEVER if first is None else first
        if first is None and role not in ("system", "developer"):
            first = match.start()
        answered = role in _ANSWERS
    return NEVER


def front_cut(a: str, b: str, history: int) -> Cut | None:
    """Return the stretch of `a` that must go for the rest of it to be the beginning of `b`, where it is
    the front of the history.
    """
    shared = common_prefix(a, b)
    length = _removed(a, b, shared)
    if not length:
        return None
    first = shared  # the cut may as well have been anywhere in [first, shared]
    while first and a[first - 1] == a[first + length - 1]:
        first -= 1
    line = a.rfind("\n", max(first - 1, 0), shared) + 1
    at = line if first <= line <= shared and (line or not first) else first
    if json_around(a, at, at + 1)[0] < at or is_tool(parsed(a[at : at + length].strip().partition("\n")[0])):
        return None  # an item of a list is no turn of a conversation
    if first == 0:
        return Cut(0, length)
    if history < NEVER:
        return Cut(at, length) if first <= history < first + length else None
    repeats = shared - first >= 4  # what was cut off begins like what is left
    return Cut(at, length) if repeats and length * _LEAST_SHARE >= len(a) else None


def _removed(a: str, b: str, shared: int) -> int:
    """Return the shortest stretch after the first `shared` characters of `a` after which it goes on as `b` does; 0 if there is
    none.
    """
    for size in _PROBES:
        probe = b[shared : shared + size]
        at = shared
        for _ in range(_TRIES):
            at = a.find(probe, at + 1)
            if at < 0:
                break
            if b.startswith(a[at:], shared):
                return at - shared
    return 0
