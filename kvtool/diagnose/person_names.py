# ruff: noqa: RUF001 - letters of other alphabets are meant
"""Names of people: by how they are addressed, by names that many have, and by the words before them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvtool.diagnose.known_names import known_names


def _words(*rows: str) -> frozenset[str]:
    return frozenset(word for row in rows for word in row.split(" "))


_TITLES = _words(
    "mr mrs ms mx miss dr prof sir madam herr herrn frau señor señora señorita sr sra srta don doña monsieur madame",
    "mademoiselle mme mlle signor signora signorina sig dott senhor senhora dona meneer mevrouw dhr mevr pan pani",
    "pana panią господин госпожа господином госпожой",
)
_FAMILY_NAMES = re.compile(
    r"(?:[^\W\d_]{2,}(?:enko|chuk|czyk|wicz|wska|wski|ski|cki|ska|cka|ová|ov|ova|ev|eva|ić|vić|sson|sdóttir|dóttir|escu|eanu|oğlu|yan"
    r"|shvili|dze|opoulos|opoulou|akis|idis|енко|чук|ський|ська|ский|ская|ов|ова|ев|ева|ёв|ин|ина|ич|ук|юк|όπουλος|οπούλου|άκης|ίδης|ίδου"
    r"|άκη|ου))\Z"
)
"""Endings that make family names in many languages."""
_TALKING = _words(
    "writing write corresponding schreibst schreiben schreibt écris écrivez escribes escribe escribiendo escreve escrevendo scrivi",
    "talking talk speaking speak chatting chat sprichst sprechen redest chattest parles parlez parle discutes hablas",
    "habla hablando conversas parlando parli fala falando conversando praat spreekt rozmawiasz говоришь говорите",
    "общаешься разговариваешь konuşuyorsun taler talar snakker",
)
_WITH = _words("to with mit avec con com met med")
_PARTICLES = "de|da|do|dos|das|del|della|di|du|la|le|van|von|vom|zu|der|den|ter|ten|bin|ibn|al|el|y|e"
_LETTER = (
    "(?:[^\\W\\d_]|[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0980-\u0df3\u0e31-\u0e4e\u0eb1-\u0ece\u102b-\u103e"
    "\u17b4-\u17d3\u200c\u200d])"
)
"""A letter, or a sign on one: vowels of many scripts are signs."""
_PART = rf"[^\W\d_a-z]{_LETTER}*(?:['\u2019-]{_LETTER}+)*\.?"
_NAME = re.compile(rf"{_PART}(?: (?:(?:{_PARTICLES}) ){{0,2}}{_PART}){{0,4}}")
_BEHIND = re.compile(
    r"\s*(?:[,;(/|\u2013\u2014]|[!?](?=\s)|\b(?:from|of|at|in|aus|bei|à|en|em|w|z|из|в|з)\b).*", re.DOTALL
)
"""What may be said of a person behind the name: `Ada Kern, Leeds`, `Ada Kern from Leeds`."""
_UNSPACED = re.compile("[\u3400-\u9fff]{2,5}|[\uac00-\ud7a3]{2,4}")
"""A name that is written in one word, the family name first."""
_FAMILIES = 0.5
"""The share of values that end like family names where few begin with a known given name."""
_EXPLAINED = 0.95
_GIVEN_KNOWN = 0.5
"""The share of values that begin with a known given name where all look like names."""
_FULLY_KNOWN = 0.2
"""The share of values of a known given name and a known family name where all look like names."""
_ADDRESSED = 0.5
_WHOLE = 0.6
"""The share of values that have more than a given name."""
_FEWEST = 3
"""Values of given names alone, and of names in one word, that must be known."""


def are_people(values: Sequence[str]) -> bool:
    """Whether nearly all values are names of people: with a title, or known names, in the order of their script."""
    if not values:
        return False
    if all(map(_UNSPACED.fullmatch, values)):
        return _are_unspaced(values)
    parted = [found[0].split() for value in values if (found := _NAME.match(value)) and _is_all(value, found.end())]
    if len(parted) < _EXPLAINED * len(values):
        return False
    titled = sum(is_title(words[0]) for words in parted)
    if titled >= _ADDRESSED * len(parted):
        return True
    known, count = known_names(), len(parted)
    first = [_plain(next((word for word in words if not is_title(word)), "")) for words in parted]
    given = sum(_is_known(name, known.given) for name in first)
    whole = [(name, _plain(words[-1])) for name, words in zip(first, parted, strict=True) if len(words) > 1]
    if not whole:
        return count >= _FEWEST and given >= _GIVEN_KNOWN * count
    fully = sum(_is_known(name, known.given) and last in known.family for name, last in whole)
    families = sum(len(words) in (2, 3) and _FAMILY_NAMES.match(words[-1]) is not None for words in parted)
    likely = (
        given >= _GIVEN_KNOWN * count or fully >= max(_FULLY_KNOWN * count, 1) or families >= max(_FAMILIES * count, 2)
    )
    return likely and len(whole) >= _WHOLE * count


def _is_known(name: str, names: frozenset[str]) -> bool:
    return name in names or any(part in names for part in name.split("-"))


def _are_unspaced(values: Sequence[str]) -> bool:
    """Whether values are names that are written in one word: each begins with a known family name of one sign or two."""
    family = known_names().family
    return len(values) >= _FEWEST and all(value[:1] in family or value[:2] in family for value in values)


def _is_all(value: str, stop: int) -> bool:
    """Whether a value ends where its name does, or goes on with where that person is from."""
    return stop == len(value) or _BEHIND.fullmatch(value, stop) is not None


def is_title(word: str) -> bool:
    """Whether a word says how a person is addressed, so that a name follows."""
    return _plain(word) in _TITLES


def addresses(words: Sequence[str]) -> bool:
    """Whether words directly before a value say that somebody is spoken to: `sprichst gerade mit`."""
    said = [_plain(word) for word in words]
    if not said:
        return False
    if said[-1] in _TITLES:
        return True
    return not _TALKING.isdisjoint(said) and (said[-1] in _WITH or said[-1] in _TALKING - {"chat", "talk", "speak"})


def _plain(word: str) -> str:
    return word.rstrip(".").casefold()
