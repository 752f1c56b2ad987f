"""Rows of prices by provider and name, as three public packages have them: genai-prices, LiteLLM and model-prices."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from kvtool.accounting.hosted_models import provider_named, sold_model
from kvtool.accounting.prices.genai_form import read_genai
from kvtool.accounting.prices.litellm_form import read_litellm
from kvtool.accounting.prices.price_document import PriceDocument
from kvtool.accounting.prices.price_row import PriceRow, Rates

Key = tuple[str, str]
"""A provider, and the name of a model there: with its region and its date."""
Named = dict[Key, list[PriceRow]]
SOURCES = ("genai-prices", "LiteLLM's price file", "model-prices")
_PACKAGES = ("genai-prices", "litellm", "model-prices")
_LITELLM = "litellm/model_prices_and_context_window_backup.json"
_SNAPSHOT = "model_prices/snapshot.json"
_PROVIDERS = {
    "stepfun-ai": "stepfun",
    "tencent-tokenhub": "tencent",
    "amazon-bedrock": "bedrock",
    "nova": "amazon_nova",
}
_HOURS = ("anthropic", "moonshot")
"""Providers whose longer writes last an hour: those of others last longer."""
D = Decimal


def download(folder: Path) -> None:
    """Download the newest wheel of each package into a folder."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), *_PACKAGES]
    subprocess.run(command, check=True)


def read_sources(folder: Path) -> tuple[Named, Named, Named]:
    """Return what the wheels of a folder say, in the order of `SOURCES`."""
    return _genai(_wheel(folder, "genai_prices")), _litellm(litellm_text(folder)), _model_prices(folder)


def litellm_text(folder: Path) -> str:
    """Return LiteLLM's file of prices."""
    return zipfile.ZipFile(_wheel(folder, "litellm")).read(_LITELLM).decode()


def _wheel(folder: Path, name: str) -> Path:
    return max(folder.glob(f"{name}-*.whl"), key=lambda path: path.stat().st_mtime)


def _named(rows: list[PriceRow]) -> Named:
    """Return rows by every literal name of theirs; of a name without a date, those of the latest release."""
    exact: Named = {}
    bare: dict[Key, dict[str, list[PriceRow]]] = {}
    for row in rows:
        for name in row.literal_names():
            sold = sold_model(name, row.provider)
            provider = provider_named(row.provider)
            if row.rates.input or row.rates.output:
                exact.setdefault((provider, sold.dated), []).append(row)
                bare.setdefault((provider, sold.bare), {}).setdefault(sold.dated, []).append(row)
    for key, dated in bare.items():
        exact.setdefault(key, dated[max(dated)])
    return {key: _distinct(found) for key, found in exact.items()}


def _distinct(rows: list[PriceRow]) -> list[PriceRow]:
    """Return rows of one name without repetitions: a file may have a model under several names."""
    found: list[PriceRow] = []
    for row in rows:
        if all((row.since, row.until) != (other.since, other.until) for other in found):
            found.append(row)
    return sorted(found, key=lambda row: row.since or date.min)


def _genai(wheel: Path) -> Named:
    sys.path.insert(0, str(wheel))
    from genai_prices.data import providers

    text = json.dumps([_plain(provider) for provider in providers])
    known = [row for row in read_genai(PriceDocument(text, "genai-prices")) if provider_named(row.provider)]
    return _named(known)


def _litellm(text: str) -> Named:
    rows = read_litellm(PriceDocument(text, "litellm"))
    return _named([row for row in rows if row.provider])


def _model_prices(folder: Path) -> Named:
    data = json.loads(zipfile.ZipFile(_wheel(folder, "model_prices")).read(_SNAPSHOT), parse_float=D)
    rows = []
    for provider, models in data["prices"].items():
        ours = provider_named(_PROVIDERS.get(provider, provider))
        for name, modes in models.items() if ours else ():
            rows += _timeline(ours, name, modes)
    return _named(rows)


def _timeline(provider: str, name: str, modes: Mapping[str, Any]) -> list[PriceRow]:
    """Return the rows of a model: a new one where its provider documents a change, else the latest price for all days.

    A price that was noted no earlier than the documented one began is no earlier price, but a mistake that was corrected.
    """
    rows: list[PriceRow] = []
    noted = ""
    for entry in modes["standard"]:
        given = entry["rates"]
        if given is None or given.get("output") is None:
            continue
        rates, above = _rates(provider, given)
        start = None if entry["start"] is None else date.fromisoformat(entry["start"][:10])
        row = PriceRow(provider, (re.escape(name.lower()),), rates, start, source=given["source"], above=above)
        documented = given["valid_from_basis"] == "documented"
        if rows and (not documented or not _changed(rows[-1].rates, rates) or entry["start"] <= noted):
            row = replace(row, since=rows[-1].since)
            rows.pop()
        rows.append(row)
        noted = given.get("valid_from") or ""
    if rows:
        rows[0] = replace(rows[0], since=None)
        batch = modes.get("batch", [])
        if batch and batch[-1]["rates"]:
            rates, above = _rates(provider, batch[-1]["rates"])
            rows[-1] = replace(rows[-1], batch=PriceRow("", (), rates, above=above))
    ends = [*(row.since for row in rows[1:]), None]
    return [replace(row, until=until) for row, until in zip(rows, ends, strict=False)]


def _changed(before: Rates, after: Rates) -> bool:
    """Return whether a price is another one, not only known more fully."""
    names = ("input", "output", "cache_read", "cache_write")
    pairs = ((getattr(before, name), getattr(after, name)) for name in names)
    return any(None not in (old, new) and old != new for old, new in pairs)


def _rates(provider: str, given: Mapping[str, Any]) -> tuple[Rates, tuple[tuple[int, Rates], ...]]:
    def of(one: Mapping[str, Any], over: Rates | None = None) -> Rates:
        def get(name: str) -> Decimal | None:
            found = one.get(name)
            return D(str(found)) if found is not None else getattr(over, name) if over is not None else None

        multiple = given.get("cache_write_1h_multiple") if provider in _HOURS else None
        write = get("cache_write") or None  # 0 where writes are not charged apart
        hour = None if multiple is None or write is None else get("input") * D(str(multiple))
        return Rates(get("input"), get("output"), get("cache_read"), write, cache_write_1h=hour)

    base = of(given)
    return base, tuple((int(tier["above"]), of(tier, base)) for tier in given.get("tiers", []))


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
