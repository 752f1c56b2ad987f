"""The price of a model from one day to another: rates in a currency per million tokens, all of them exact decimals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal

from kvtool.errors import Place

_LITERAL = re.compile(r"(?:[\w:@/ -]|\\[^\w])+")
"""A pattern that is the name of one model."""
_USUAL_TIERS = ("default", "standard", "auto", "on_demand", "STANDARD", "standard_only")
MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates per million tokens; `storage_hour` per million tokens and hour. None: unknown, or not charged apart from the input."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None
    storage_hour: Decimal | None = None

    @property
    def read(self) -> Decimal:
        """Rate of a token read from the cache."""
        return self.input if self.cache_read is None else self.cache_read

    @property
    def write(self) -> Decimal:
        """Rate of a token written for the usual time."""
        short = self.cache_write_5m if self.cache_write_5m is not None else self.cache_write
        return self.input if short is None else short

    @property
    def write_1h(self) -> Decimal:
        """Rate of a token written for an hour."""
        return self.write if self.cache_write_1h is None else self.cache_write_1h

    def above_read(self, *, written: int, written_1h: int) -> Decimal:
        """Return what a token that was not read costs above a read, by the rate of what its request wrote; else as input."""
        rate = self.write_1h if written_1h else self.write if written else self.input
        return rate - self.read

    @property
    def writes_cost(self) -> bool:
        """Return whether a written token has a separate price."""
        return self.write != self.input

    def times(self, factor: Decimal) -> Rates:
        """Return every rate times a factor."""

        def of(rate: Decimal | None) -> Decimal | None:
            return None if rate is None else rate * factor

        return Rates(
            self.input * factor,
            self.output * factor,
            of(self.cache_read),
            of(self.cache_write),
            of(self.cache_write_5m),
            of(self.cache_write_1h),
            of(self.storage_hour),
        )


@dataclass(frozen=True, slots=True)
class Hours:
    """Hours of the day, by UTC, on some days of the week (0 is Monday) and never on the dates that are left out."""

    windows: tuple[tuple[time, time], ...]
    days: frozenset[int] = frozenset(range(7))
    never: frozenset[date] = frozenset()

    def hold(self, moment: datetime) -> bool:
        """Return whether a moment is in these hours; an end of 00:00 is midnight."""
        if moment.weekday() not in self.days or moment.date() in self.never:
            return False
        now = moment.time()
        return any(start <= now and (now < end or end == time(0)) for start, end in self.windows)


@dataclass(frozen=True, slots=True)
class PriceRow:
    """The price of some models (patterns of whole names) of a provider from the day `since` to the day before `until`.

    `above` are rates for a request of more than so many prompt tokens, all of its tokens included; `hours` those of some hours;
    `tiers` those of service tiers, and `batch` of batches, with their own `above`. `written` is the row's place in its file.
    """

    provider: str
    models: tuple[str, ...]
    rates: Rates
    since: date | None = None
    until: date | None = None
    checked: date | None = None
    source: str = ""
    currency: str = "USD"
    above: tuple[tuple[int, Rates], ...] = ()
    hours: tuple[tuple[Hours, Rates], ...] = ()
    batch: PriceRow | None = None
    tiers: Mapping[str, PriceRow] = field(default_factory=dict)
    written: Place | None = None
    confirmed: bool = True
    """False if only one source has this price."""

    def is_of(self, name: str) -> bool:
        """Return whether the row applies to a model of this name."""
        return any(re.fullmatch(pattern, name) is not None for pattern in self.models)

    def literal_names(self) -> list[str]:
        """Return its patterns that are the name of one model, as that name."""
        return [re.sub(r"\\(.)", r"\1", name) for name in self.models if _LITERAL.fullmatch(name)]

    def patterns(self) -> list[str]:
        """Return its patterns that may be those of several models."""
        return [name for name in self.models if not _LITERAL.fullmatch(name)]

    def applies_on(self, day: date) -> bool:
        """Return whether the row applies on a day."""
        return (self.since is None or self.since <= day) and (self.until is None or day < self.until)

    def tells(self, way: str) -> bool:
        """Return whether it has the price of a batch or of a service tier, or that one costs as usual."""
        return self.batch is not None if way == "batch" else way in self.tiers or way in _USUAL_TIERS

    def rates_for(self, prompt: int, moment: datetime | None, *, batch: bool = False, tier: str | None = None) -> Rates:
        """Return the rates for one request. A tier without a price costs the usual one."""
        if batch and self.batch is not None:
            return self.batch.rates_for(prompt, moment)
        if tier is not None and tier in self.tiers:
            return self.tiers[tier].rates_for(prompt, moment)
        found = self.rates
        for hours, rates in self.hours:
            if moment is not None and hours.hold(moment):
                found = rates
        for tokens, rates in self.above:
            if prompt > tokens:
                found = rates
        return found
