"""Lines of a server's log: their text and number, and when they were written, as far as that is before them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from datetime import date
from typing import NamedTuple

from kvtool.text.files.json_stream import MAX_RECORD
from kvtool.workload.logs.records.record import seconds

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FULL = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?")
_YEARLESS = re.compile(r"\b(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_LONGEST_FRONT = 400  # characters of time, level and place that a logger writes
_DAY = 86_400.0
_BACK = 180 * _DAY


class ServerLine(NamedTuple):
    """A line of a log; `offset` counts bytes."""

    text: str
    number: int
    offset: int
    size: int


def lines_of(reader: io.BufferedReader) -> Iterator[ServerLine]:
    """Yield all lines; of one that is longer than a record may be only the beginning."""
    number = offset = 0
    while data := reader.readline(MAX_RECORD):
        if data.endswith(b"\n") or len(data) < MAX_RECORD:
            number += 1
            yield ServerLine(data.decode(errors="replace").rstrip("\r\n"), number, offset, len(data))
        offset += len(data)


def front_of(text: str, at: int) -> str | None:
    """Return the text before a place in a line, without colours; None where that is more than a logger writes there, such as a
    text of somebody's."""
    if at > _LONGEST_FRONT or "'" in (front := text[:at]) or '"' in front:
        return None
    return _COLOUR.sub("", front)


def has_line(head: bytes, pattern: re.Pattern[str]) -> bool:
    """Return whether a line in the beginning of a file has this, with nothing of somebody's before it."""
    for line in head.decode(errors="replace").split("\n"):
        plain = _COLOUR.sub("", line)
        if (found := pattern.search(plain)) is not None and front_of(plain, found.start()) is not None:
            return True
    return False


class LogClock:
    """Times of lines one after another. Without a year they count from January 1 of the first line's year."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._years = 0.0

    def read(self, front: str) -> float | None:
        """Return seconds since 1970, or since that January 1; None where no time is written."""
        if (full := _FULL.search(front)) is not None:
            return seconds(full[0], "s")
        if (found := _YEARLESS.search(front)) is None:
            return None
        month, day, hours, minutes, rest = (int(each) for each in found.groups()[:5])
        try:
            days = (date(2000, month, day) - date(2000, 1, 1)).days
        except ValueError:
            return None
        time = self._years + days * _DAY + hours * 3600 + minutes * 60 + rest + float(f"0.{found[6] or 0}")
        if self._last is not None and time < self._last - _BACK:
            self._years += 366 * _DAY
            time += 366 * _DAY
        self._last = time
        return time
