"""Makes the table of prices that comes with kvtool from three public packages, and prints what changed.

    python -m benchmarks.price_rows [--wheels FOLDER] [--checked 2026-11-29] [-o FILE] [--dry-run]

It downloads genai-prices, LiteLLM and model-prices (or reads their wheels in FOLDER). A price that two of them agree on is
confirmed; a price that only one of them has is marked as such. Where they differ and no two agree, `DECIDED` says whose price
holds and why; else the price of the last table stays, or the model is left out, and its name is printed.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks.price_sources import SOURCES, Key, Named, download, litellm_text, read_sources
from kvtool.accounting.caches.dated_rules import ROWS, find_rule, has_no_cache
from kvtool.accounting.hosted_models import sold_model
from kvtool.accounting.prices.own_form import FORM, read_own
from kvtool.accounting.prices.price_document import PriceDocument
from kvtool.accounting.prices.price_row import Hours, PriceRow, Rates
from kvtool.accounting.prices.price_table import PriceTable, check_days

D = Decimal
TABLE = Path("kvtool/accounting/prices/price_rows.json")
NAMES = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
_MOST_PRINTED = 25
_NEAR = D("0.001")
"""Largest difference, as a share, of two roundings of one price."""
_GENAI, _LITELLM, _MODEL_PRICES = range(3)
DECIDED = {
    ("anthropic", "claude-sonnet-4-5"): (_GENAI, "the step at 200k ended on 2026-04-30, see below"),
    ("mistral", "magistral-medium-latest"): (_LITELLM, "1.50 and 7.50 since the alias names Mistral Medium 3.5"),
    ("deepseek", "deepseek-chat"): (_MODEL_PRICES, "dated by api-docs.deepseek.com"),
    ("deepseek", "deepseek-reasoner"): (_MODEL_PRICES, "dated by api-docs.deepseek.com"),
}
"""Whose price holds where no two agree, with the reason."""
_VENDORS = frozenset(row.provider for row in ROWS)
"""Providers whose models are priced even if no price of a cached token is known."""
_NOT_SOLD_THERE = {"openrouter"}
"""Providers whose prices are those of the API that they forward to."""
_STORAGE = {
    ("gemini-2.5-pro", D("1.25")): D("4.5"),
    ("gemini-3.1-pro-preview", D(2)): D("4.5"),
    ("gemini-2.5-flash", D("0.3")): D(1),
    ("gemini-2.5-flash-lite", D("0.1")): D(1),
    ("gemini-3-flash-preview", D("0.5")): D(1),
    **{(f"gemini-3.{number}-flash", D("0.75")): D("0.5") for number in (6, 8)},
    **{(f"gemini-3.{number}-flash", D("1.5")): D(1) for number in (6, 8)},
}
"""Prices of a million tokens kept in an explicit cache for an hour, by model and price of input: they change together."""
_PEAK = Hours(((time(1), time(4)), (time(6), time(10))), frozenset(range(5)))


def main() -> int:
    """Write the table and print what changed since the last one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--checked", type=date.fromisoformat, default=date.today())
    parser.add_argument("-o", "--output", type=Path, default=TABLE)
    parser.add_argument("--dry-run", action="store_true", help="write no table; count what the present one covers")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = asked.wheels or Path(made)
        if asked.wheels is None:
            download(folder)
        sources, text = read_sources(folder), litellm_text(folder)
    before = PriceTable(_rows_in(TABLE))
    chosen, undecided = _choose(sources, before, asked.checked)
    after = PriceTable(list(_merged([row for key in sorted(chosen) for row in chosen[key]])))
    check_days(after.rows)
    if not asked.dry_run:
        lines = ",\n".join(json.dumps(_data(row), separators=(",", ":")) for row in after.rows)
        asked.output.write_text(f'{{"format":"{FORM}","rows":[\n{lines}\n]}}\n')
    _print_changes(before, after, asked.checked)
    _print_some("no two sources agree", undecided)
    confirmed = sum(rows[-1].confirmed for rows in chosen.values())
    print(
        f"{len(chosen):,} names in {len(after.rows):,} rows: {confirmed:,} confirmed, {len(chosen) - confirmed:,} with one source"
    )
    print(covered(text, before if asked.dry_run else PriceTable(_rows_in(asked.output)), asked.checked))
    return 0


def _rows_in(path: Path) -> list[PriceRow]:
    return read_own(PriceDocument(path.read_text(), str(path)), places=False)


def _choose(sources: tuple[Named, ...], before: PriceTable, checked: date) -> tuple[Named, list[str]]:
    """Return the rows of each name, and the names that no two sources price alike."""
    chosen: Named = {}
    undecided = []
    for key in sorted({key for source in sources for key in source if key[0] not in _NOT_SOLD_THERE}):
        have = {number: source[key] for number, source in enumerate(sources) if key in source}
        found = _decided(key, have, checked)
        if found is None:
            told = " or ".join(
                f"{_told(_now(rows, checked).rates)} ({SOURCES[number]})" for number, rows in have.items()
            )
            old = [row for row in before.rows_of(key[1], key[0]) if row.provider == key[0]]
            undecided.append(f"{' '.join(key)}: {told}{'; the last price stays' if old else ''}")
            if old:
                chosen[key] = [replace(row, models=(_pattern(key[1]),)) for row in old]
        elif any(row.rates.cache_read is not None for row in found) or len(have) > 1 or key[0] in _VENDORS:
            rows = [
                replace(row, rates=_rates_of(row, key), provider=key[0], models=(_pattern(key[1]),), checked=checked)
                for row in found
            ]
            chosen[key] = [one for row in rows for one in _amended(row, key)]
    for key in [key for key, rows in chosen.items() if _needless(key, rows, chosen, checked)]:
        del chosen[key]
    return chosen, undecided


def _now(rows: list[PriceRow], day: date) -> PriceRow:
    """Return the row of a day."""
    return next((row for row in rows if row.applies_on(day)), rows[-1])


def _needless(key: Key, rows: list[PriceRow], chosen: Named, day: date) -> bool:
    """Return whether a name costs what the name without its date costs, which is looked up next and may know other days."""
    plain = chosen.get((key[0], sold_model(key[1], key[0]).bare), rows)
    bare = _now(plain, day)
    return (
        plain is not rows and len(rows) == 1 and _alike(rows[0].rates, bare.rates) and rows[0].above in ((), bare.above)
    )


def _decided(key: Key, have: dict[int, list[PriceRow]], day: date) -> list[PriceRow] | None:
    """Return the rows that hold, with all their sources; None if no two sources agree on the price of this day."""
    if len(have) == 1:
        [(number, rows)] = have.items()
        return [replace(row, source=_source(row, [number]), confirmed=False) for row in rows]
    if (decided := DECIDED.get(key)) is not None and decided[0] in have:
        number, why = decided
        return [replace(row, source=f"{SOURCES[number]}: {why}") for row in have[number]]
    if key[0] == "bedrock" and key[1].startswith("claude-") and (regional := _regional(list(have.values()), day)):
        return regional
    for rows in have.values():
        price = _now(rows, day).rates
        agreed = {number: others for number, others in have.items() if _alike(price, _now(others, day).rates)}
        if len(agreed) > 1:
            return _joined(agreed, day)
    return None


def _regional(have: list[list[PriceRow]], day: date) -> list[PriceRow] | None:
    """Return the dearer of two prices that are 10 % apart: a name without a region is invoked in one, not globally."""
    ordered = sorted(have, key=lambda rows: _now(rows, day).rates.input)
    low, high = (_now(rows, day).rates.input for rows in (ordered[0], ordered[-1]))
    if abs(low * D("1.1") - high) > _NEAR:
        return None
    page = "docs.aws.amazon.com/bedrock: global cross-Region inference costs 10 % less than regional"
    return [replace(row, source=f"{row.source}; {page}") for row in ordered[-1]]


def _joined(agreed: dict[int, list[PriceRow]], day: date) -> list[PriceRow]:
    """Return today's row with its gaps filled by all that agree on it, and the earlier and later rows of those that know most."""
    current = [_now(rows, day) for rows in agreed.values()]
    before = max(([row for row in rows if row.until and row.until <= day] for rows in agreed.values()), key=len)
    after = max(([row for row in rows if row.since and row.since > day] for rows in agreed.values()), key=len)
    rates = {name: next((v for row in current if (v := getattr(row.rates, name)) is not None), None) for name in NAMES}
    row = PriceRow(
        current[0].provider,
        (),
        Rates(**rates),  # type: ignore[arg-type]
        since=before[-1].until if before else None,
        until=after[0].since if after else None,
        source=current[0].source,
        above=next((row.above for row in current if row.above), ()),
        hours=next((row.hours for row in current if row.hours), ()),
        batch=next((row.batch for row in current if row.batch), None),
        tiers=next((row.tiers for row in current if row.tiers), {}),
    )
    return [replace(each, source=_source(each, list(agreed))) for each in (*before, row, *after)]


def _source(row: PriceRow, numbers: list[int]) -> str:
    named = [SOURCES[number] for number in numbers]
    page = row.source.removeprefix("https://")
    return "; ".join([*named, page] if page not in SOURCES and "github.com" not in page else named)


def _alike(one: Rates, other: Rates) -> bool:
    """Return whether all that both say is the same, up to roundings."""
    both = [(getattr(one, name), getattr(other, name)) for name in NAMES]
    return all(None in (mine, theirs) or abs(mine - theirs) <= _NEAR * max(mine, theirs) for mine, theirs in both)


def _told(rates: Rates) -> str:
    return "/".join(
        "-" if (rate := getattr(rates, name)) is None else format(rate.normalize(), "f") for name in NAMES[:3]
    )


def _rates_of(row: PriceRow, key: Key) -> Rates:
    """Return rates in which a read or a write differs from the input by more than a rounding; no read where nothing is cached."""
    rates = row.rates
    if has_no_cache(key[1], key[0]):
        return replace(rates, cache_read=None)

    def rounded(rate: Decimal | None) -> Decimal | None:
        return rates.input if rate is not None and abs(rate - rates.input) <= _NEAR * rate else rate

    return replace(rates, cache_read=rounded(rates.cache_read), cache_write=rounded(rates.cache_write))


def _amended(row: PriceRow, key: Key) -> Iterator[PriceRow]:
    """Yield a row with what no source says, each with the provider's own page."""
    match key:
        case "anthropic", "claude-sonnet-4-5" | "claude-sonnet-4-5-20250929" if row.above:
            end = date(2026, 5, 1)
            yield replace(row, until=end)
            flat = None if row.batch is None else replace(row.batch, above=())
            yield replace(row, since=end, above=(), batch=flat)
        case "deepseek", _ if row.hours:
            source = (
                "api-docs.deepseek.com/quick_start/pricing; peak Monday to Friday, Chinese holidays are not left out"
            )
            yield replace(row, hours=((_PEAK, row.hours[0][1]),), source=source)
        case "gemini", name if (storage := _STORAGE.get((name, row.rates.input))) and not _ended(row):
            above = tuple((tokens, replace(rates, storage_hour=storage)) for tokens, rates in row.above)
            source = f"{row.source}; storage: ai.google.dev/gemini-api/docs/pricing"
            yield replace(row, rates=replace(row.rates, storage_hour=storage), above=above, source=source)
        case "mistral", _ if row.rates.cache_read is None:
            rates = replace(row.rates, cache_read=row.rates.input / 10)
            yield replace(row, rates=rates, source=f"{row.source}; read: docs.mistral.ai, prompt caching")
        case _:
            yield row


def _ended(row: PriceRow) -> bool:
    """Return whether a price ended before the page on storage was read."""
    return row.until is not None and row.until < date(2026, 11, 1)


def _pattern(name: str) -> str:
    return re.escape(name).replace(r"\-", "-")


def _merged(rows: list[PriceRow]) -> Iterator[PriceRow]:
    """Yield rows with all names of a provider that cost the same on the same days."""
    groups: dict[str, list[PriceRow]] = {}
    for row in rows:
        groups.setdefault(json.dumps(_data(replace(row, models=()))), []).append(row)
    for same in groups.values():
        yield replace(same[0], models=tuple(sorted({name for row in same for name in row.models})))


def _print_changes(before: PriceTable, after: PriceTable, day: date) -> None:
    """Print the prices that are new, others or gone, of the models of either table."""
    seen = {(row.provider, name) for table in (before, after) for row in table.rows for name in row.literal_names()}
    new, changed, gone = [], [], []
    for provider, name in sorted(seen):
        old, now = (table.row(name, provider, day) for table in (before, after))
        if old is None and now is not None:
            new.append(f"{provider} {name}: {_told(now.rates)}")
        elif now is None and old is not None:
            gone.append(f"{provider} {name}: {_told(old.rates)}")
        elif old is not None and now is not None and not _alike(old.rates, now.rates):
            changed.append(f"{provider} {name}: {_told(old.rates)} -> {_told(now.rates)}")
    for title, lines in (("changed", changed), ("gone", gone), ("new", new)):
        _print_some(title, lines)


def _print_some(title: str, lines: list[str]) -> None:
    print(f"{title}: {len(lines):,}")
    for line in lines[:_MOST_PRINTED]:
        print(f"  {line}")


def covered(text: str, table: PriceTable, day: date) -> str:
    """Say how many of LiteLLM's names of models with a cache have a cache rule and a price."""
    counts: Counter[str] = Counter()
    for name, value in json.loads(text).items():
        if value.get("mode") not in (None, "chat", "responses", "completion") or name == "sample_spec":
            continue
        if not (value.get("cache_read_input_token_cost") or value.get("supports_prompt_caching")):
            continue
        provider = value.get("litellm_provider", "")
        rule = find_rule(name, provider, day)
        price = table.row(name, provider, day) is not None
        uncached = rule is None and has_no_cache(name, provider)
        known = rule is not None or uncached
        counts.update(
            {
                "names": 1,
                "rule": known,
                "documented": uncached or (rule is not None and rule.documented),
                "price": price,
                "both": known and price,
            }
        )
    share = counts["both"] / counts["names"]
    rules = f"{counts['rule']:,} have a rule ({counts['documented']:,} a documented one)"
    told = f"{rules}, {counts['price']:,} a price, {counts['both']:,} both ({share:.1%})"
    return f"{counts['names']:,} names of models with a cache in LiteLLM's file: {told}"


def _data(row: PriceRow) -> dict[str, Any]:
    """Return a row in kvtool's own form."""
    data: dict[str, Any] = {"provider": row.provider, "models": list(row.models), **_rates(row.rates)}
    days = {"from": row.since, "to": row.until, "checked": row.checked}
    data |= {name: day.isoformat() for name, day in days.items() if day is not None}
    data["source"] = row.source
    if not row.confirmed:
        data["confirmed"] = False
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
    part: Callable[[PriceRow], dict[str, Any]] = lambda one: {**_rates(one.rates), **_steps(one)}  # noqa: E731
    batch = {} if row.batch is None else {"batch": part(row.batch)}
    return {**batch, **({"tiers": {name: part(one) for name, one in row.tiers.items()}} if row.tiers else {})}


def _steps(row: PriceRow) -> dict[str, Any]:
    steps = [{"tokens": tokens, "whole": True, **_rates(rates)} for tokens, rates in row.above]
    return {"above": steps} if steps else {}


def _rates(rates: Rates) -> dict[str, str]:
    names = (*NAMES, "cache_write_5m", "storage_hour")
    found = {name: value for name in names if (value := getattr(rates, name)) is not None}
    return {name: format(round(value, 9).normalize(), "f") for name, value in found.items()}


if __name__ == "__main__":
    raise SystemExit(main())
