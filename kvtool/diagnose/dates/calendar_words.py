"""The words of dates in all languages: months, weekdays, parts of the day, eras, and what is between numbers (`de`, `Uhr`).

They are those of Unicode's CLDR; `tests/diagnose/calendar_names.py` packs them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal

FILE = Path(__file__).with_name("calendar_words.zst")

WordClass = Literal["month", "weekday", "weekday_part", "period", "era", "unit", "joint"]
"""`weekday` is the whole name, `weekday_part` a short one; `unit` is beside the number of a time, `joint` within a date."""

_PARTS = (
    r"\s\d!-/:-@\[-`{-~\u00a1-\u00bf\u060c\u061b\u061c\u066a-\u066d\u06d4\u0964"
    r"\u2000-\u206f\u3000-\u3003\u3008-\u3011\uff01-\uff0f\uff1a-\uff20"
)
HALVES = ("am", "pm", "a.m", "p.m")
"""The halves of the day, as they are written after an hour."""
WORD = re.compile(rf"[^{_PARTS}]+(?:[.'\u2019][^{_PARTS}]+)*+")
"""A word with the vowel signs of its script (`\\w` has none of them), and with points and apostrophes within it."""


@cache
def calendar_words() -> dict[str, WordClass]:
    """Return the class of each word, lower case; of a word with several the first of: month, weekday, period, unit, joint, era."""
    from zstandard import ZstdDecompressor

    found: dict[str, WordClass] = {}
    lines = dict(line.split(" ", 1) for line in ZstdDecompressor().decompress(FILE.read_bytes()).decode().split("\n"))
    order: tuple[WordClass, ...] = ("era", "joint", "unit", "period", "weekday_part", "weekday", "month")
    for name in order:
        found.update(dict.fromkeys(lines[name].split(" "), name))
    return found


@cache
def longest_by_sign() -> dict[str, int]:
    """Return how long the longest word is that begins with a sign: where words are not parted, one is looked for at each."""
    found: dict[str, int] = {}
    for word in calendar_words():
        found[word[0]] = max(len(word), found.get(word[0], 0))
    return found


@cache
def date_words() -> frozenset[str]:
    """Return the words in ASCII that may tell a date or a time; the others only join it."""
    telling = ("month", "weekday", "unit", "era")
    return frozenset(
        word for word, sort in calendar_words().items() if word.isascii() and len(word) > 2 and sort in telling
    ).union(HALVES)
