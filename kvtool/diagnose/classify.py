"""Names for text that changes from request to request: a timestamp, a UUID, a path.

Detectors only NAME text that is known to vary; that it varies is measured elsewhere. They look at a bounded window with patterns
that do not backtrack over each other, so hostile text costs what plain text costs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from kvtool.diagnose.codes.kv101 import TIME
from kvtool.diagnose.codes.kv201 import OTHER
from kvtool.diagnose.dates.date_form import DateForm
from kvtool.diagnose.dates.written import may_hold
from kvtool.diagnose.detectors import DETECTORS, YEAR, Form
from kvtool.diagnose.difference_kind import DifferenceKind
from kvtool.diagnose.plain_signs import plain_signs

__all__ = ["DETECTORS", "OTHER", "DifferenceKind", "classify", "classify_in", "value_span"]

_MAX_VALUE = 4096
_WINDOW = 256
_VALUE_END = " \t\r\n\"'`<>()[]{}|,;"
_SPACE = re.compile("[ \t]")
_WEEKDAYS = [isinstance(pattern, DateForm) and pattern.sort == "weekday" for _, pattern in DETECTORS]
"""Of each detector, whether it finds names of letters alone."""
_DATED = [isinstance(pattern, DateForm) and pattern.sort != "weekday" for _, pattern in DETECTORS]
"""Of each detector, whether it reads a line for written dates."""
_WITHIN_WORDS = [
    names or not re.search(r" |\\s", pattern.pattern) for names, (_, pattern) in zip(_WEEKDAYS, DETECTORS, strict=True)
]
"""Of each detector, whether it neither takes nor looks at white space: what it finds in a line, it finds in a word of it."""
_LETTERS = re.compile("[a-z]*[ \t]?")
"""Words in which no detector that stays within words finds anything, but for the names of weekdays (`mercredi`)."""
_NEEDED = {"header": "[:=]", "amount": r"\d", "country": "[A-Z]", "path": r"[\\/]"}
"""By the key of detectors that do take white space, what all that they find has: most lines need not be searched by most."""
_NEEDED_IN_WORD = {
    "part": ":",
    "jwt": "J",
    "uuid": "-",
    "aws": "[A:-]",
    "gcp": "/",
    "weekday": "y",
    "timezone": r"[/\d]",
    "locale": "[-_]",
    "currency": "[A-Z]",
    "language": "[A-Z]",
    "email": "@",
    "clock": r"[\d点點时時]",
    "date": r"[\d日号號]",
    "path": "[/$%]",
}
"""The same for those that stay within words: of which characters a word has one. All others of them need a digit."""


def needed_by(kind: DifferenceKind, pattern: Form, *, within: bool) -> str | None:
    """What a detector's line has, or its word, for it to find anything there, as a regular expression; None: nothing is known."""
    if within:
        return None if isinstance(pattern, DateForm) else _NEEDED_IN_WORD.get(kind.key, r"\d")
    if YEAR in pattern.pattern:
        return YEAR
    if kind.key in _NEEDED:
        return _NEEDED[kind.key]
    if kind.code != TIME.code:
        return None
    if "[点點时時]" in pattern.pattern:
        return "[点點时時]"
    return r"\d"


_Detector = tuple[int, DifferenceKind, Form, bool]
"""The number of a detector in the order of all, what it finds, how, and whether it stays within words."""
_IN_ORDER: list[tuple[_Detector, str | None]] = [
    ((number, kind, pattern, within), needed_by(kind, pattern, within=within))
    for number, ((kind, pattern), within) in enumerate(zip(DETECTORS, _WITHIN_WORDS, strict=True))
]
_CLASS = re.compile(r"\[[^]]+\]|\\d|[^\\]")
"""An expression that any one of some characters matches."""
_NEEDS = {
    needed: 1 << at for at, needed in enumerate(sorted({needed for _, needed in _IN_ORDER if needed is not None}))
}
"""A bit for each expression that a detector needs."""
_OF_SIGNS = [(re.compile(needed), bit) for needed, bit in _NEEDS.items() if _CLASS.fullmatch(needed)]
_OF_WORDS = [(re.compile(needed), bit) for needed, bit in _NEEDS.items() if not _CLASS.fullmatch(needed)]
_BITS_OF_SIGN = {sign: sum(bit for needed, bit in _OF_SIGNS if needed.match(sign)) for sign in map(chr, range(128))}


def _met(text: str) -> int:
    """The bits of all that a line has of what detectors need in a line, or a word of what they need in a word."""
    met = 0
    if text.isascii():
        for sign in set(text):
            met |= _BITS_OF_SIGN[sign]
    else:
        for needed, bit in _OF_SIGNS:
            if needed.search(text):
                met |= bit
    for needed, bit in _OF_WORDS:
        if needed.search(text):
            met |= bit
    return met


@lru_cache(maxsize=1024)
def _asked(in_line: int, in_word: int | None, *, dated: bool) -> list[_Detector]:
    """The detectors that may find anything, in their order: what they need is met in the line or in the word (None: in no word).

    `dated` says that a written date may stand where it is looked for.
    """
    found: list[_Detector] = []
    for detector, needed in _IN_ORDER:
        number, _, _, within = detector
        met = in_word if within and not _WEEKDAYS[number] else in_line
        if met is None or (needed is not None and not met & _NEEDS[needed]) or (_DATED[number] and not dated):
            continue
        found.append(detector)
    return found


def value_span(match: re.Match[str]) -> tuple[int, int]:
    """The range of the value in what a detector found."""
    return match.span("value") if "value" in match.re.groupindex else match.span()


def classify(text: str) -> DifferenceKind:
    """The kind of a whole value, surrounding space and quotes aside."""
    value = plain_signs(text[:_MAX_VALUE]).strip(" \t\r\n\"'`")
    if len(text) > _MAX_VALUE or not value:
        return OTHER
    return next((kind for kind, pattern in DETECTORS if pattern.fullmatch(value)), OTHER)


def classify_in(text: str, start: int, end: int) -> tuple[DifferenceKind, int, int]:
    """The kind of the value that `text[start:end]` is a part of, and the range of that value.

    The range grows to the whole value around it within its line (two differing digits of a timestamp give the timestamp), at most
    256 characters to either side; text that no detector covers grows to the word around it and is `OTHER`. `start == end` asks for
    the value at that place.
    """
    line_start = text.rfind("\n", max(start - _WINDOW, 0), start) + 1 or max(start - _WINDOW, 0)
    line_end = text.find("\n", end, end + _WINDOW)
    line_end = min(end + _WINDOW, len(text)) if line_end < 0 else line_end
    if end - start <= _MAX_VALUE and "\n" not in text[start:end]:
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


def _detected(window: str, left: int, right: int) -> tuple[DifferenceKind, int, int] | None:
    """What holds `window[left:right]` in a line. One request is asked for it several times, and again as the donor of others."""
    word = _word_around(window, left, right)
    return _looked_through(window, word, dated=may_hold(window, left, right)).holding(left, right)


class _Looked:
    """What detectors find in a line, one after the other, as far as anybody asked."""

    def __init__(self, window: str, word: tuple[int, int] | None, *, dated: bool) -> None:
        self._found: list[tuple[DifferenceKind, int, int]] = []
        self._rest = _each(window, word, dated=dated)

    def holding(self, left: int, right: int) -> tuple[DifferenceKind, int, int] | None:
        """The first that holds `[left, right)`."""
        for each in self._found:
            if each[1] <= left and right <= each[2]:
                return each
        for each in self._rest:
            self._found.append(each)
            if each[1] <= left and right <= each[2]:
                return each
        return None


@lru_cache(maxsize=512)
def _looked_through(window: str, word: tuple[int, int] | None, *, dated: bool) -> _Looked:
    return _Looked(window, word, dated=dated)


def _each(window: str, word: tuple[int, int] | None, *, dated: bool) -> Iterator[tuple[DifferenceKind, int, int]]:
    """What the detectors find, in their order: in all of a line or, where they stay within words, in this one.

    `dated` says that a written date may stand where it is looked for.
    """
    name = word
    if word is not None and _LETTERS.fullmatch(window, *word):
        word = None
    in_word = None if word is None else _met(window[word[0] : word[1]])
    for number, kind, pattern, within in _asked(_met(window), in_word, dated=dated):
        if not within:
            yield from ((kind, low, high) for low, high in _found(number, window))
        elif (at := name if _WEEKDAYS[number] else word) is not None:
            yield from ((kind, *value_span(match)) for match in pattern.finditer(window, *at))


@lru_cache(maxsize=512)
def _found(number: int, window: str) -> list[tuple[int, int]]:
    """What a detector finds in a line, in which several differences are looked at one after the other."""
    return [value_span(match) for match in DETECTORS[number][1].finditer(window)]


def _word_around(text: str, left: int, right: int) -> tuple[int, int] | None:
    """The word that holds `text[left:right]`, with the blank behind it; None where there are several words in it."""
    if _SPACE.search(text, left, right):
        return None
    start = max(text.rfind(" ", 0, left), text.rfind("\t", 0, left)) + 1
    end = _SPACE.search(text, right)
    return start, end.end() if end else len(text)
