"""Rows of prices as a document has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from kvtool.accounting.prices.price_row import PriceRow, Rates
from kvtool.results.documents.prices import PriceLine, PricesDocument

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def prices_document(rows: Sequence[PriceRow]) -> PricesDocument:
    """Return the rows in their order."""
    return PricesDocument(rows=[_line(row) for row in rows])


def _line(row: PriceRow) -> PriceLine:
    rates = row.rates
    return PriceLine(
        provider=row.provider,
        models=[re.sub(r"\\(.)", r"\1", name) for name in row.models],
        since=None if row.since is None else row.since.isoformat(),
        until=None if row.until is None else row.until.isoformat(),
        currency=row.currency,
        input=plain(rates.input),
        cache_read=plain(rates.read),
        cache_write=plain(rates.write),
        cache_write_1h=plain(rates.write_1h),
        output=plain(rates.output),
        storage_hour=None if rates.storage_hour is None else plain(rates.storage_hour),
        conditions=list(_conditions(row)),
        checked=None if row.checked is None else row.checked.isoformat(),
        source=row.source,
        confirmed=row.confirmed,
    )


def _conditions(row: PriceRow) -> Iterator[str]:
    for tokens, rates in row.above:
        yield f"above {tokens:,} tokens: {_describe_rates(rates)}"
    for hours, rates in row.hours:
        when = ", ".join(f"{start:%H:%M}-{end:%H:%M}" for start, end in hours.windows)
        days = "" if len(hours.days) == 7 else f" on {', '.join(_DAYS[day] for day in sorted(hours.days))}"
        yield f"{when} UTC{days}: {_describe_rates(rates)}"
    if row.batch is not None:
        yield f"batch: {_describe_rates(row.batch.rates)}"
    for name, part in row.tiers.items():
        yield f"{name}: {_describe_rates(part.rates)}"


def _describe_rates(rates: Rates) -> str:
    return f"input {plain(rates.input)}, read {plain(rates.read)}, output {plain(rates.output)}"


def plain(rate: Decimal) -> str:
    """Return a rate without an exponent, with two places at least."""
    text = format(rate.normalize(), "f")
    whole, _, places = text.partition(".")
    return f"{whole}.{places:0<2}"
