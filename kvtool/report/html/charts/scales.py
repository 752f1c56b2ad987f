"""Axes of charts: places of values, and the ticks that have room at any width."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import floor, inf, log10

NARROW = 250
"""Pixels of a drawing on a small phone, or of one of a pair, without what stands to the left of it."""
WIDE = 550
"""Pixels from which shapes of the class `wide` are shown."""
_LETTER = 7.0
_GAP = 10.0
_FACTORS = 8
"""From which ratio of the largest to the smallest an axis of amounts goes in factors."""


@dataclass(frozen=True, slots=True)
class AxisScale:
    """From `low` to `high`; `log` where steps are factors, and both are above 0."""

    low: float
    high: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """From 0 to 1; the middle where there is no length."""
        if self.high <= self.low:
            return 0.5
        if self.log:
            part = log10(max(value, self.low) / self.low) / log10(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return min(max(part, 0.0), 1.0)


def scale_of(values: Iterable[float], *, wide: float = 4.0) -> AxisScale:
    """Over these values, in factors where the largest is `wide` times the smallest, or more."""
    found = sorted(values)
    low, high = found[0], found[-1]
    return AxisScale(low, high, log=low > 0 and high >= wide * low)


def amount_scale(values: Iterable[float]) -> AxisScale:
    """From 0, or in factors where the largest is many times the smallest: from and to a number of 1, 2 or 5 and zeros."""
    found = sorted(values)
    low, high = found[0], found[-1]
    if low > 0 and high >= _FACTORS * low:
        return AxisScale(_round_number(low, down=True), _round_number(high, down=False), log=True)
    return AxisScale(0.0, _round_number(high, down=False) if high > 0 else 1.0)


def _round_number(value: float, *, down: bool) -> float:
    power = 10.0 ** floor(log10(value))
    steps = [factor * power for factor in (1, 2, 5, 10)]
    if down:
        return max(step for step in steps if step <= value * (1 + 1e-9))
    return min(step for step in steps if step >= value * (1 - 1e-9))


def rate_top(most: float) -> float:
    """Return the end of an axis of rates: the next step of 5, 10 or 20 points above."""
    step = 0.05 if most <= 0.25 else 0.1 if most <= 0.6 else 0.2
    return min(max(step * -(-most // step), step), 1.0)


def rate_scale(rates: Iterable[float]) -> AxisScale:
    """Rates that are far from 0, with room beside them: from and to a step of one or five points."""
    found = sorted(rates)
    step = 0.01 if found[-1] - found[0] < 0.04 else 0.05
    low, high = floor(found[0] / step + 1e-9) * step, -floor(-found[-1] / step + 1e-9) * step
    return AxisScale(low, high if high > low else low + step)


def level_ticks(top: float, most: int = 5) -> list[float]:
    """Round numbers from 0 to `top`, for lines across."""
    unit = 10.0 ** (floor(log10(top)) - 2) if 0 < top < inf else 1.0
    step = round_step(round(top / unit), most) * unit
    return [count * step for count in range(int(top / step + 1e-9) + 1)]


def decades(scale: AxisScale) -> list[float]:
    """Powers of ten within; with their halves and doubles where there are few."""
    found: list[float] = []
    for factors in ((1,), (1, 2, 5)):
        first, last = floor(log10(scale.low)), floor(log10(scale.high))
        found = [
            factor * 10.0**power
            for power in range(first, last + 1)
            for factor in factors
            if scale.low <= factor * 10.0**power <= scale.high
        ]
        if len(found) > 2:
            break
    return found


@dataclass(frozen=True, slots=True)
class Tick:
    """`wide` where there is room for it on wide screens only."""

    at: float
    texts: tuple[str, ...]
    wide: bool


def ticks_with_room(
    values: Sequence[float],
    scale: AxisScale,
    write: Callable[[float], tuple[str, ...]],
    units: tuple[str, ...] = (),
) -> list[Tick]:
    """Return the values whose texts do not run into each other: the last, the first, then the others in their order.

    The first bears the `units`, one behind each of its texts.
    """
    ordered = [*values[-1:], *values[:1], *values[1:-1]] if len(values) > 1 else list(values)
    found: list[Tick] = []
    for value in ordered:
        at, texts = scale(value), write(value)
        if units and value == values[0]:
            texts = tuple(f"{text} {unit}".rstrip() for text, unit in zip(texts, units, strict=True))
        for width in (NARROW, WIDE):
            others = [tick for tick in found if width == WIDE or not tick.wide]
            if all(_apart(at, texts, other, width) for other in others):
                found.append(Tick(at, texts, width == WIDE))
                break
    return sorted(found, key=lambda tick: tick.at)


def _apart(at: float, texts: tuple[str, ...], other: Tick, width: int) -> bool:
    first, last = sorted(((at, texts), (other.at, other.texts)))
    return span(first[0], first[1], width)[1] + _GAP <= span(last[0], last[1], width)[0]


def span(at: float, texts: Sequence[str], width: float) -> tuple[float, float]:
    """Return where texts at a place begin and end in pixels: at the edges inward, else around it."""
    length = _LETTER * max((len(text) for text in texts), default=0)
    anchor = tick_anchor(at)
    start = at * width - (0 if anchor == "start" else length if anchor == "end" else length / 2)
    return start, start + length


def tick_anchor(at: float) -> str:
    """Return the anchor of a text at its tick, so that none leaves the drawing."""
    return "start" if at < 0.08 else "end" if at > 0.92 else "middle"


def whole_count(value: float) -> str:
    """Return all of its digits, in groups of three."""
    return f"{value:,.0f}"


def short_count(value: float) -> str:
    """`89`, `1k`, `45.7k`, `23.4M`."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def round_ticks(last: int, most: int) -> list[int]:
    """0 and at most `most` round numbers up to `last`, in equal steps."""
    return list(range(0, last + 1, round_step(last, most)))


def round_step(last: int, most: int) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50… of which at most `most` fit into `last`."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if last <= step * factor * most:
                return step * factor
        step *= 10
