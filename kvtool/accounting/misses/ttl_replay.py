"""Replay the gaps of sessions: what the same requests cost with marks for 5 minutes, and with marks for an hour."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from kvtool.results.misses import TtlCosts
from kvtool.results.money import amount_text
from kvtool.workload.call import Usage

if TYPE_CHECKING:
    from kvtool.accounting.misses.prompt_states import PromptState
    from kvtool.accounting.prices.price_row import Rates

MINUTES, HOUR = 300.0, 3600.0
"""Seconds of the two times to live that a mark can ask for."""


@dataclass(slots=True)
class TtlReplay:
    """Sums of the requests whose provider sells both times to live. What was reported stays a fact under its own time to live."""

    requests: int = 0
    models: set[str] = field(default_factory=set)
    paid: Decimal = Decimal(0)
    costs: dict[float, Decimal] = field(default_factory=lambda: {MINUTES: Decimal(0), HOUR: Decimal(0)})
    gained: dict[float, int] = field(default_factory=lambda: {MINUTES: 0, HOUR: 0})
    """Tokens that more are read than were (negative: fewer)."""

    def add(
        self,
        usage: Usage,
        answer: int,
        rates: Rates,
        before: PromptState | None,
        gap: float | None,
        expired: int,
        *,
        model: str | None = None,
    ) -> None:
        """Add a request, sent so many seconds after the one that stored its prefix; that gap lost `expired` tokens."""
        prompt, read, written = usage.prompt, usage.cached, usage.all_written
        if prompt is None or read is None or written is None or rates.cache_write_1h is None:
            return
        from kvtool.accounting.prices.bill import Charged, bill_of
        from kvtool.accounting.prices.money_book import reported_bill

        self.requests += 1
        self.models.update(() if model is None else (model,))
        self.paid += reported_bill(usage, prompt, answer, rates).total
        for ttl in self.costs:
            gained = 0
            if before is not None and gap is not None:
                if gap <= ttl:
                    gained = min(expired, prompt - read)
                elif ttl < HOUR:
                    gained = -min(read, before.stored_1h)
            self.gained[ttl] += gained
            now_written = max(written - gained, 0)
            hour = now_written if ttl == HOUR else 0
            self.costs[ttl] += bill_of(Charged(prompt, read + gained, now_written, hour, answer), rates).total

    def result(self) -> TtlCosts | None:
        """Return the sums; None where no request could choose."""
        if not self.requests:
            return None
        paid, minutes, hour = map(amount_text, (self.paid, self.costs[MINUTES], self.costs[HOUR]))
        models = sorted(self.models)
        return TtlCosts(requests=self.requests, paid=paid, five_minutes=minutes, one_hour=hour, models=models)
