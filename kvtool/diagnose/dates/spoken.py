# ruff: noqa: RUF001 - signs of other scripts are meant
"""Clocks in words, in the languages in which prompts are written: `a quarter to seven on Thursday morning`, `halb neun`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cached_property, lru_cache
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


_SPOKEN = "|".join(map(_pattern, LANGUAGES))
_DENSE = "|".join(DENSE)
_OPTIONAL = re.compile(r"(.)\?")
_WORD = re.compile(r"[^\s\d_.,:;!?()\"“”„«»،۔।]+")
_DENSE_SIGNS = re.compile("[点點時时시]")


def _first_words(hours: str) -> Iterator[str]:
    """The words that hours begin with, with and without the letters that may be left out."""
    for hour in hours.split("|"):
        word = hour.partition("\\s")[0]
        pieces = _OPTIONAL.split(word)  # every second one may be left out
        choices = [(piece, "") if at % 2 else (piece,) for at, piece in enumerate(pieces)]
        yield from ("".join(each) for each in product(*choices))


_HOURS = frozenset(word for of in LANGUAGES for word in _first_words(of.hours))


class SpokenForm:
    """Clocks in words, with the day and the part of it that are said behind them, and with what may `follow`."""

    pattern = r"\sspoken"

    def __init__(self, follow: str) -> None:
        self._follow = follow

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        """Made where the first hour is named: it is long."""
        return re.compile(rf"(?i:(?<!\w)(?:{_SPOKEN})(?:{self._follow})?(?!\w)|{_DENSE})")

    def finditer(self, string: str, pos: int = 0, endpos: int = sys.maxsize, /) -> Iterator[re.Match[str]]:
        """Its matches in `string[pos:endpos]`, in order; most texts name no hour, and need not be searched."""
        return self._compiled.finditer(string, pos, endpos) if _names_hour(str.__str__(string)) else iter(())

    def search(self, string: str, /) -> re.Match[str] | None:
        """The first match."""
        return self._compiled.search(string) if _names_hour(str.__str__(string)) else None

    def fullmatch(self, string: str, /) -> re.Match[str] | None:
        """The match that is all of the text."""
        return self._compiled.fullmatch(string) if _names_hour(str.__str__(string)) else None


@lru_cache(maxsize=64)
def _names_hour(text: str) -> bool:
    if not text.isascii() and _DENSE_SIGNS.search(text) is not None:
        return True
    return not _HOURS.isdisjoint(_WORD.findall(text.casefold()))
