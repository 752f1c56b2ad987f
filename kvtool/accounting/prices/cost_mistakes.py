"""Known mistakes of programs that compute costs: each is the amount that it adds to the right one, summed over all requests."""

from __future__ import annotations

from decimal import Decimal

from kvtool.accounting.prices.price_row import MILLION, Rates
from kvtool.workload.call import Usage

_HALF_A_CENT = Decimal("0.005")
_SMALL = Decimal("0.02")
"""Part of the difference that a mistake may leave: of small amounts half a cent is much."""
_MISTAKES = {
    "billed_twice": "cached tokens are billed as input and again as reads",
    "no_cache_price": "cached tokens are billed as input",
    "hour_at_5m": "writes for 1 hour are billed at the price for 5 minutes",
    "no_reasoning": "reasoning tokens are left out",
}


class CostMistakes:
    """Sum what each mistake would add to the cost of the requests whose log has a cost."""

    def __init__(self) -> None:
        self._added = dict.fromkeys(_MISTAKES, Decimal(0))

    def add(self, rates: Rates, usage: Usage) -> None:
        """Enter a request."""
        cached, hour = usage.cached or 0, usage.written_1h or 0
        self._added["billed_twice"] += cached * rates.input / MILLION
        self._added["no_cache_price"] += cached * (rates.input - rates.read) / MILLION
        self._added["hour_at_5m"] -= hour * (rates.write_1h - rates.write) / MILLION
        self._added["no_reasoning"] -= (usage.reasoning or 0) * rates.output / MILLION

    def found(self, logged: Decimal, ours: Decimal) -> str | None:
        """Return the mistake that gives the logged cost to the cent, in words; None where none does, or where the costs agree."""
        apart = logged - ours
        if abs(apart) < _HALF_A_CENT / 10:
            return None
        fits = [
            (abs(apart - added), name)
            for name, added in self._added.items()
            if added and abs(apart - added) <= min(_HALF_A_CENT, _SMALL * abs(apart))
        ]
        return _MISTAKES[min(fits)[1]] if fits else None
