"""Bounds of option values beyond their types."""

from __future__ import annotations

import re
from math import inf

from kvtool.errors import KvtoolError
from kvtool.text.quantities import MOST_INTERVAL, parse_digits

MOST_REPLICAS = 10_000
"""A bound on memory: each replica has a cache of its own."""
_LEAST_SAMPLE = 1e-6
"""A bound for hostile input: a smaller part of the blocks is no sample."""
_MOST = 2**62
"""A bound on counts: 64 bits, with room for a sum."""
_SHORTEST, _LONGEST = 0.1, 86_400.0
"""Seconds between two looks, and the longest that anything is waited for."""


def at_least_one(flag: str, value: int) -> None:
    if value < 1:
        raise KvtoolError(f"{flag} must be at least 1, not {value}")
    _fits(flag, value)


def port(flag: str, value: int) -> None:
    """A port of TCP."""
    if not 1 <= value < 1 << 16:
        raise KvtoolError(f"{flag} must be a port from 1 to 65535, not {value}")


def at_least_two(flag: str, value: int) -> None:
    if value < 2:
        raise KvtoolError(f"{flag} must be at least 2, not {value}", hint="one block holds nothing: vLLM's null block")
    _fits(flag, value)


def _fits(flag: str, value: int) -> None:
    if value > _MOST:
        raise KvtoolError(f"{flag} must be at most {_MOST:,}")


def not_negative(flag: str, value: int) -> None:
    if value < 0:
        raise KvtoolError(f"{flag} must not be negative: {value}")


def not_below_minus_one(flag: str, value: int) -> None:
    if value < -1:
        raise KvtoolError(f"{flag} must not be below -1: {value}", hint="-1 has no limit")


def interval(flag: str, value: str) -> None:
    said = value.strip().lower()
    if said != "none" and parse_digits(said, 0, MOST_INTERVAL) is None:
        raise KvtoolError(
            f"{flag} is a number of tokens, or none: {value[:40]!a}",
            hint="0 keeps only the ends of prompts; none keeps everything possible",
        )


def percentage(flag: str, value: int) -> None:
    if not 0 <= value <= 100:
        raise KvtoolError(f"{flag} is from 0 to 100, not {value}")


def fraction(flag: str, value: float) -> None:
    if not 0.0 < value <= 1.0:
        raise KvtoolError(f"{flag} must be in (0, 1], not {value}")


def sample(flag: str, value: float) -> None:
    if not _LEAST_SAMPLE <= value <= 1.0:
        raise KvtoolError(f"{flag} is from 0.000001 to 1, not {value:g}", hint="0.1 counts a tenth of the blocks")


def ratio(flag: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise KvtoolError(f"{flag} is a ratio from 0 to 1, not {value}", hint="0.8 is 80 %")


def seconds(flag: str, value: float) -> None:
    if not 0.0 <= value < inf:
        raise KvtoolError(f"{flag} is a number of seconds, not {value}")


def some_seconds(flag: str, value: float) -> None:
    if not 0.0 < value <= _LONGEST:
        hint = f"{_LONGEST:.0f} is a day" if _LONGEST < value < inf else None
        raise KvtoolError(f"{flag} is a number of seconds above 0, not {value:g}", hint=hint)


def some_times(flag: str, value: float) -> None:
    if not 0.0 < value < inf:
        raise KvtoolError(f"{flag} is a number above 0, not {value:g}", hint=f"{flag} 2 is twice as fast")


def a_while(flag: str, value: str) -> None:
    """Check a time to wait between two requests to a server."""
    from kvtool.text.quantities import parse_duration

    try:
        found = parse_duration(value)
    except ValueError as error:
        raise KvtoolError(f"{flag}: {error}") from error
    if not _SHORTEST <= found <= _LONGEST:
        raise KvtoolError(f"{flag} is from 100 ms to a day, not {value}", hint="write it like 2s or 1m")


def model_dtype(flag: str, value: str) -> None:
    from kvtool.measure.measure_options import MODEL_DTYPES

    if value not in MODEL_DTYPES:
        raise KvtoolError(f"unknown dtype `{value}`", hint=f"{flag} is one of {', '.join(MODEL_DTYPES)}")


def device(flag: str, value: str) -> None:
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", value):
        raise KvtoolError(f"unknown device `{value}`", hint=f"{flag} is one of auto, cpu, cuda, cuda:N")


def log_map(flag: str, value: str) -> None:
    """Names and paths of what a record has."""
    del flag  # the message names it
    from kvtool.workload.logs.records.mapped_records import mapped_format

    mapped_format(value)


def field(flag: str, value: str) -> None:
    """Check a path to one field."""
    from kvtool.workload.logs.records.mapped_records import way_of

    way_of(value, flag)


def fields(flag: str, value: str) -> None:
    from kvtool.workload.logs.groups.field_paths import parse_fields

    parse_fields(value, flag)
