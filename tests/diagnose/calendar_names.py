"""Packs the words of dates in all languages from Unicode's CLDR: python -m tests.diagnose.calendar_names FOLDER.

FOLDER holds the packages `cldr-core`, `cldr-dates-full` and any of `cldr-cal-CALENDAR-full` as npm unpacks them, each in a folder
of its own. What is written is `kvtool/diagnose/dates/calendar_words.zst`: a line for each class of word, words parted by blanks.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvtool.diagnose.dates.calendar_words import FILE, HALVES, WORD, WordClass

_QUOTED = re.compile(r"'([^']*)'")
_BEHIND_HOUR = re.compile(r"[hHkK]{1,2}\s?'?([^'A-Za-z{}]+|(?<=')[^']+)")
_BEHIND_LESS = re.compile(r"[ms]{1,2}\s?'?([^'A-Za-z{}]+|(?<=')[^']+)")
_WIDTHS = ("wide", "abbreviated")
_LEAST_OF_NAME = 4
"""Letters of a word of a name of several (`Rabi` of `Rabi I`) from which on it says something alone."""
_COVERED = ("modern", "moderate")
_SINCE_MEIJI = 232
"""The number of the Japanese era from which on one is in use that people still write."""


def words_of_cldr(folder: Path) -> dict[WordClass, set[str]]:
    """The words of each class; of calendars other than the Gregorian one those of languages that CLDR covers well."""
    [levels] = folder.glob("*/**/coverageLevels.json")
    level = json.loads(levels.read_bytes())["effectiveCoverageLevels"]
    found: dict[WordClass, set[str]] = defaultdict(set)
    for path in sorted(folder.glob("**/main/*/ca-*.json")):
        language = path.parent.name
        covered = level.get(language) or level.get(language.split("-")[0])
        [locale] = json.loads(path.read_bytes())["main"].values()
        for name, calendar in locale["dates"]["calendars"].items():
            if name == "generic" or covered not in _COVERED:
                continue
            _add_names(found, calendar, least_era=_SINCE_MEIJI if name == "japanese" else 0)
            if name == "gregorian":
                _add_patterns(found, calendar)
    found["weekday_part"] -= found["weekday"]
    found["joint"] -= found["unit"]
    return dict(found)


def _add_names(found: dict[WordClass, set[str]], calendar: dict[str, Any], *, least_era: int) -> None:
    for name in _names(calendar.get("months", {})):
        found["month"].update(_said(name))
    for name in _names(calendar.get("days", {})):
        found["weekday_part"].update(_said(name))
    for name in _names(calendar.get("days", {}), ("wide",)):
        words = _words(name)
        if len(words) == 1:
            found["weekday"].update(words)
    for name in _names(calendar.get("dayPeriods", {})):
        words = _words(name)
        if len(words) == 1 and (not _is_letter(words[0]) or words[0] in HALVES):
            found["period"].update(words)
    for width in ("eraNames", "eraAbbr"):
        for number, name in calendar.get("eras", {}).get(width, {}).items():
            words = _words(name)
            if len(words) == 1 and int(number.partition("-")[0]) >= least_era:
                found["era"].update(words)


def _add_patterns(found: dict[WordClass, set[str]], calendar: dict[str, Any]) -> None:
    """What stands between the fields of dates and behind the hour: `4 de marzo`, `9 Uhr`."""
    joined = calendar.get("dateTimeFormats", {})
    times = _strings(calendar.get("timeFormats", {}))
    dates = [*_strings(calendar.get("dateFormats", {})), *(each for each in joined.values() if isinstance(each, str))]
    dates += _strings(calendar.get("dateTimeFormats-atTime", {}).get("standard", {}))
    for key, pattern in joined.get("availableFormats", {}).items():
        if isinstance(pattern, str) and not set(key) & set("wWQBav-"):
            (times if set(key) & set("hHkK") else dates).append(pattern)
    for pattern in dates:
        for literal in (*_QUOTED.findall(pattern), *re.split(r"[A-Za-z{}]+", _QUOTED.sub(" ", pattern))):
            found["joint"].update(_words(literal))
    for pattern in times:
        for behind in _BEHIND_HOUR.findall(pattern):
            found["unit"].update(_words(behind))
        for behind in _BEHIND_LESS.findall(pattern):
            found["joint"].update(_words(behind))


def _strings(node: dict[str, Any]) -> list[str]:
    return [each if isinstance(each, str) else str(each.get("_value", "")) for each in node.values()]


def _names(contexts: dict[str, Any], widths: tuple[str, ...] = _WIDTHS) -> Iterator[str]:
    for widths_of_context in contexts.values():
        for width in widths:
            yield from widths_of_context.get(width, {}).values()


def _words(name: str) -> list[str]:
    return WORD.findall(unicodedata.normalize("NFC", name).casefold())


def _is_letter(word: str) -> bool:
    """Whether a word is one letter of an alphabet, or two Latin ones, which say nothing; a sign for a month or a day does."""
    return (word.isascii() and len(word) <= 2) or (len(word) == 1 and unicodedata.category(word) != "Lo")


def _said(name: str) -> list[str]:
    """The words of a name that say it: all of one word, the long ones of several."""
    words = [word for word in _words(name) if not _is_letter(word)]
    return words if len(words) == 1 else [word for word in words if len(word) >= _LEAST_OF_NAME]


def main() -> None:
    """Write the packed words."""
    from zstandard import ZstdCompressor

    found = words_of_cldr(Path(sys.argv[1]))
    lines = [f"{name} {' '.join(sorted(words))}" for name, words in sorted(found.items())]
    packed = ZstdCompressor(level=19).compress("\n".join(lines).encode())
    FILE.write_bytes(packed)
    print(f"{len(packed):,} bytes: " + ", ".join(f"{len(words):,} {name}" for name, words in sorted(found.items())))


if __name__ == "__main__":
    main()
