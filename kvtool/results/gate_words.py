"""Figures of gates in words: never two that look the same and are not."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import floor

from kvtool.results.verdict import Check
from kvtool.text.terminal.numbers import duration, percent, plural

_MOST_DIGITS = 7


def gate_percent(rate: float | Fraction) -> Decimal:
    """Return percent, rounded down: to a tenth where whole percent lose more than a tenth of the rate."""
    whole = floor(100 * rate)
    return Decimal(whole) if 10 * whole >= 9 * 100 * rate else Decimal(floor(1000 * rate)) / 10


def gate_limit(rate: float | Fraction) -> str:
    """Return that as a share, as flags take it; empty where no limit is left."""
    share = gate_percent(rate) / 100
    return str(share) if share else ""


def percents(one: float, other: float) -> tuple[str, str]:
    """Two ratios with as many decimals as it takes to tell them apart."""
    return _distinguished(one, other, percent, 100, "%")


def durations(one: float, other: float) -> tuple[str, str]:
    """Two times in seconds, in milliseconds where `duration` would round them to the same."""
    return _distinguished(one, other, duration, 1e3, " ms")


def dollars(one: float, other: float) -> tuple[str, str]:
    """Two amounts of dollars, in cents where that tells them apart."""
    return _distinguished(one, other, lambda amount: f"${amount:,.2f}", 1, " dollars")


def goodputs(one: float, other: float) -> tuple[str, str]:
    """Two rates of requests, with as many decimals as it takes to tell them apart."""
    return _distinguished(one, other, lambda rate: f"{rate:,.2f}/s", 1, "/s")


def _distinguished(
    one: float, other: float, usual: Callable[[float], str], factor: float, unit: str
) -> tuple[str, str]:
    """As usual, or in the unit with as many decimals as it takes where that would look the same and is not."""
    if one == other or usual(one) != usual(other):
        return usual(one), usual(other)
    for digits in range(2, _MOST_DIGITS):
        texts = f"{factor * one:.{digits}f}{unit}", f"{factor * other:.{digits}f}{unit}"
        if texts[0] != texts[1]:
            return texts
    return f"{factor * one}{unit}", f"{factor * other}{unit}"


def points(difference: float) -> str:
    """Return a difference of ratios in percentage points, never rounded to nothing."""
    return f"{_always_something(100 * difference, '')} points"


def change(difference: float) -> str:
    """Return a difference of ratios in points with its sign: `-26.9`, never `-0.0`."""
    return _always_something(100 * difference, "+")


def _always_something(value: float, sign: str) -> str:
    """One decimal, or as many as it takes to be another figure than 0."""
    for digits in range(1, _MOST_DIGITS):
        text = f"{value:{sign}.{digits}f}"
        if not value or float(text):
            return text
    return f"{value:{sign}.1e}"


def brief(check: Check) -> str:
    """What a check that is not met found, in a few words, without the name of what it is about."""
    limit, actual = check.limit, check.actual
    if check.kind in ("audit", "probe"):
        return check.message
    if check.kind == "gpus" and limit is not None:
        return f"no fleet found, allowed {limit:,.0f}" if actual is None else f"GPUs {actual:,.0f} > {limit:,.0f}"
    if limit is None or actual is None:
        return "no baseline" if limit is None and check.kind == "baseline" else "cannot be checked"
    if check.kind == "findings":
        return f"{plural(int(actual), 'finding')} of {check.id.rsplit('/', 1)[-1]}"
    if check.kind == "hit_rate":
        return " < ".join(percents(actual, limit))
    if check.kind == "baseline":
        return "fell " + " -> ".join(percents(limit if check.baseline is None else check.baseline, actual))
    if check.kind == "reachable_gap":
        return f"gap {' > '.join(percents(actual, limit))}"
    if check.kind == "reported_gap":
        return f"reported gap {' > '.join(percents(actual, limit))}"
    if check.kind == "cost_per_1k_requests":
        return f"cost {' > '.join(dollars(actual, limit))}"
    if check.kind == "goodput":
        return f"goodput {' < '.join(goodputs(actual, limit))}"
    return f"{check.kind.removeprefix('ttft_')} {' > '.join(durations(actual, limit))}"


def subject(group: str | None, workload: str | None = None, covered: str = "") -> str:
    """What a check is about, in words; `covered` is what it covers of requests that it does not cover all."""
    name = (covered or "all requests") if group is None else group
    return name if workload is None else f"{name} of {workload}"
