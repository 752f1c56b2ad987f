"""Amounts as people write them: `90s`, `8/s`, `20GiB`, `320k tokens`, `>=80%`. Bad ones raise ValueError with a message to show."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION_PART = re.compile(rf"({_NUMBER}) ?(ms|min|s|m|h|d|w)(?![a-z])|({_NUMBER}) ?(ms|min|s|m|h|d|w)(?=[0-9])")
_RATE = re.compile(rf"({_NUMBER}) ?/ ?(s|sec|second|m|min|minute|h|hour)")
_BYTES = {
    "": 1,
    "k": 1000,
    "m": 1000**2,
    "g": 1000**3,
    "t": 1000**4,
    "ki": 1024,
    "mi": 1024**2,
    "gi": 1024**3,
    "ti": 1024**4,
}
_SIZE = re.compile(rf"({_NUMBER}) ?([kmgt]i?)?b", re.IGNORECASE)
_BANDWIDTH = re.compile(rf"({_NUMBER}) ?([kmgtKMGT]i?)?(B|[bB]it)/s")  # "Gb" and "Gbps" are read as either
_COUNT = re.compile(rf"({_NUMBER}) ?([km])? ?(blocks?|tokens?)?", re.IGNORECASE)
_RATIO = re.compile(rf"({_NUMBER}) ?(%)?")
_WHOLE = re.compile("0*([0-9]{1,19})")
MOST_INTERVAL = 10**9
"""Tokens from one kept boundary to the next."""
_LONGEST = 40
"""Characters; nobody writes an amount longer than this, and a number of a million digits is slow to read."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The size of the KV cache in one of the three units that people know it in."""

    number: int
    unit: Literal["blocks", "tokens", "bytes"]


def parse_duration(text: str) -> float:
    """Seconds: `90s`, `1m`, `250ms`, `1h30m`; a bare number is seconds."""
    text = _short(text)
    if re.fullmatch(_NUMBER, text):
        return float(text)
    total, at = 0.0, 0
    while at < len(text):
        part = _DURATION_PART.match(text, at)
        if part is None:
            raise ValueError(f"`{text}` is not a duration; write it like `90s`, `1m`, `250ms` or `1h30m`")
        total += float(part[1] or part[3]) * _SECONDS[part[2] or part[4]]
        at = part.end()
        at += text.startswith(" ", at)
    if not text:
        raise ValueError("a duration is missing; write it like `90s` or `1m`")
    return total


def parse_rate(text: str) -> float:
    """Requests per second: `8/s`, `120/min`, `500/h`; a bare number is per second."""
    text = _short(text)
    found = _RATE.fullmatch(text)
    rate = (
        float(found[1]) / _SECONDS[found[2][0]] if found else _number(text, "a rate; write it like `8/s` or `120/min`")
    )
    if not rate > 0:
        raise ValueError("a rate must be above zero")
    return rate


def parse_bytes(text: str) -> int:
    """Bytes: `20GiB`, `512MB`."""
    text = _short(text)
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"`{text}` is not a size; write it like `20GiB` or `512MB`")
    size = int(float(found[1]) * _BYTES[(found[2] or "").lower()])
    if size <= 0:
        raise ValueError("a size must be above zero")
    return size


def parse_bandwidth(text: str) -> float:
    """Bytes per second: `14GB/s`, `400Gbit/s`; 0 moves nothing, and `unlimited` all at once."""
    text = _short(text)
    if text.lower() == "unlimited":
        return math.inf
    found = _BANDWIDTH.fullmatch(text)
    if found is None:
        raise ValueError(f"`{text}` is not a bandwidth; write it like `14GB/s`, `400Gbit/s` or `unlimited`")
    return float(found[1]) * _BYTES[(found[2] or "").lower()] / (1 if found[3] == "B" else 8)


def parse_capacity(text: str) -> Capacity:
    """`20000` or `20000 blocks`, `320k tokens`, `20GiB`."""
    text = _short(text)
    if _SIZE.fullmatch(text):
        return Capacity(parse_bytes(text), "bytes")
    found = _COUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"`{text}` is not a capacity; write it like `20000 blocks`, `320k tokens` or `20GiB`")
    number = float(found[1]) * {"": 1, "k": 1000, "m": 1000**2}[(found[2] or "").lower()]
    if number < 1 or number != int(number):
        raise ValueError("a capacity must be a whole number above zero")
    return Capacity(int(number), "tokens" if (found[3] or "").lower().startswith("token") else "blocks")


def parse_digits(text: str, least: int, most: int) -> int | None:
    """The number that ASCII digits write; None for any other text, and for what is not from `least` to `most`."""
    found = _WHOLE.fullmatch(text)
    number = None if found is None else int(found[1])
    return number if number is not None and least <= number <= most else None


def parse_threshold(text: str) -> float:
    """The ratio (0 to 1) that something must at least reach: `>=80%`, `80%`, `0.8`."""
    return _ratio(text, ">=", "a threshold; write it like `>=80%`")


def parse_share(text: str) -> float:
    """A part of all, from 0 to 1: `90%`, `0.9`."""
    return _ratio(text, "", "a share; write it like `90%`")


def parse_limit(text: str) -> float:
    """The ratio (0 to 1) that something must not exceed: `<=5%`, `5%`, `0.05`."""
    return _ratio(text, "<=", "a limit; write it like `<=5%`")


def parse_longest(text: str) -> float:
    """The time in seconds that something may take: `<=50ms`, `50ms`, `0.05`."""
    text = _short(text)
    amount = text.removeprefix("<=").strip()
    if not amount or amount[0] in "<>=":
        raise ValueError(f"`{text}` is not a time limit; write it like `<=50ms`")
    seconds = parse_duration(amount)
    if not seconds > 0:
        raise ValueError("a time limit must be above zero")
    return seconds


def parse_cost(text: str) -> float:
    """The dollars that something may cost: `<=$4`, `$4`, `0.50`."""
    text = _short(text).removeprefix("<=").strip().removeprefix("$").strip()
    return _number(text, "a cost; write it like `<=$4`")


def _ratio(text: str, sign: str, what: str) -> float:
    text = _short(text)
    found = _RATIO.fullmatch(text.removeprefix(sign).strip())
    if found is None:
        raise ValueError(f"`{text}` is not {what}")
    value = float(found[1]) / (100 if found[2] else 1)
    if value > 1:
        raise ValueError(
            f"a ratio is at most 100%; write `{text}%` for a percentage" if not found[2] else "a ratio is at most 100%"
        )
    return value


def _short(text: str) -> str:
    text = text.strip()
    if len(text) > _LONGEST:
        raise ValueError(f"`{text[:_LONGEST]}…` is too long for an amount")
    return text


def _number(text: str, what: str) -> float:
    if not re.fullmatch(_NUMBER, text):
        raise ValueError(f"`{text}` is not {what}")
    number = float(text)
    assert math.isfinite(number)
    return number
