"""The form of LiteLLM's `model_prices_and_context_window.json`: an object of models, with prices of one token and no dates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from kvtool.accounting.hosted_models import sold_model
from kvtool.accounting.prices.price_document import Pointer, PriceDocument
from kvtool.accounting.prices.price_row import MILLION, Hours, PriceRow, Rates

_NAMES = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
}
_ABOVE = re.compile(r"input_cost_per_token_above_(\d{1,9})k_tokens")
_TIERS = ("flex", "priority")
SOURCE = "LiteLLM's price file"


def read_litellm(document: PriceDocument) -> list[PriceRow]:
    """Read the file's rows, one for each name; models not priced by tokens are left out."""
    rows: list[PriceRow] = []
    undated: dict[tuple[str, str], dict[str, int]] = {}
    for name, value in document.value.items():
        if not isinstance(value, Mapping) or name == "sample_spec":
            continue
        at: Pointer = (name,)
        rates = _rates(document, value, at, "")
        if rates is None or value.get("mode") not in (None, "chat", "responses", "completion"):
            continue
        sold = sold_model(name, str(value.get("litellm_provider", "")))
        steps = sorted({int(found[1]) for key in value if (found := _ABOVE.fullmatch(key))})
        above = [
            (1000 * step, more)
            for step in steps
            if (more := _rates(document, value, at, f"_above_{step}k_tokens", rates)) is not None
        ]
        tiers = {
            tier: PriceRow("", (), own)
            for tier in _TIERS
            if f"input_cost_per_token_{tier}" in value and (own := _rates(document, value, at, f"_{tier}", rates))
        }
        batch = _rates(document, value, at, "_batches", rates) if "input_cost_per_token_batches" in value else None
        base, hours = _off_peak(document, value, at, rates)
        rows.append(
            PriceRow(
                provider=sold.provider,
                models=tuple(map(re.escape, dict.fromkeys((name.lower(), sold.dated)))),
                rates=base,
                source=SOURCE,
                above=tuple(above),
                hours=hours,
                batch=None if batch is None else PriceRow("", (), batch),
                tiers=tiers,
            )
        )
        undated.setdefault((sold.provider, sold.bare), {})[sold.dated] = len(rows) - 1
    for (_, name), dated in undated.items():
        if name not in dated:  # without a date the latest one is meant
            latest = dated[max(dated)]
            rows[latest] = replace(rows[latest], models=(*rows[latest].models, re.escape(name)))
    return rows


def _off_peak(
    document: PriceDocument, value: Mapping[str, Any], at: Pointer, rates: Rates
) -> tuple[Rates, tuple[tuple[Hours, Rates], ...]]:
    """Return rates of the hours off the peak, where there are any."""
    given = value.get("off_peak_pricing")
    if not isinstance(given, Mapping):
        return rates, ()
    off = _rates(document, given, (*at, "off_peak_pricing"), "", rates) or rates
    found = []
    where = (*at, "off_peak_pricing", "windows")
    for number, one in enumerate(document.items(given.get("windows") or [], where)):
        here = (*where, number)
        window = document.mapping(one, here)
        texts = window.get("hours_utc", [])
        spans = [
            str(text).partition("-")
            for text in ([texts] if isinstance(texts, str) else document.items(texts, (*here, "hours_utc")))
        ]
        hours = tuple((document.hour(start, here), document.hour(end, here)) for start, _, end in spans)
        days = document.weekdays(window.get("weekdays", list(range(1, 8))), (*here, "weekdays"), first=1)
        found.append((Hours(hours, days), off))
    return rates, tuple(found)


def _rates(
    document: PriceDocument, value: Mapping[str, Any], at: Pointer, suffix: str, over: Rates | None = None
) -> Rates | None:
    """Return the rates under names with this ending; missing ones come from `over`. None without a price for input."""
    found: dict[str, Decimal] = {}
    for ours, theirs in _NAMES.items():
        price = value.get(f"{theirs}{suffix}")
        if price is not None:
            found[ours] = document.money(price, (*at, f"{theirs}{suffix}")) * MILLION
    for name in ("cache_write", "cache_write_1h"):
        if found.get(name) == 0:
            del found[name]  # the file writes 0 here if there is no separate charge
    if over is None and not {"input", "output"} <= found.keys():
        return None
    base = {} if over is None else {name: getattr(over, name) for name in _NAMES}
    return Rates(**{**base, **found})
