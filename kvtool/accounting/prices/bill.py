"""The cost of requests, part by part; nothing is rounded before it is printed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import ROUND_HALF_UP, Decimal

from kvtool.accounting.prices.price_row import MILLION, Rates

_CENT = Decimal("0.01")
_FINER = ((Decimal("0.001"), Decimal("0.000001")), (Decimal("0.1"), Decimal("0.0001")))
"""Amounts below the first are shown with the places of the second, so that a column of small amounts can be compared."""


@dataclass(frozen=True, slots=True)
class Charged:
    """Tokens of a request by their price: of `prompt` tokens `cached` are read and `written` stored, `written_1h` of them for an
    hour."""

    prompt: int
    cached: int = 0
    written: int = 0
    written_1h: int = 0
    output: int = 0


@dataclass(slots=True)
class Bill:
    """A sum of money by purpose."""

    input: Decimal = Decimal(0)
    written: Decimal = Decimal(0)
    read: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    storage: Decimal = Decimal(0)

    @property
    def prompt(self) -> Decimal:
        """Return the cost of prompts alone."""
        return self.input + self.written + self.read

    @property
    def total(self) -> Decimal:
        return self.input + self.written + self.read + self.output + self.storage

    def add(self, other: Bill) -> None:
        """Put another bill on top."""
        for part in fields(Bill):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))


def bill_of(tokens: Charged, rates: Rates) -> Bill:
    """Return the cost of one request; its parts are cut to the prompt."""
    cached = min(max(tokens.cached, 0), tokens.prompt)
    written = min(max(tokens.written, 0), tokens.prompt - cached)
    hour = min(max(tokens.written_1h, 0), written)
    plain = tokens.prompt - cached - written
    if not rates.writes_cost and not hour:
        plain, written = plain + written, 0
    return Bill(
        input=plain * rates.input / MILLION,
        written=((written - hour) * rates.write + hour * rates.write_1h) / MILLION,
        read=cached * rates.read / MILLION,
        output=tokens.output * rates.output / MILLION,
    )


def storage_cost(tokens: int, seconds: float, rates: Rates) -> Decimal:
    """Return the cost of keeping tokens for a time; nothing if storage has no price."""
    if rates.storage_hour is None:
        return Decimal(0)
    return tokens * rates.storage_hour * Decimal(str(seconds)) / 3600 / MILLION


def shown_money(amount: Decimal, currency: str = "USD") -> str:
    """Return an amount for people: cents, below ten of them with two places more, below a tenth of one with four; halves go up."""
    size = abs(amount)
    places = next((places for most, places in _FINER if 0 < size < most), _CENT)
    number = f"{size.quantize(places, ROUND_HALF_UP):,f}"
    sign = "-" if amount < 0 else ""
    return f"{sign}${number}" if currency == "USD" else f"{sign}{number} {currency}"
