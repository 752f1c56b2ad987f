"""Clocks in words, in the languages in which prompts are written: `a quarter to seven on Thursday morning`, `halb neun`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product

from kvtool.diagnose.dates.spoken_languages import DENSE, LANGUAGES, SpokenLanguage


def _pattern(of: SpokenLanguage) -> str:
    """Either what stands before an hour or what stands behind it tells it: an hour alone is a number."""
    joints = rf"(?:(?:{of.joints})[ ])" if of.joints else "(?!)"
    tail = rf"(?:,?[ ]{joints}{{0,3}}(?:(?:{of.joints or '(?!)'})(?<=['\u2019]))?(?:{of.day})(?!\w)){{0,3}}"
    hours = rf"(?:{of.hours})(?!\w)"
    forms = []
    if of.both:
        forms.append(rf"(?:(?:{of.before})[ ]?)?{hours}[ ](?:{of.behind})(?!\w)")
    else:
        forms += [rf"(?:{of.before})[ ]{hours}(?:[ ](?:{of.behind or '(?!)'})(?!\w))?"] if of.before else []
        forms += [rf"{hours}[ ](?:{of.behind})(?!\w)"] if of.behind else []
    return rf"(?:{'|'.join(forms)}){tail}"


_OPTIONAL = re.compile(r"(.)\?")
_WORD = re.compile(r"[^\W\d_]+")
_DENSE_SIGNS = re.compile("[点點時时시]")


def _first_words(hours: str) -> Iterator[str]:
    """The words that hours begin with, with and without the letters that may be left out."""
    for hour in hours.split("|"):
        word = hour.partition("\\s")[0]
        pieces = _OPTIONAL.split(word)  # every second one may be left out
        choices = [(piece, "") if at % 2 else (piece,) for at, piece in enumerate(pieces)]
        yield from ("".join(each) for each in product(*choices))


_LANGUAGES_OF: dict[str, int] = {}
"""By the first word of an hour, a bit for each language that names one so."""
for _at, _language in enumerate(LANGUAGES):
    for _word in {_WORD.findall(hour.casefold())[0] for hour in _first_words(_language.hours)}:
        _LANGUAGES_OF[_word] = _LANGUAGES_OF.get(_word, 0) | 1 << _at


@cache
def _compiled(language: int, follow: str) -> re.Pattern[str]:
    """The pattern of a language or, after the last, of scripts without blanks; made when it is first asked for: it is long."""
    if language == len(LANGUAGES):
        return re.compile("|".join(DENSE))
    return re.compile(rf"(?i:(?<!\w)(?:{_pattern(LANGUAGES[language])})(?:{follow})?(?!\w))")


class SpokenForm:
    """Clocks in words, with the day and the part of it that are said behind them, and with what may `follow`."""

    pattern = r"\sspoken"

    def __init__(self, follow: str) -> None:
        self._follow = follow

    def finditer(self, string: str, pos: int = 0, endpos: int = sys.maxsize, /) -> Iterator[re.Match[str]]:
        """Its matches in `string[pos:endpos]`, in order."""
        plain = str.__str__(string)
        searched = self._patterns_of(plain[pos:endpos])
        while found := [match for pattern in searched if (match := pattern.search(plain, pos, endpos)) is not None]:
            first = min(found, key=re.Match.start)  # of several the first language's
            yield first
            pos = first.end()

    def search(self, string: str, /) -> re.Match[str] | None:
        """The first match."""
        return next(self.finditer(string), None)

    def fullmatch(self, string: str, /) -> re.Match[str] | None:
        """The match that is all of the text."""
        plain = str.__str__(string)
        return next((match for each in self._patterns_of(plain) if (match := each.fullmatch(plain)) is not None), None)

    def _patterns_of(self, text: str) -> list[re.Pattern[str]]:
        """The patterns of the languages whose hours a text names: most texts name those of few."""
        named = 0
        for word in _WORD.findall(text.casefold()):
            named |= _LANGUAGES_OF.get(word, 0)
        if not text.isascii() and _DENSE_SIGNS.search(text) is not None:
            named |= 1 << len(LANGUAGES)
        return [_compiled(at, self._follow) for at in range(named.bit_length()) if named >> at & 1]
