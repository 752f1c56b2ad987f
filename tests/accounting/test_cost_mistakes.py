"""Known mistakes of accounting: logged costs that have one are named, whatever else differs, and no others are."""

from __future__ import annotations

import random
from decimal import Decimal

from kvtool.accounting.prices.bill import Charged, bill_of
from kvtool.accounting.prices.cost_mistakes import CostMistakes
from kvtool.accounting.prices.price_row import MILLION, Rates
from kvtool.workload.call import Usage

RATES = Rates(Decimal(5), Decimal(25), Decimal("0.5"), Decimal("6.25"), Decimal("6.25"), Decimal(10))


def made_costs(seed: int, *mistakes: str, places: int = 8) -> CostMistakes:
    """Return random requests whose logged costs have these mistakes; every third one has no cached tokens."""
    source, found = random.Random(seed), CostMistakes()
    for number in range(source.randrange(3, 40)):
        cached, hour, minutes, plain, output = (source.randrange(1_000, 60_000) for _ in range(5))
        cached = cached if number % 3 else 0
        reasoning = source.randrange(output)
        written, prompt = hour + minutes, cached + hour + minutes + plain
        ours = bill_of(Charged(prompt, cached, written, hour, output), RATES).total
        added = {
            "again as reads": cached * RATES.input,
            "cached tokens are billed as input": cached * (RATES.input - RATES.read),
            "cached tokens are not billed": -cached * RATES.read,
            "taken off": -min(cached, plain) * RATES.input,
            "again as writes": written * RATES.input,
            "written tokens are not billed": -minutes * RATES.write - hour * RATES.write_1h,
            "at the price for 5 minutes": -hour * (RATES.write_1h - RATES.write),
            "at the price for 1 hour": minutes * (RATES.write_1h - RATES.write),
            "reasoning tokens are left out": -reasoning * RATES.output,
            "reasoning tokens are billed twice": reasoning * RATES.output,
            "old read price": cached * RATES.input + cached * RATES.read / 4,
            "noise": ours * Decimal(str(source.uniform(-0.5, 2.0))) * MILLION,
        }
        logged = ours + sum((added[each] for each in mistakes), Decimal(0)) / MILLION
        usage = Usage(prompt, cached, written, minutes, hour, output, reasoning)
        found.add(RATES, usage, round(logged, places), ours)
    return found


def test_mistakes_are_named_together() -> None:
    for mistakes in [
        ("again as reads",),
        ("cached tokens are billed as input",),
        ("cached tokens are not billed",),
        ("taken off",),
        ("written tokens are not billed",),
        ("at the price for 5 minutes",),
        ("at the price for 1 hour",),
        ("reasoning tokens are left out",),
        ("again as reads", "again as writes"),
        ("again as writes", "reasoning tokens are billed twice"),
    ]:
        for seed in range(8):
            words = made_costs(seed, *mistakes, places=4).found()
            assert words is not None
            assert all(each in words for each in mistakes)


def test_no_mistake_is_claimed_of_a_right_cost_or_of_another_price() -> None:
    for seed in range(40):
        assert made_costs(seed).found() is None
        assert made_costs(seed, "noise").found() is None


def test_cached_tokens_that_cost_more_than_input_are_billed_again_at_some_price() -> None:
    found = CostMistakes()
    for cached in range(10_000, 60_000, 7_000):
        logged = cached * (RATES.input + RATES.read / 4) / MILLION
        found.add(RATES, Usage(cached, cached), logged, cached * RATES.read / MILLION)
    assert found.found() == "bills a million cached tokens at $5.13, as input ($5.00) and once more"
