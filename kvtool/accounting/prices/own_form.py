"""kvtool's own form of prices: a list of rows, each with its models, its days, its source and the day it was checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvtool.accounting.prices.price_document import Pointer, PriceDocument
from kvtool.accounting.prices.price_row import Hours, PriceRow, Rates

FORM = "kvtool.prices/1"
_RATES = ("input", "output", "cache_read", "cache_write", "cache_write_5m", "cache_write_1h", "storage_hour")
_ROW = (
    "provider",
    "models",
    "from",
    "to",
    "checked",
    "source",
    "currency",
    "above",
    "hours",
    "batch",
    "tiers",
    "confirmed",
)


def read_own(document: PriceDocument, *, places: bool = True) -> list[PriceRow]:
    """Return its rows, with their places. KvtoolError, with its place, for a key that is not known or a value that is none."""
    rows = document.items(document.value.get("rows"), ("rows",))
    found = [_row(document, row, ("rows", number)) for number, row in enumerate(rows)]
    return [replace(row, written=document.place(("rows", at))) for at, row in enumerate(found)] if places else found


def _row(document: PriceDocument, value: object, at: Pointer) -> PriceRow:
    row = document.mapping(value, at)
    unknown = sorted(set(row) - {*_ROW, *_RATES})
    if unknown:
        raise document.error(
            f"unknown key `{unknown[0]}`", (*at, unknown[0]), f"known keys: {', '.join((*_ROW, *_RATES))}"
        )
    models = row.get("models")
    names = [models] if isinstance(models, str) else document.items(models, (*at, "models"))
    for number, name in enumerate(names):
        try:
            re.compile(name)
        except (re.error, TypeError):
            raise document.error("neither a model name nor a name pattern", (*at, "models", number)) from None
    rates = _rates(document, row, at, None)
    return PriceRow(
        provider=str(row.get("provider", "")),
        models=tuple(names),
        rates=rates,
        since=document.day(row.get("from"), (*at, "from")),
        until=document.day(row.get("to"), (*at, "to")),
        checked=document.day(row.get("checked"), (*at, "checked")),
        source=str(row.get("source", "")),
        currency=str(row.get("currency", "USD")),
        above=_above(document, row, at, rates),
        hours=tuple(
            (_hours(document, one, (*at, "hours", number)), _rates(document, one, (*at, "hours", number), rates))
            for number, one in enumerate(document.items(row.get("hours", []), (*at, "hours")))
        ),
        batch=_part(document, row["batch"], (*at, "batch"), rates) if "batch" in row else None,
        tiers={
            name: _part(document, part, (*at, "tiers", name), rates)
            for name, part in document.mapping(row.get("tiers", {}), (*at, "tiers")).items()
        },
        confirmed=row.get("confirmed") is not False,
    )


def _part(document: PriceDocument, value: object, at: Pointer, over: Rates) -> PriceRow:
    """Return rates of a batch or of a service tier; a bare number is a factor of the others."""
    if not isinstance(value, Mapping):
        return PriceRow("", (), over.times(document.money(value, at)))
    rates = _rates(document, value, at, over)
    return PriceRow("", (), rates, above=_above(document, value, at, rates))


def _above(document: PriceDocument, row: Mapping[str, Any], at: Pointer, over: Rates) -> tuple[tuple[int, Rates], ...]:
    found = []
    for number, one in enumerate(document.items(row.get("above", []), (*at, "above"))):
        here = (*at, "above", number)
        tokens = document.tokens(document.mapping(one, here).get("tokens"), (*here, "tokens"))
        if one.get("whole", True) is not True:
            raise document.error("`whole` must be true: such rates apply to all tokens of a request", (*here, "whole"))
        found.append((tokens, _rates(document, one, here, over)))
    return tuple(sorted(found, key=lambda pair: pair[0]))


def _hours(document: PriceDocument, value: object, at: Pointer) -> Hours:
    one = document.mapping(value, at)
    windows = []
    for number, text in enumerate(document.items(one.get("utc"), (*at, "utc"))):
        start, _, end = str(text).partition("-")
        windows.append((document.hour(start, (*at, "utc", number)), document.hour(end, (*at, "utc", number))))
    days = document.weekdays(one.get("days", list(range(7))), (*at, "days"), first=0)
    never = [document.day(day, (*at, "never")) for day in document.items(one.get("never", []), (*at, "never"))]
    return Hours(tuple(windows), days, frozenset(day for day in never if day is not None))


def _rates(document: PriceDocument, value: object, at: Pointer, over: Rates | None) -> Rates:
    """Return the rates of an object; missing ones come from `over`."""
    given = document.mapping(value, at)
    found = {name: document.money(given[name], (*at, name)) for name in _RATES if given.get(name) is not None}
    base = {} if over is None else {name: getattr(over, name) for name in _RATES}
    for name in ("input", "output"):
        if name not in found and name not in base:
            raise document.error(f"`{name}` is missing: a price per million tokens", at)
    return Rates(**{**base, **found})
