"""Known mistakes of programs that compute costs: each is the amount that it adds to the right cost of a request."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from itertools import product

from kvtool.accounting.prices.bill import shown_money
from kvtool.accounting.prices.price_row import MILLION, Rates
from kvtool.text.terminal.numbers import in_words
from kvtool.workload.call import Usage

_CLOSE = Decimal("0.001")
"""Part of a difference that a mistake may leave."""
_CLEAR = 4
"""How many times its rounding a difference must be, to show a mistake."""
_MOST = 2_000
"""Requests with a difference that are compared: more show nothing else."""
_SHARE = 0.9
"""Of the requests with a difference, those that a mistake must explain."""
_MISTAKES = {
    "reads_twice": "cached tokens are billed as input and again as reads",
    "reads_as_input": "cached tokens are billed as input",
    "reads_free": "cached tokens are not billed",
    "reads_taken_off": "cached tokens are taken off an input that does not contain them",
    "writes_twice": "written tokens are billed as input and again as writes",
    "writes_as_input": "written tokens are billed as input",
    "writes_free": "written tokens are not billed",
    "hour_at_5m": "writes for 1 hour are billed at the price for 5 minutes",
    "5m_at_hour": "writes for 5 minutes are billed at the price for 1 hour",
    "no_reasoning": "reasoning tokens are left out",
    "reasoning_twice": "reasoning tokens are billed twice",
    "short_price": "long prompts are billed at the price of short ones",
}


class CostMistakes:
    """Compare the cost that a log gives each request with ours."""

    def __init__(self) -> None:
        self._differing = 0
        self._fits: Counter[tuple[str, ...]] = Counter()
        self._cached: list[tuple[Decimal, Decimal]] = []
        """Of requests with cached tokens: what a million of them costs in the log, and as input."""

    def add(self, rates: Rates, usage: Usage, logged: Decimal, ours: Decimal, short: Decimal | None = None) -> None:
        """Enter a request. `short`: its cost at the prices of short prompts, where it has others."""
        apart, exponent = logged - ours, logged.as_tuple().exponent
        rounding = Decimal(5).scaleb(exponent - 1) if isinstance(exponent, int) else Decimal(0)
        if abs(apart) <= max(_CLEAR * rounding, _CLOSE * ours) or self._differing >= _MOST:
            return
        self._differing += 1
        least = max(rounding, _CLOSE * abs(apart))
        for names, amount in _amounts(rates, usage, short, ours):
            self._fits[names] += amount != 0 and abs(apart - amount) <= least
        if usage.cached:
            self._cached.append((rates.read + apart * MILLION / usage.cached, rates.input))

    def found(self) -> str | None:
        """Return the mistakes that explain the logged costs, in words; None where none do, or where the costs agree."""
        best = min(self._fits, key=lambda names: (-self._fits[names], len(names)), default=())
        if self._differing and self._fits[best] >= _SHARE * self._differing:
            return f"fits a known mistake: {in_words(_MISTAKES[name] for name in best)}"
        shares = sorted(cost / full for cost, full in self._cached if full)
        if (
            len(shares) >= _SHARE * self._differing
            and shares
            and 1 < shares[0] <= shares[-1] <= shares[0] + _CLOSE <= 2
        ):
            cost, full = (shown_money(each) for each in self._cached[0])
            return f"bills a million cached tokens at {cost}, as input ({full}) and once more"
        return None


def _amounts(rates: Rates, usage: Usage, short: Decimal | None, ours: Decimal) -> list[tuple[tuple[str, ...], Decimal]]:
    """Return what each mistake adds to the cost of a request, and what one of reads, of writes and of reasoning add together."""
    cached, written, hour = usage.cached or 0, usage.all_written or 0, usage.written_1h or 0
    plain, reasoning = max((usage.prompt or 0) - cached - written, 0), usage.reasoning or 0
    writes = (written - hour) * rates.write + hour * rates.write_1h
    kinds: list[dict[str, Decimal]] = [
        {
            "reads_twice": cached * rates.input,
            "reads_as_input": cached * (rates.input - rates.read),
            "reads_free": -cached * rates.read,
            "reads_taken_off": -min(cached, plain) * rates.input,
        },
        {
            "writes_twice": written * rates.input,
            "writes_as_input": written * rates.input - writes,
            "writes_free": -writes,
            "hour_at_5m": -hour * (rates.write_1h - rates.write),
            "5m_at_hour": (written - hour) * (rates.write_1h - rates.write),
        },
        {"no_reasoning": -reasoning * rates.output, "reasoning_twice": reasoning * rates.output},
    ]
    used = [[("", Decimal(0)), *kind.items()] for kind in kinds]
    found = [
        (tuple(name for name, _ in parts if name), sum((amount for _, amount in parts), Decimal(0)) / MILLION)
        for parts in product(*used)
    ]
    return [*found[1:], *([] if short is None else [(("short_price",), short - ours)])]
