"""Known mistakes of accounting: a logged cost that has one is named to the cent, and no other cost is."""

from __future__ import annotations

import random
from decimal import Decimal

from kvtool.accounting.prices.bill import Charged, bill_of
from kvtool.accounting.prices.cost_mistakes import CostMistakes
from kvtool.accounting.prices.price_row import MILLION, Rates
from kvtool.workload.call import Usage

RATES = Rates(Decimal(5), Decimal(25), Decimal("0.5"), Decimal("6.25"), Decimal("6.25"), Decimal(10))


def made_costs(seed: int, mistake: str) -> tuple[CostMistakes, Decimal, Decimal]:
    """Return the sums of random requests, their cost with a mistake, and their cost."""
    source, found = random.Random(seed), CostMistakes()
    logged = ours = Decimal(0)
    for _ in range(source.randrange(2, 40)):
        cached, hour, plain, output = (source.randrange(1_000, 60_000) for _ in range(4))
        reasoning = source.randrange(output)
        usage = Usage(cached + hour + plain, cached, hour, 0, hour, output, reasoning)
        cost = bill_of(Charged(cached + hour + plain, cached, hour, hour, output), RATES).total
        found.add(RATES, usage)
        ours += cost
        match mistake:
            case "twice":
                cost += cached * RATES.input / MILLION
            case "no cache price":
                cost += cached * (RATES.input - RATES.read) / MILLION
            case "5 minutes":
                cost -= hour * (RATES.write_1h - RATES.write) / MILLION
            case "reasoning":
                cost -= reasoning * RATES.output / MILLION
            case "noise":
                cost *= Decimal(str(source.uniform(0.5, 3.0)))
        logged += cost
    return found, logged, ours


def test_a_mistake_is_named() -> None:
    words = {
        "twice": "and again as reads",
        "no cache price": "as input",
        "5 minutes": "1 hour",
        "reasoning": "reasoning",
    }
    for mistake, said in words.items():
        for seed in range(25):
            found, logged, ours = made_costs(seed, mistake)
            assert said in (found.found(logged, ours) or "")


def test_no_mistake_is_claimed_of_a_right_cost_or_of_another_price() -> None:
    for seed in range(25):
        found, logged, ours = made_costs(seed, "none")
        assert found.found(logged, ours) is None
    claimed = 0
    for seed in range(200):
        found, logged, ours = made_costs(seed, "noise")
        claimed += found.found(logged, ours) is not None
    assert claimed <= 2
