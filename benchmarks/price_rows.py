"""Makes the table of prices that comes with kvtool: rows of genai-prices that LiteLLM's price file confirms.

    python -m benchmarks.price_rows DATA_JSON MODEL_PRICES_JSON --checked 2026-11-23 [-o FILE]

DATA_JSON is genai-prices' `data.json`, or `installed` for the package that is installed; MODEL_PRICES_JSON is LiteLLM's file. A row
that the two price differently is told, and ends the program with 1, until `DECIDED` says whose price holds, and why. Rows that only
one of them has are left out. Both are MIT; no code of theirs is used.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from kvtool.accounting.prices.genai_form import read_genai
from kvtool.accounting.prices.litellm_form import read_litellm
from kvtool.accounting.prices.own_form import FORM, read_own
from kvtool.accounting.prices.price_document import PriceDocument
from kvtool.accounting.prices.price_row import Hours, PriceRow, Rates
from kvtool.accounting.prices.price_table import PriceTable

PROVIDERS = (
    "openai",
    "azure",
    "anthropic",
    "bedrock",
    "gemini",
    "deepseek",
    "groq",
    "xai",
    "mistral",
    "moonshot",
    "fireworks",
)
NAMES = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
D = Decimal
DECIDED = {
    ("anthropic", "claude-sonnet-4-5"): "genai: the step at 200k ended on 2026-04-30, see below",
    (
        "deepseek",
        "deepseek-flash",
    ): "genai: LiteLLM has the peak as the base; api-docs.deepseek.com/quick_start/pricing",
    ("deepseek", "deepseek-v4-flash"): "genai: the same",
    ("deepseek", "deepseek-v4-pro"): "genai: the same",
    ("mistral", "mistral-large"): "litellm: 0.50 and 1.50 since Mistral Large 3; docs.mistral.ai",
}
"""Whose price holds where the two differ, with the reason."""
_LATEST = {"mistral-large": "mistral-large-latest"}
"""Names that LiteLLM has for several models, by the one that is meant."""
_PEAK = Hours(((time(1), time(4)), (time(6), time(10))), frozenset(range(5)))


def main() -> int:
    """Write the table; 1 where something is to be decided first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("genai")
    parser.add_argument("litellm", type=Path)
    parser.add_argument("--checked", type=date.fromisoformat, required=True)
    parser.add_argument("--leave-out", action="store_true", help="leave out what is to be decided, and go on")
    parser.add_argument("-o", "--output", type=Path, default=Path("kvtool/accounting/prices/price_rows.json"))
    asked = parser.parse_args()
    text = _installed() if asked.genai == "installed" else Path(asked.genai).read_text()
    other = PriceTable(read_litellm(PriceDocument(asked.litellm.read_text(), str(asked.litellm))))
    chosen, open_ = _chosen(read_genai(PriceDocument(text, asked.genai)), other)
    for line in open_:
        print(line, file=sys.stderr)
    if open_ and not asked.leave_out:
        return 1
    rows = [_data(row) for row in _amended([replace(row, checked=asked.checked) for row in chosen])]
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    asked.output.write_text(f'{{"format":"{FORM}","rows":[\n{lines}\n]}}\n')
    read_own(PriceDocument(asked.output.read_text(), str(asked.output)))
    print(f"{len(rows):,} rows, {len(open_):,} left out")
    return 0


def _chosen(rows: list[PriceRow], other: PriceTable) -> tuple[list[PriceRow], list[str]]:
    """The rows that both have alike or that are decided, and what is to be decided."""
    found, open_, kept = [], [], set()
    for row in rows:
        if row.provider not in PROVIDERS:
            continue
        name = row.models[-1].replace("\\", "")
        if row.until is not None:  # an older price of a model: as good as the latest one
            found.append(row)
            continue
        decided = DECIDED.get((row.provider, name), "")
        theirs = [one for one in other.rows if one.provider == row.provider and one.is_of(_LATEST.get(name, name))]
        if decided.startswith("litellm") and theirs:
            row = replace(row, rates=theirs[0].rates, models=theirs[0].models[-1:])
        elif not decided and not theirs:
            continue
        elif not decided and not any(_alike(row.rates, one.rates) for one in theirs):
            open_.append(f"{row.provider} {name}: {_told(row.rates)} or {_told(theirs[0].rates)}")
            continue
        kept.add((row.provider, row.models))
        found.append(row)
    return [row for row in found if (row.provider, row.models) in kept], open_


def _alike(one: Rates, other: Rates) -> bool:
    """Whether all that both say is the same."""
    both = [(getattr(one, name), getattr(other, name)) for name in NAMES]
    return all(mine is None or theirs is None or mine == theirs for mine, theirs in both)


def _told(rates: Rates) -> str:
    return "/".join(str(getattr(rates, name)) for name in NAMES)


def _amended(rows: list[PriceRow]) -> Iterator[PriceRow]:
    """What neither of the two says, each with its source."""
    for row in rows:
        name = row.models[-1].replace("\\", "")
        match row.provider, name:
            case "anthropic", "claude-sonnet-4-5":
                end = date(2026, 5, 1)
                yield replace(row, until=end)
                flat = None if row.batch is None else replace(row.batch, above=())
                yield replace(row, since=end, above=(), batch=flat)
            case "anthropic", "claude-sonnet-5-5":
                day = date(2026, 10, 7)
                before = replace(row.rates, cache_read=D("0.20"))
                yield replace(row, rates=before, until=day, source=f"{row.source}; read before 2026-10-07: one source")
                yield replace(row, since=day)
            case "deepseek", "deepseek-flash" | "deepseek-v4-flash" | "deepseek-v4-pro" if row.hours:
                source = "api-docs.deepseek.com/quick_start/pricing; peak Monday to Friday, Chinese holidays are not left out"
                yield replace(row, hours=((_PEAK, row.hours[0][1]),), source=source)
            case "gemini", "gemini-2.5-pro":
                storage = D("4.50")
                above = tuple((tokens, replace(rates, storage_hour=storage)) for tokens, rates in row.above)
                source = f"{row.source}; storage: ai.google.dev/gemini-api/docs/pricing"
                yield replace(row, rates=replace(row.rates, storage_hour=storage), above=above, source=source)
            case _:
                yield row


def _data(row: PriceRow) -> dict[str, Any]:
    """A row as kvtool's own form has it."""
    data: dict[str, Any] = {"provider": row.provider, "models": list(dict.fromkeys(row.models)), **_rates(row.rates)}
    if row.since is not None:
        data["from"] = row.since.isoformat()
    if row.until is not None:
        data["to"] = row.until.isoformat()
    if row.checked is not None:
        data["checked"] = row.checked.isoformat()
    data["source"] = row.source if row.source.startswith("api-docs") else f"{row.source}; LiteLLM's price file"
    if row.hours:
        data["hours"] = [
            {
                "utc": [f"{start:%H:%M}-{end:%H:%M}" for start, end in hours.windows],
                **({"days": sorted(hours.days)} if len(hours.days) < 7 else {}),
                **_rates(rates),
            }
            for hours, rates in row.hours
        ]
    return {**data, **_steps(row), **_variants(row)}


def _variants(row: PriceRow) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if row.batch is not None:
        found["batch"] = {**_rates(row.batch.rates), **_steps(row.batch)}
    if row.tiers:
        found["tiers"] = {name: {**_rates(part.rates), **_steps(part)} for name, part in row.tiers.items()}
    return found


def _steps(row: PriceRow) -> dict[str, Any]:
    return (
        {"above": [{"tokens": tokens, "whole": True, **_rates(rates)} for tokens, rates in row.above]}
        if row.above
        else {}
    )


def _rates(rates: Rates) -> dict[str, str]:
    names = (*NAMES, "cache_write_5m", "storage_hour")
    return {name: format(value.normalize(), "f") for name in names if (value := getattr(rates, name)) is not None}


def _installed() -> str:
    """The data of the installed package as its `data.json` would have them."""
    from genai_prices.data import providers

    return json.dumps([_plain(provider) for provider in providers])


def _plain(value: Any) -> Any:
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    fields = vars(value).items()
    return {key.rstrip("_"): _plain(one) for key, one in fields if one is not None and not key.startswith("_")}


if __name__ == "__main__":
    sys.exit(main())
