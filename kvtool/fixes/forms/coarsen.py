"""Let a value vary less: a time to the hour or the day, a request id or a counter left out (tier P3)."""

from __future__ import annotations

import re
from typing import Literal
from unicodedata import decimal

from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.diagnose.values.ascii_digits import plain_signs
from kvtool.diagnose.values.classify import value_span
from kvtool.diagnose.values.detectors import AGE_KEY, DETECTORS
from kvtool.fixes.moves.move_target import MoveTarget, places_at
from kvtool.fixes.turn_texts import edited, map_texts
from kvtool.text.traced import Traced, line_around
from kvtool.workload.turn import Turn

TELL_WHEN = "write the time of the event instead of its age: later requests then repeat the same text"
_AGE = next(pattern for kind, pattern in DETECTORS if kind.key == AGE_KEY)
_STEADY = "0 min ago"
Step = Literal["minute", "hour", "day"]

_LONGEST_PLACE = 4096
_SECONDS: dict[Step, int] = {"minute": 60, "hour": 3600, "day": 86_400}
_UNIX = re.compile(r"(\d{10})(\d{0,9})((?:\.\d{1,9})?)")
_CLOCK = re.compile(
    r"(?<![\d:])(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?P<fraction>[.,]\d{1,9})?)?(?P<half>\s?[AaPp]\.?[Mm])?"
)
_AFTER_T = re.compile(
    r"(?<=\dT)(?P<hour>\d\d)(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?P<fraction>[.,]\d{1,9})?)?)?(?P<half>(?!))?"
)
_DIGIT = re.compile(r"\d")
ONLY_A_LABEL = re.compile(r"[\W_]*+(?:[^\W_]++[\W_]*+){0,4}")


def coarsen_times(turn: Turn, target: MoveTarget) -> Turn:
    """Return the turn with the times of the slot in their own format: a date with a time at midnight, a time alone at the full
    hour.
    """

    def change(text: str) -> str:
        edits: list[tuple[int, int, str]] = []
        for start, stop in places_at(Traced(text), target):
            edits += _times(str.__str__(text), start, min(stop, start + _LONGEST_PLACE))
        return edited(text, sorted(edits)) if edits else text

    return map_texts(turn, change)


def _times(text: str, start: int, stop: int) -> list[tuple[int, int, str]]:
    """Return edits that coarsen each time in `text[start:stop]`."""
    value = plain_signs(text[start:stop])
    taken: list[tuple[int, int]] = []
    edits: list[tuple[int, int, str]] = []
    for kind, pattern in DETECTORS:
        if kind.code != KV101.code:
            continue
        for found in pattern.finditer(value):
            low, high = value_span(found)
            if any(low < other_high and other_low < high for other_low, other_high in taken):
                continue
            taken.append((low, high))
            written = text[start + low : start + high]
            coarse = coarsened(written, "hour" if kind.key == "clock" else "day")
            if coarse != written:
                edits.append((start + low, start + high, coarse))
    return edits


def coarsened(value: str, step: Step) -> str:
    """Return a time with the fields below `step` at zero, in its own format; the value itself where it has none of them.

    Seconds since 1970 (or milliseconds and finer) are rounded down to the step in UTC, written times as they are written.
    """
    if found := _UNIX.fullmatch(value):
        seconds = int(found[1]) // _SECONDS[step] * _SECONDS[step]
        return f"{seconds}{_DIGIT.sub('0', found[2] + found[3])}"
    clock = _AFTER_T.search(value) or _CLOCK.search(value)
    if clock is None:
        return value
    zeroed = {
        "minute": ("second", "fraction"),
        "hour": ("minute", "second", "fraction"),
        "day": ("minute", "second", "fraction"),
    }
    result = list(value)
    for name in zeroed[step]:
        if clock[name] is not None:
            low, high = clock.span(name)
            result[low:high] = _DIGIT.sub(_zero, clock[name])
    if step == "day":
        if clock["half"]:
            low, high = clock.span("half")
            result[low:high] = clock["half"].translate(str.maketrans("Pp", "Aa"))
        low, high = clock.span("hour")
        result[low:high] = ["12" if clock["half"] else _DIGIT.sub(_zero, clock["hour"])]
    return "".join(result)


def _zero(digit: re.Match[str]) -> str:
    """Return the zero of a digit's own script."""
    return chr(ord(digit[0]) - decimal(digit[0]))


def drop_values(turn: Turn, target: MoveTarget) -> Turn:
    """Return the turn without the slot's values, and without their lines where these are nothing but a label for them."""

    def change(text: str) -> str:
        plain = str.__str__(text)
        edits: list[tuple[int, int, str]] = []
        for start, stop in sorted(places_at(Traced(text), target)):
            low, high = line_around(plain, start)[0], line_around(plain, max(stop - 1, start))[1]
            if not ONLY_A_LABEL.fullmatch(plain[low:start] + plain[stop:high].rstrip("\n")):
                low, high = start, stop
            if edits and low < edits[-1][1]:
                low = edits[-1][1]
            if low < high:
                edits.append((low, high, ""))
        return edited(text, edits) if edits else text

    return map_texts(turn, change)


def with_fixed_ages(turn: Turn) -> Turn:
    """Return the turn with one age in place of all: as steady as when it was, and about as long."""

    def change(text: str) -> str:
        edits = [(*found.span(), _STEADY) for found in _AGE.finditer(plain_signs(str.__str__(text)))]
        return edited(text, edits) if edits else text

    return map_texts(turn, change)
