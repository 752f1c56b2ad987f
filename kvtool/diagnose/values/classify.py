"""Names for text that changes from request to request: a timestamp, a UUID, a path.

Detectors only NAME text that is known to vary; that it varies is measured elsewhere. They look at a bounded window with patterns
that do not backtrack over each other, so hostile text costs what plain text costs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.dates.written import DateForm, may_hold
from kvtool.diagnose.values.ascii_digits import plain_signs
from kvtool.diagnose.values.detectors import DETECTORS, YEAR, Form

__all__ = ["DETECTORS", "OTHER", "DifferenceKind", "classify", "classify_in", "value_span"]

MAX_VALUE = 4096
_WINDOW = 256
_VALUE_END = " \t\r\n\"'`<>()[]{}|,;"
_SPACE = re.compile("[ \t]")
_REACH = 96
"""Characters of the longest value with white space in it, with what its detector looks at around it."""
_LOOKS_AT_SPACE = re.compile(r" |(?<!\[\^)\\s")
_NEEDED = {
    "part": ":",
    "header": "[:=]",
    "jwt": "J",
    "uuid": "-",
    "aws": "[A:-]",
    "gcp": "/",
    "git": "[0-9A-Fa-f]",
    "weekday": "y",
    "timezone": r"[/\d]",
    "locale": "[-_]",
    "currency": "[A-Z]",
    "language": "[A-Z]",
    "country": "[A-Z]",
    "email": "@",
    "url": ":",
    "path": r"[/$%]",
}
"""By the key of a detector, a sign of all that it finds. What no table names needs a digit."""


class Detector(NamedTuple):
    """A form of values, and where it is looked for beside a character of one."""

    kind: DifferenceKind
    pattern: Form
    reach: int
    """How far before and after the word, or what differs: 0 where it neither takes nor looks at white space."""
    within: bool
    """Whether its values have no white space."""
    needed: str | None
    """What there is of all that it finds, as a regular expression; None: nothing is known."""

    @classmethod
    def of(cls, kind: DifferenceKind, pattern: Form) -> Detector:
        """Return a line of the table."""
        if isinstance(pattern, DateForm):
            within = pattern.sort == "weekday"
            return cls(kind, pattern, 0 if within else MAX_VALUE, within, None)
        if kind.name == "path (Windows)":
            return cls(kind, pattern, MAX_VALUE, False, r":[\\/]|\\\\")
        spaced = _LOOKS_AT_SPACE.search(pattern.pattern) is not None
        within = not spaced or "(?P<value>" in pattern.pattern
        special = (needed for needed in (YEAR, "[点點时時]", "[日号號]") if needed in pattern.pattern)
        return cls(kind, pattern, _REACH if spaced else 0, within, next(special, _NEEDED.get(kind.key, r"\d")))


_IN_ORDER = [Detector.of(kind, pattern) for kind, pattern in DETECTORS]
_REACHES = sorted({detector.reach for detector in _IN_ORDER})
_LOOKS = {
    look: 1 << at
    for at, look in enumerate(sorted({(each.reach, each.within, each.needed or "") for each in _IN_ORDER}))
}
"""A bit for each thing to be looked for: how far, whether in a word only, and what."""
_COMPILED = [(reach, within, re.compile(needed), bit) for (reach, within, needed), bit in _LOOKS.items()]


@lru_cache(maxsize=1024)
def _asked(met: int, *, dated: bool) -> list[Detector]:
    """Return the detectors that may find anything, in their order, by what was met; `dated` says that a written date may be
    there.
    """
    return [
        each
        for each in _IN_ORDER
        if met & _LOOKS[each.reach, each.within, each.needed or ""]
        and (dated or each.within or not isinstance(each.pattern, DateForm))
    ]


def value_span(match: re.Match[str]) -> tuple[int, int]:
    """Return the range of the value in what a detector found."""
    return match.span("value") if "value" in match.re.groupindex else match.span()


def classify(text: str) -> DifferenceKind:
    """Return the kind of a whole value, surrounding space and quotes aside."""
    value = plain_signs(text[:MAX_VALUE]).strip(" \t\r\n\"'`")
    if len(text) > MAX_VALUE or not value:
        return OTHER
    return next((kind for kind, pattern in DETECTORS if pattern.fullmatch(value)), OTHER)


def classify_in(text: str, start: int, end: int) -> tuple[DifferenceKind, int, int]:
    """Return the kind of the value that `text[start:end]` is a part of, and the range of that value.

    The range grows to the whole value around it within its line (two differing digits of a timestamp give the timestamp), at most
    256 characters to either side; text that no detector covers grows to the word around it and is `OTHER`. `start == end` asks for
    the value at that place.
    """
    line_start = text.rfind("\n", max(start - _WINDOW, 0), start) + 1 or max(start - _WINDOW, 0)
    line_end = text.find("\n", end, end + _WINDOW)
    line_end = min(end + _WINDOW, len(text)) if line_end < 0 else line_end
    if end - start <= MAX_VALUE and "\n" not in text[start:end]:
        window = plain_signs(str.__getitem__(text, slice(line_start, line_end)))
        found = _detected(window, start - line_start, end - line_start)
        if found is not None:
            kind, low, high = found
            return kind, line_start + low, line_start + high
    while start > line_start and text[start - 1] not in _VALUE_END:
        start -= 1
    while end < line_end and text[end] not in _VALUE_END:
        end += 1
    return OTHER, start, end


@lru_cache(maxsize=512)
def _detected(window: str, left: int, right: int) -> tuple[DifferenceKind, int, int] | None:
    """Return what holds `window[left:right]` in a line. One request is asked for it several times, and again as the donor of
    others.
    """
    word = _word_around(window, left, right)
    low, high = word or (left, right)
    reached = {
        reach: (max(low - reach, 0), min(high + reach, len(window)))
        for reach in _REACHES
        if word is not None or right - left <= reach
    }
    met = sum(
        bit
        for reach, within, needed, bit in _COMPILED
        if reach in reached and (word is not None or not within) and needed.search(window, *reached[reach])
    )
    for kind, pattern, reach, *_ in _asked(met, dated=may_hold(window, left, right)):
        for match in pattern.finditer(window, *reached[reach]):
            start, stop = value_span(match)
            if start > left:
                break
            if right <= stop:
                return kind, start, stop
    return None


def _word_around(text: str, left: int, right: int) -> tuple[int, int] | None:
    """Return the word that holds `text[left:right]`, with the blank after it; None where there are several words in it."""
    if _SPACE.search(text, left, right):
        return None
    start = max(text.rfind(" ", 0, left), text.rfind("\t", 0, left)) + 1
    end = _SPACE.search(text, right)
    return start, end.end() if end else len(text)
