"""Hit rates of models by day, as reported, and the day from which one is far lower than before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date

from kvtool.text.terminal.numbers import percent

_LEAST_DAYS = 3
"""Days before a fall, from which the usual spread of the rate is known."""
_LEAST_FALL = 0.1
"""A fall by less is not said: that much a rate changes with what is asked."""


class DailyRates:
    """The prompt tokens of each model and day, and those read from the cache."""

    def __init__(self) -> None:
        self._days: defaultdict[str, dict[date, tuple[int, int]]] = defaultdict(dict)

    def add(self, model: str, day: date, prompt: int, cached: int) -> None:
        """Add requests of a day."""
        before = self._days[model].get(day, (0, 0))
        self._days[model][day] = (before[0] + prompt, before[1] + cached)

    def falls(self) -> Iterator[str]:
        """Yield a sentence for each model whose rate fell by more than it differs among the days before, and among those after."""
        for model, sums in self._days.items():
            days = sorted(day for day, (prompt, _) in sums.items() if prompt)
            rates = [sums[day][1] / sums[day][0] for day in days]
            at = max(range(_LEAST_DAYS, len(days)), key=lambda at: _gap(rates, at), default=0)
            if not at or _gap(rates, at) <= max(_spread(rates[:at]), _spread(rates[at:]), _LEAST_FALL):
                continue
            before, after = (percent(_rate([sums[day] for day in part])) for part in (days[:at], days[at:]))
            when = "on" if len(days) - at == 1 else "from"
            yield f"Hit rate of {model}: {before} until {days[at - 1]}, {after} {when} {days[at]}."


def _gap(rates: Sequence[float], at: int) -> float:
    return min(rates[:at]) - max(rates[at:])


def _spread(rates: Sequence[float]) -> float:
    return max(rates) - min(rates)


def _rate(sums: Sequence[tuple[int, int]]) -> float:
    return min(sum(cached for _, cached in sums) / sum(prompt for prompt, _ in sums), 1.0)
