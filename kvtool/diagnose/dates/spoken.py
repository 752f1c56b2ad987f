# ruff: noqa: RUF001 - letters of other alphabets are meant
"""Clocks in words, in the languages in which prompts are written: `a quarter to seven on Thursday morning`, `halb neun`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple


class _Language(NamedTuple):
    """Parts of a pattern. An hour stands behind one of `before`, or in front of one of `behind`; words of `day` may follow."""

    hours: str
    before: str
    behind: str
    day: str
    joints: str


_ENGLISH = _Language(
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|noon|midnight",
    r"(?:just|shortly|a little|soon)\s(?:after|before|past)|half\spast|(?:a\s)?quarter\s(?:past|to|after)"
    r"|(?:(?:five|ten|twenty|twenty[- ]five)(?:\sminutes)?|[a-z]{3,6}\sminutes)\s(?:past|to|after)",
    r"o.clock",
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|morning|afternoon|evening|night|midday|tonight",
    r"on|in|at|the|of|a",
)
_GERMAN = _Language(
    "eins|ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|mittag|mitternacht",
    r"(?:dreiviertel|viertel|halb)|(?:kurz|viertel|fünf|zehn|zwanzig|fünf\s(?:vor|nach)\shalb)(?:\sminuten)?(?:\s(?:vor|nach))?",
    r"uhr(?:\s(?:fünf|zehn|zwanzig|dreißig|vierzig|fünfzig|fünfzehn))?",
    r"(?:mon|diens|donners|frei|sams|sonn)tag\w{0,11}|mittwoch\w{0,11}|sonnabend\w{0,11}|morgens?|vormittags?|mittags?|nachmittags?"
    r"|abends?|nachts?|früh",
    r"am|des|in|der|den",
)
_DUTCH = _Language(
    "een|één|twee|drie|vier|vijf|zes|zeven|acht|negen|tien|elf|twaalf|middernacht",
    r"half|(?:kwart|vijf|tien|twintig|even)\s(?:voor|over)(?:\shalf)?",
    r"uur",
    r"(?:maan|dins|woens|donder|vrij|zater|zon)dag\w{0,8}|ochtends?|morgens?|middags?|avonds?|nachts?",
    r"op|in|de|'s",
)
_NORTH = _Language(
    "ett|et|en|ein|to|två|tre|fire|fyra|fem|seks|sex|sju|syv|åtta|åtte|otte|nio|ni|tio|ti|elva|elleve|elve|tolv|midnatt",
    r"halv|kvart\s(?:i|på|over)|(?:fem|ti|tio|tyve|tjue|tjugo)(?:\sminut(?:ter|er)?)?\s(?:i|på|over|över)(?:\shalv)?",
    r"",
    r"(?:mån|man|tis|tirs|ons|tors|tor|fre|lør|lör|søn|sön)dag\w{0,12}|morgon\w{0,3}|morgen\w{0,3}|formiddag\w{0,3}"
    r"|eftermiddag\w{0,3}|ettermiddag\w{0,3}|kväll\w{0,3}|kveld\w{0,3}|aften\w{0,3}|natt\w{0,3}|nat",
    r"på|om|i",
)
_FRENCH = _Language(
    "une|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze",
    r"",
    r"heures?(?:\s(?:moins\s(?:le\squart|cinq|dix|vingt)|et\s(?:quart|demie)|cinq|dix|vingt|vingt-cinq))?",
    r"(?:lun|mar|mercre|jeu|vendre|same)di|dimanche|matin|midi|après-midi|soir|nuit",
    r"du|de|le|la|ce|l'",
)
_SPANISH = _Language(
    "una|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce",
    r"las?",
    r"(?:menos|y)\s(?:cuarto|media|cinco|diez|veinte|veinticinco)",
    r"lunes|martes|miércoles|jueves|viernes|sábado|domingo|mañana|tarde|noche|madrugada|mediodía",
    r"de|del|la|el|por|en",
)
_ITALIAN = _Language(
    "una|due|tre|quattro|cinque|sei|sette|otto|nove|dieci|undici|dodici",
    r"le|l'",
    r"(?:meno|e)\s(?:un\squarto|mezza|mezzo|cinque|dieci|venti|venticinque)",
    r"lunedì|martedì|mercoledì|giovedì|venerdì|sabato|domenica|mattina|mattino|pomeriggio|sera|notte",
    r"di|del|della|il|la|in",
)
_PORTUGUESE = _Language(
    "uma|duas|três|quatro|cinco|seis|sete|oito|nove|dez|onze|doze",
    r"as|às",
    r"(?:menos|e)\s(?:um\squarto|quinze|meia|cinco|dez|vinte)|horas?(?:\se\s(?:meia|quinze))?",
    r"(?:segunda|terça|quarta|quinta|sexta)(?:-feira)?|sábado|domingo|manhã|tarde|noite|madrugada",
    r"de|da|do|na|no|à",
)
_RUSSIAN = _Language(
    "час|два|три|четыре|пять|шесть|семь|восемь|девять|десять|одиннадцать|двенадцать"
    "|первого|второго|третьего|четвёртого|пятого|шестого|седьмого|восьмого|девятого|десятого|одиннадцатого|двенадцатого",
    r"без\s(?:четверти|пяти|десяти|двадцати)|половина|четверть|(?:пять|десять|двадцать)\sминут",
    r"час(?:а|ов)?",
    r"понедельник\w?|вторник\w?|сред[ауы]|четверг\w?|пятниц[ауы]|суббот[ауы]|воскресень[ея]|утр[ао]м?|дня|днём|вечер(?:а|ом)|ноч[иь]ю?",
    r"в|во",
)
_POLISH = _Language(
    "pierwsza|druga|trzecia|czwarta|piąta|szósta|siódma|ósma|dziewiąta|dziesiąta|jedenasta|dwunasta"
    "|pierwszej|drugiej|trzeciej|czwartej|piątej|szóstej|siódmej|ósmej|dziewiątej|dziesiątej|jedenastej|dwunastej",
    r"wpół\sdo|za\s(?:kwadrans|pięć|dziesięć|dwadzieścia)|(?:kwadrans|pięć|dziesięć|dwadzieścia)\spo|godzina",
    r"",
    r"poniedziałek|poniedziałku|wtorek|wtorku|środ[aęy]|czwartek|czwartku|piątek|piątku|sobot[aęy]|niedziel[aęi]|rano|południ[ue]m?"
    r"|wieczór|wieczorem|noc[ąy]?",
    r"w|we|po|przed",
)
_FINNISH = _Language(
    "yksi|kaksi|kolme|neljä|viisi|kuusi|seitsemän|kahdeksan|yhdeksän|kymmenen|yksitoista|kaksitoista",
    r"puoli|(?:varttia|viittä|kymmentä|viisi|kymmenen)\s(?:vaille|yli)|kello",
    r"",
    r"(?:maanantai|tiistai|torstai|perjantai|lauantai|sunnuntai)(?:na)?|keskiviikko(?:na)?|aamu\w{0,5}|päivä\w{0,3}|ilta\w{0,5}|illalla|yö\w{0,3}",
    r"",
)
_LANGUAGES = (
    _ENGLISH, _GERMAN, _DUTCH, _NORTH, _FRENCH, _SPANISH, _ITALIAN, _PORTUGUESE, _RUSSIAN, _POLISH, _FINNISH,
)  # fmt: skip


def _pattern(of: _Language) -> str:
    """Either what stands before an hour or what stands behind it tells it: an hour alone is a number."""
    joints = rf"(?:(?:{of.joints})[ ])" if of.joints else "(?!)"
    tail = rf"(?:,?[ ]{joints}{{0,3}}(?:(?:{of.joints or '(?!)'})(?<=['\u2019]))?(?:{of.day})(?!\w)){{0,3}}"
    hours = rf"(?:{of.hours})(?!\w)"
    forms = []
    if of is _SPANISH or of is _ITALIAN or of is _PORTUGUESE:  # the article alone stands before other numbers, too
        forms.append(rf"(?:(?:{of.before})[ ]?)?{hours}[ ](?:{of.behind})(?!\w)")
    else:
        forms += [rf"(?:{of.before})[ ]{hours}(?:[ ](?:{of.behind or '(?!)'})(?!\w))?"] if of.before else []
        forms += [rf"{hours}[ ](?:{of.behind})(?!\w)"] if of.behind else []
    return rf"(?:{'|'.join(forms)}){tail}"


_SPOKEN = "|".join(map(_pattern, _LANGUAGES))
_WORD = re.compile(r"[^\W\d_]+")
_HOURS = frozenset(word for of in _LANGUAGES for word in of.hours.split("|"))


class SpokenForm:
    """Clocks in words, with the day and the part of it that are said behind them, and with what may `follow`."""

    pattern = r"\sspoken"

    def __init__(self, follow: str) -> None:
        self._follow = follow

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        """Made where the first hour is named: it is long."""
        return re.compile(rf"(?i:(?<!\w)(?:{_SPOKEN})(?:{self._follow})?(?!\w))")

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
    return not _HOURS.isdisjoint(_WORD.findall(text.casefold()))
