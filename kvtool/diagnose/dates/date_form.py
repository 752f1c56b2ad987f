"""What finds written dates and times of one sort, in the way that a compiled pattern finds its matches."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import lru_cache

from kvtool.diagnose.dates.written import Written, WrittenAt, written_in

_ALL = re.compile(".*", re.DOTALL)


class DateForm:
    """Dates, times, or weekdays without a date, in any language; texts have plain signs (`plain_signs`)."""

    def __init__(self, sort: Written) -> None:
        self.sort = sort
        self.pattern = rf"\s{sort}"

    def finditer(self, string: str, pos: int = 0, endpos: int = sys.maxsize, /) -> Iterator[re.Match[str]]:
        """Its matches in `string[pos:endpos]`, in order."""
        for sort, low, high in _written(str.__getitem__(string, slice(pos, endpos))):
            if sort == self.sort:
                match = _ALL.match(string, pos + low, pos + high)
                assert match is not None
                yield match

    def search(self, string: str, /) -> re.Match[str] | None:
        """The first match."""
        return next(self.finditer(string), None)

    def fullmatch(self, string: str, /) -> re.Match[str] | None:
        """The match that is all of the text."""
        return next((match for match in self.finditer(string) if match.span() == (0, len(string))), None)


@lru_cache(maxsize=64)
def _written(text: str) -> list[WrittenAt]:
    """Asked for one line by each sort."""
    return written_in(text)
