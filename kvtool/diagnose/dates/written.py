"""Dates and times as any language writes them: `4. März 2026`, `2026年3月4日 9時13分`, `오후 1시 20분`, `1404/12/13`.

A line is read once, word by word. Numbers, names of months and weekdays, parts of the day, and the words that languages put between
them are in rows; a row is a date where it has a month beside a day or a year, a time where it has an hour. A name of two or three
letters is a word of many languages, too, and counts only where more of the row says that it is a date.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from kvtool.diagnose.dates.calendar_words import HALVES, WORD, WordClass, calendar_words, date_words, longest_by_sign

_ALL = re.compile(".*", re.DOTALL)
Written = Literal["timestamp", "date", "clock", "weekday"]

_TOKEN = re.compile(rf"\d++|{WORD.pattern}")
_GAP = re.compile(r"[ \t,./()\-:'\u2013\u2019\u00b7\u060c\u3001\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]{0,4}")
_BIDI = re.compile("[\u200e\u200f\u061c]")
_DOTTED = re.compile(r"(?<![\d.])\d\d?[./] ?\d\d?(?!\d|[.,/]\d)")
"""What may be a time or a day of a month, where a weekday or the word for a clock is beside it."""
_MEASURED = re.compile(
    r" ?(?:[€$£%°]|(?:eur|euro|euroa|kr|kroner|kronor|sek|nok|dkk|chf|kg|km|cm|mm|m|l|dl|gb|mb"
    r"|prosent\w{0,4}|prozent|percent)\b)",
    re.IGNORECASE,
)
_CLOCK_WORDS = frozenset(
    {"kl", "klo", "kello", "klockan", "klokka", "klokken", "ora", "ore", "uhr", "pukul", "ώρα", "น", "ساعت", "الساعة"}
)
"""Words beside a time whose hours and minutes are parted by a full stop."""
_ARTICLES = frozenset({"der", "dem", "il"})
"""Articles between a weekday and its date that CLDR does not have."""
_IN_NUMBERS = re.compile(r"\d ?[hH] ?\d|\d[/.-] ?\d\d?[/.-] ?\d")
_DIGIT = re.compile(r"\d")
_SUFFIX = re.compile(r"[-+][A-Za-z]{1,8}[.\d]")
"""What a version may end with, and no date."""
_LONGEST, _AROUND = 160, 64
"""Characters of a date, and those around a part of it that are looked at."""
_ASCII_WORD = re.compile("[a-z]+(?:[.'][a-z]+)*+")
_DATE_SIGN = re.compile(r"[/.\-]")
_LONGEST_NUMBER = 4
_LONGEST_WORD = 32
_UNPARTED = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Scripts that part no words with blanks, and Korean, which writes units at its numbers; Arabic, say, parts them."""
_LONGEST_PREFIX, _LEAST_STEM = 2, 3
"""Letters of a preposition or an article at the front of a word, and of the word itself."""
_SURE_LETTERS = 4
_SURE_NAME = 5
"""Letters of a weekday's name in ASCII from which on it is taken for one without a date around it."""
_JOINING = ("joint", "unit", "era")
_LASTING = ("間", "间", "간")
"""What makes hours of an hour."""
_SCORE = ("点", "點")
"""What is after an hour, and after a score."""
_YEARS = (1300, 2700)
"""From Hijri years to Buddhist ones."""


class Token(NamedTuple):
    """A number or a word of a date: where it stands, its value (-1 for words), the class of the word, and whether it is sure."""

    low: int
    high: int
    value: int
    sort: WordClass | Literal["number"]
    sure: bool = True
    word: str = ""


class WrittenAt(NamedTuple):
    """A date or a time in a text."""

    sort: Written
    low: int
    high: int


def written_in(text: str) -> list[WrittenAt]:
    """Return the dates and times of a line whose signs are plain, in order; they do not overlap."""
    if text.isascii() and not _has_date_words(text):
        return []
    found: list[WrittenAt] = []
    row: list[Token] = []
    for token in _tokens(text):
        if row and not _goes_on(text, row, token):
            found += _judged(text, row)
            row = []
        row.append(token)
    return found + _judged(text, row)


def may_hold(text: str, low: int, high: int) -> bool:
    """Return whether `text[low:high]` can be a part of a date or a time: a look around it, which costs less than to read the
    line.
    """
    if high - low > _LONGEST:
        return False
    near = text[max(low - _AROUND, 0) : high + _AROUND]
    return _DIGIT.search(near) is not None and (not near.isascii() or _has_date_words(near))


def _has_date_words(text: str) -> bool:
    """Return whether a text in ASCII has three numbers of a date, hours with their sign, or a word that tells a date."""
    if _IN_NUMBERS.search(text) is not None:
        return True
    words = _ASCII_WORD.findall(text.lower())
    if not date_words().isdisjoint(words):
        return True
    return _DOTTED.search(text) is not None and any(
        word in _CLOCK_WORDS or _inflected(calendar_words(), word) is not None for word in words
    )


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        low, high = match.span()
        word = match[0]
        if word[0].isdecimal():
            if high - low <= _LONGEST_NUMBER:
                yield Token(low, high, int(word), "number")
        elif high - low <= _LONGEST_WORD:
            yield from _of_word(word, low)


def _of_word(word: str, low: int) -> Iterator[Token]:
    """Yield the token of a word; several where a script parts no words (`日水曜日`)."""
    token = _token(word, low)
    if token is not None:
        yield token
        return
    if word.isascii() or unicodedata.category(word[0]) != "Lo":
        return
    if _UNPARTED.match(word) is None:
        yield from _text_after_prefix(word, low)
        return
    at, longest = 0, longest_by_sign()
    while at < len(word):
        ends = range(min(len(word), at + longest.get(word[at], 0)), at, -1)
        token = next((each for end in ends if (each := _token(word[at:end], low + at)) is not None), None)
        if token is not None and not (token.sort == "unit" and word[token.high - low :].startswith(_LASTING)):
            yield token
        at = at + 1 if token is None else token.high - low


def _text_after_prefix(word: str, low: int) -> Iterator[Token]:
    """Yield the token that is all of a word but what is written together with it: `במרץ` of `מרץ`."""
    for at in range(1, min(_LONGEST_PREFIX, len(word) - _LEAST_STEM) + 1):
        token = _token(word[at:], low + at)
        if token is not None:
            yield token._replace(low=low)
            return


def _token(word: str, low: int) -> Token | None:
    said = word.lower() if word.isascii() else unicodedata.normalize("NFC", word).casefold()
    words = calendar_words()
    sort = (
        words.get(said) or _inflected(words, said) or ("joint" if said in _CLOCK_WORDS or said in _ARTICLES else None)
    )
    if sort is None:
        return None
    letters = unicodedata.category(said[0]) != "Lo"
    sure = len(said) >= _SURE_LETTERS or not letters or (not said.isascii() and len(said) == 3)
    return Token(low, low + len(word), -1, sort, sure, said)


def _inflected(words: dict[str, WordClass], said: str) -> WordClass | None:
    """Return the class of a name with one or two letters more at its end: `фебруара` of `фебруар`."""
    if len(said) <= _SURE_NAME or unicodedata.category(said[0]) == "Lo":
        return None
    sorts = (words.get(said[:-cut]) for cut in (1, 2) if len(said) - cut >= _SURE_NAME)
    return next((sort for sort in sorts if sort in ("month", "weekday")), None)


def _goes_on(text: str, row: list[Token], token: Token) -> bool:
    """Return whether a token belongs to the row before it: near, and no second number of another thing."""
    last = row[-1]
    if _GAP.fullmatch(text, last.high, token.low) is None:
        return False
    if last.sort != "number" or token.sort != "number":
        return True
    gap = text[last.high : token.low]
    if _DATE_SIGN.search(gap) or ":" in gap:
        return True
    return _is_year(last) or _is_year(token) or text[token.high : token.high + 1] == ":"


def _is_year(token: Token) -> bool:
    return token.high - token.low == 4 and _YEARS[0] <= token.value < _YEARS[1]


def _judged(text: str, row: list[Token]) -> list[WrittenAt]:
    """Return what a row says, without the words at its ends that join nothing."""
    first, last = 0, len(row)
    clock = any(token.word in _CLOCK_WORDS for token in row)
    while (
        last
        and row[last - 1].sort in _JOINING
        and not _is_contained(text, row[last - 1], row[last - 2] if last > 1 else None)
    ):
        last -= 1
    while first < last and (row[first].sort in ("joint", "unit") or row[first].word in HALVES):
        first += 1
    row = row[first:last]
    if all(token.sort != "number" for token in row):
        return [WrittenAt("weekday", token.low, token.high) for token in row if _is_weekday(token)]
    dotted = list(_dotted(text, row))
    on_a_day = any(token.sort == "weekday" and token.sure for token in row)
    dated = _has_date(text, row) or (on_a_day and any(_is_day(*pair) for pair in dotted))
    timed = _has_hour(row) or (dated and _has_clock(text, row))
    timed = timed or ((dated or on_a_day or clock) and any(_is_time(text, *pair) for pair in dotted))
    if not dated and not timed:
        return []
    low, high = row[0].low, row[-1].high
    if text.count("(", low, high) > text.count(")", low, high) and text[high : high + 1] == ")":
        high += 1
    return [WrittenAt("timestamp" if dated and timed else "date" if dated else "clock", low, high)]


def _is_contained(text: str, token: Token, before: Token | None) -> bool:
    """Return whether a word at the end of a row belongs to the number before it (`4日`, `9 Uhr`)."""
    if before is None or before.sort != "number":
        return False
    gap = text[before.high : token.low]
    return not gap or (token.sort == "unit" and len(token.word) > 2 and gap == " ")


def _is_weekday(token: Token) -> bool:
    return token.sort == "weekday" and token.sure and (len(token.word) >= _SURE_NAME or not token.word.isascii())


def _has_date(text: str, row: list[Token]) -> bool:
    months = [token for token in row if token.sort == "month"]
    numbers = [token for token in row if token.sort == "number"]
    days = sum(1 <= token.value <= 31 and token.high - token.low <= 2 for token in numbers)
    years = sum(map(_is_year, numbers))
    if months and (days or years):
        more = [token for token in row if token.sort in ("weekday", "weekday_part") and token.sure]
        return any(token.sure for token in months) or bool(days and years) or bool(more)
    if any(token.sort == "era" and token.sure and len(token.word) > 1 for token in row):
        return True
    return any(_is_numeric(text, *three) for three in zip(row, row[1:], row[2:], strict=False))


def _is_numeric(text: str, first: Token, second: Token, third: Token) -> bool:
    """Return whether three numbers are a date: of any calendar, or with a year of two digits."""
    if not first.sort == second.sort == third.sort == "number":
        return False
    gaps = [_BIDI.sub("", text[one.high : other.low]).strip() for one, other in ((first, second), (second, third))]
    if gaps[0] != gaps[1] or gaps[0] not in ("/", ".", "-") or not 1 <= second.value <= 31:
        return False
    if text[third.high : third.high + 2].strip(" ")[:1] == gaps[0] and gaps[0] != ".":
        return False
    if gaps[0] == "." and _SUFFIX.match(text, third.high):
        return False
    if _is_year(first) or _is_year(third):
        other = third if _is_year(first) else first
        return 1 <= other.value <= 31 and min(other.value, second.value) <= 12
    widths = {token.high - token.low for token in (first, second, third)}
    padded = widths == {2}
    within = 1 <= first.value <= 31 and min(first.value, second.value) <= 12
    return within and third.high - third.low == 2 and (padded or gaps[0] == "/")


def _dotted(text: str, row: list[Token]) -> Iterator[tuple[Token, Token]]:
    """Yield two numbers of one or two digits that a sign parts, and no third one: `6.16`, `26.11.`, `26/11`."""
    for found in _DOTTED.finditer(text, row[0].low, row[-1].high):
        pair = [token for token in row if found.start() <= token.low and token.high <= found.end()]
        if len(pair) == 2 and _MEASURED.match(text, pair[1].high) is None:
            yield pair[0], pair[1]


def _is_day(one: Token, other: Token) -> bool:
    """Return whether two numbers may be a day and its month."""
    return 1 <= one.value <= 31 and 1 <= other.value <= 12


def _is_time(text: str, one: Token, other: Token) -> bool:
    """Return whether two numbers may be an hour and its minutes."""
    return text[one.high : other.low] == "." and one.value <= 24 and other.value < 60 and other.high - other.low == 2


def _has_clock(text: str, row: list[Token]) -> bool:
    """Return whether a row has `9:13`."""
    pairs = ((one, other) for one, other in pairwise(row) if one.sort == other.sort == "number")
    return any(text[one.high : other.low] == ":" and one.value <= 24 and other.value < 60 for one, other in pairs)


def _has_hour(row: list[Token]) -> bool:
    """Return whether a row has an hour: with its unit, or with a part of the day."""
    for at, token in enumerate(row):
        if token.sort != "number" or token.value > 24:
            continue
        before, after = row[at - 1] if at else None, row[at + 1] if at + 1 < len(row) else None
        if before is not None and before.sort == "period" and before.sure and not before.word.isascii():
            return True
        if after is None:
            continue
        third = row[at + 2] if at + 2 < len(row) else None
        if after.sort == "period" and (after.word in HALVES or (after.sure and not after.word.isascii())):
            return True
        if after.sort == "unit" and _is_hour(after, third):
            return True
    return False


def _is_hour(unit: Token, behind: Token | None) -> bool:
    if behind is not None and behind.sort == "number" and behind.value < 60:
        return True
    return unit.word not in _SCORE and (len(unit.word) > 2 or unicodedata.category(unit.word[0]) == "Lo")


class DateForm:
    """Dates, times, or weekdays without a date, in any language; texts have plain signs (`plain_signs`)."""

    def __init__(self, sort: Written) -> None:
        self.sort = sort
        self.pattern = rf"\s{sort}"

    def finditer(self, string: str, pos: int = 0, endpos: int = sys.maxsize, /) -> Iterator[re.Match[str]]:
        """Yield its matches in `string[pos:endpos]`, in order."""
        for sort, low, high in _written(str.__getitem__(string, slice(pos, endpos))):
            if sort == self.sort:
                match = _ALL.match(string, pos + low, pos + high)
                assert match is not None
                yield match

    def search(self, string: str, /) -> re.Match[str] | None:
        """Return the first match."""
        return next(self.finditer(string), None)

    def fullmatch(self, string: str, /) -> re.Match[str] | None:
        """Return the match that is all of the text."""
        return next((match for match in self.finditer(string) if match.span() == (0, len(string))), None)


@lru_cache(maxsize=64)
def _written(text: str) -> list[WrittenAt]:
    """Return the dates and times of one line, which each sort asks for."""
    return written_in(text)
