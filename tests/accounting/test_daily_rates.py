"""The day from which a model's hit rate is far lower than before."""

from __future__ import annotations

import random
from datetime import date, timedelta

import pytest

from kvtool.accounting.prices.daily_rates import DailyRates
from tests.conftest import some

START = date(2026, 11, 1)


def days_of(rates: list[float], r: random.Random) -> DailyRates:
    found = DailyRates()
    for number, rate in enumerate(rates):
        prompt = r.randint(10_000, 10**7)
        found.add("m", START + timedelta(days=number), prompt, round(rate * prompt))
    return found


@pytest.mark.parametrize("seed", some(range(20), 5))
def test_a_fall_is_said_with_its_day(seed: int) -> None:
    r = random.Random(seed)
    before, after = r.randint(3, 12), r.randint(1, 8)
    high = r.uniform(0.5, 0.9)
    rates = [high + r.uniform(0, 0.09) for _ in range(before)] + [r.uniform(0.0, 0.1) for _ in range(after)]
    (told,) = days_of(rates, r).falls()
    assert f"until {START + timedelta(days=before - 1)}, " in told
    assert told.endswith(f"{'on' if after == 1 else 'from'} {START + timedelta(days=before)}.")


@pytest.mark.parametrize("seed", some(range(20), 5))
def test_rising_or_swinging_rates_are_no_fall(seed: int) -> None:
    r = random.Random(seed)
    rising = sorted(r.random() for _ in range(r.randint(1, 12)))
    swinging = [0.2 + 0.5 * (number % 2) + r.uniform(0, 0.05) for number in range(r.randint(4, 12))]
    assert not list(days_of(rising, r).falls())
    assert not list(days_of(swinging, r).falls())
    assert not list(days_of([0.8, 0.8, 0.8, 0.79 - r.uniform(0, 0.08)], r).falls())
