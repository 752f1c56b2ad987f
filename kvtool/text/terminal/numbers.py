"""Numbers as people read them; never cut, and shares that add up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def percent(ratio: float) -> str:
    """`62.0%`. Only a whole is 100.0 %, and only nothing is 0.0 %."""
    shown = f"{100 * ratio:.1f}%"
    if shown == "100.0%" and ratio < 1:
        return "99.9%"
    if shown == "0.0%" and ratio > 0:
        return "<0.1%"
    return shown


def shares(parts: Sequence[int]) -> list[str]:
    """Percentages with one decimal that add up to exactly 100.0.

    The first one (the hits, which are at the head of the report as well) is rounded as usual, the others by largest remainders.
    """
    total = sum(parts)
    if not total:
        return ["0.0%"] * len(parts)
    first, rest = round(1000 * parts[0] / total), parts[1:]
    left = sum(rest)
    tenths = [part * (1000 - first) // left if left else 0 for part in rest]
    order = sorted(range(len(rest)), key=lambda index: (-(rest[index] * (1000 - first) % max(left, 1)), index))
    for index in order[: 1000 - first - sum(tenths)]:
        tenths[index] += 1
    return [f"{value // 10}.{value % 10}%" for value in (first, *tenths)]


def size(count: float) -> str:
    """Bytes in the unit that leaves one to four digits."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:,.1f} {name}"
    return f"{count:,.0f} B"


def capitalized(text: str) -> str:
    """Return a sentence with its first letter large, and all others as they are."""
    return text[:1].upper() + text[1:]


def in_words(parts: Iterable[str]) -> str:
    """Return parts as one phrase: `2`, `2 and 3`, `2, 3 and 48`."""
    *first, last = list(parts) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def plural(count: int, noun: str) -> str:
    """`1 request`, `2 requests`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration(seconds: float) -> str:
    """A short time in the unit that leaves two digits or more: `12 ms`, `3.4 ms`, `120 us`, `1.2 s`."""
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            value = seconds / unit
            return f"{value:,.0f} {name}" if value >= 10 else f"{value:.1f} {name}"
    return f"{seconds * 1e6:.0f} us"


def per_second(amount: float) -> str:
    """Bytes each second, as links are sold: `14 GB/s`."""
    value, unit = (amount / 1e9, "GB/s") if amount >= 1e8 else (amount / 1e6, "MB/s")
    return f"{value:,.4g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
