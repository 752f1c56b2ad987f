"""The form of genai-prices' `data.json`: providers with models, each with prices that may have dates, hours, steps and variants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import time
from functools import partial
from typing import Any

from kvtool.accounting.prices.price_document import Pointer, PriceDocument
from kvtool.accounting.prices.price_row import Hours, PriceRow, Rates

_NAMES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}
_PROVIDERS = {"google": "gemini", "x-ai": "xai", "moonshotai": "moonshot", "aws": "bedrock"}
SOURCE = "genai-prices"


def read_genai(document: PriceDocument) -> list[PriceRow]:
    """Return its rows; models that are not priced by tokens of text are left out."""
    rows: list[PriceRow] = []
    for at, provider in enumerate(document.value):
        name = str(document.mapping(provider, (at,)).get("id", ""))
        for number, model in enumerate(document.items(provider.get("models", []), (at, "models"))):
            rows += _model(
                document,
                _PROVIDERS.get(name, name),
                document.mapping(model, (at, "models", number)),
                (at, "models", number),
            )
    return rows


def _model(document: PriceDocument, provider: str, model: Mapping[str, Any], at: Pointer) -> list[PriceRow]:
    prices = model.get("prices")
    given = prices if isinstance(prices, list) else [{"prices": prices}]
    patterns = (*_patterns(model.get("match")), re.escape(str(model.get("id", "")).lower().rsplit("/", 1)[-1]))
    checked = document.day(model.get("prices_checked"), (*at, "prices_checked"))
    rows: list[PriceRow] = []
    hours: list[tuple[Hours, Rates]] = []
    for number, part in enumerate(given):
        one = document.mapping(part, (*at, "prices", number))
        here = (*at, "prices", number, "prices") if isinstance(prices, list) else (*at, "prices")
        found = _rates(document, one.get("prices"), here)
        if found is None:
            continue
        rates, above = found
        limits = document.mapping(one.get("constraint") or {}, (*at, "prices", number, "constraint"))
        if "start_time" in limits:
            start, end = (document.hour(limits.get(key), (*at, "prices", number)) for key in ("start_time", "end_time"))
            windows = ((start, end),) if start < end or end == time(0) else ((start, time(0)), (time(0), end))
            hours.append((Hours(windows), rates))
            continue
        since = document.day(limits.get("start_date"), (*at, "prices", number))
        row = PriceRow(provider, patterns, rates, since, None, checked, SOURCE, above=above)
        rows.append(row)
    rows.sort(key=lambda row: (row.since is not None, row.since))
    ends = [*(row.since for row in rows[1:]), None][: len(rows)]
    batch, tiers = _variants(document, model, at)
    made = []
    for row, until in zip(rows, ends, strict=True):
        was = partial(_scaled_tier, row=row, latest=rows[-1].rates)
        then = {name: was(part) for name, part in tiers.items()}
        made.append(
            replace(row, until=until, hours=tuple(hours), batch=None if batch is None else was(batch), tiers=then)
        )
    return made


def _scaled_tier(part: PriceRow, row: PriceRow, latest: Rates) -> PriceRow:
    """Return a tier for an earlier price: the same share of that price as today."""
    if row.rates is latest or not latest.input:
        return part
    factor = part.rates.input / latest.input
    return PriceRow("", (), row.rates.times(factor), above=tuple((at, rates.times(factor)) for at, rates in row.above))


def _variants(
    document: PriceDocument, model: Mapping[str, Any], at: Pointer
) -> tuple[PriceRow | None, dict[str, PriceRow]]:
    """Return the prices of batches and service tiers. Their dates are days of entry, not the first days of a price."""
    batch, tiers = None, {}
    for number, one in enumerate(document.items(model.get("price_variants") or [], (*at, "price_variants"))):
        here = (*at, "price_variants", number)
        variant = document.mapping(one, here)
        found = _rates(document, variant.get("prices"), (*here, "prices"))
        when = document.mapping(variant.get("when") or {}, (*here, "when"))
        if found is None or len(when) != 1:
            continue
        row = PriceRow("", (), found[0], above=found[1])
        if when.get("processing") == "batch":
            batch = row
        elif "service_tier" in when:
            tiers[str(when["service_tier"])] = row
    return batch, tiers


def _rates(document: PriceDocument, value: object, at: Pointer) -> tuple[Rates, tuple[tuple[int, Rates], ...]] | None:
    """Return the rates, and those above so many tokens; None where there are none for text."""
    given = {} if value is None else document.mapping(value, at)
    if given.get("input_mtok") is None or given.get("output_mtok") is None:
        return None
    base: dict[str, Any] = {}
    steps: dict[int, dict[str, Any]] = {}
    for ours, theirs in _NAMES.items():
        price = given.get(theirs)
        if isinstance(price, Mapping):
            base[ours] = document.money(price.get("base"), (*at, theirs, "base"))
            for number, one in enumerate(document.items(price.get("tiers") or [], (*at, theirs, "tiers"))):
                here = (*at, theirs, "tiers", number)
                step = document.mapping(one, here)
                rate = document.money(step.get("price"), (*here, "price"))
                steps.setdefault(document.tokens(step.get("start", 0), (*here, "start")), {})[ours] = rate
        elif price is not None:
            base[ours] = document.money(price, (*at, theirs))
    return Rates(**base), tuple((start, Rates(**{**base, **rates})) for start, rates in sorted(steps.items()))


def _patterns(match: Any) -> tuple[str, ...]:
    """Return a rule of names as patterns of whole names."""
    if not isinstance(match, Mapping) or not match:
        return ()
    [(kind, value)] = list(match.items())[:1]
    if kind == "or":
        return tuple(pattern for one in _several(value) for pattern in _patterns(one))
    if kind == "and":
        parts = [_patterns(one) for one in _several(value)]
        return ("".join(f"(?=(?:{'|'.join(part)})$)" for part in parts) + ".*",) if all(parts) else ()
    text = re.escape(str(value))
    forms = {"equals": text, "starts_with": f"{text}.*", "ends_with": f".*{text}", "contains": f".*{text}.*"}
    if kind == "regex":
        try:
            re.compile(str(value))
        except re.error:
            return ()
        return (f"(?=.*?(?:{value})).*" if not str(value).startswith("^") else f"(?={str(value)[1:]}).*",)
    return (forms[kind],) if kind in forms else ()


def _several(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
