"""A table of prices: the one that comes with kvtool, or one of the user's over it. The price of a request is that of its day."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from kvtool.accounting.hosted_models import is_deployment, maker_of, provider_named, sold_model
from kvtool.accounting.prices.own_form import FORM, read_own
from kvtool.accounting.prices.price_document import PriceDocument
from kvtool.accounting.prices.price_row import PriceRow, Rates
from kvtool.errors import KvtoolError
from kvtool.text.files.text_files import decode, read_data

STALE_DAYS = 60
"""Age in days from which reports warn that a price may have changed since."""
_SAME = {
    "vertex": ("gemini",),
    "openrouter": ("openai", "anthropic", "gemini", "deepseek", "xai", "mistral", "moonshot", "qwen", "zai", "minimax"),
}
"""Providers whose prices apply if a provider has no row of its own."""


_DATE = re.compile(r"-?20\d{6}|-?20\d\d-\d\d-\d\d|-\d\d-20\d\d\b")
_FREE = ":free"
"""The variant of OpenRouter's models that costs nothing."""


@dataclass(slots=True)
class PriceTable:
    """Rows, the first that applies is taken: those of the user's file come before kvtool's."""

    rows: Sequence[PriceRow]
    factor: Decimal = Decimal(1)
    """Factor of each price after a discount."""
    _found: dict[tuple[str, str | None], list[PriceRow]] = field(default_factory=dict)
    _by_name: dict[str, list[int]] = field(init=False)
    """Positions of rows by the names that they have."""
    _patterns: list[tuple[re.Pattern[str], int]] = field(init=False)

    def __post_init__(self) -> None:
        self._by_name, self._patterns = {}, []
        for position, row in enumerate(self.rows):
            for name in row.literal_names():
                self._by_name.setdefault(name, []).append(position)
            self._patterns += [(re.compile(pattern), position) for pattern in row.patterns()]

    def rows_of(self, model: str, provider: str | None = None) -> list[PriceRow]:
        """Return all rows of a model of a provider, in their order; of the model's own API if none is given."""
        key = model, provider
        if key not in self._found:
            if len(self._found) > 4096:
                self._found.clear()
            self._found[key] = self._search(model, provider)
        return self._found[key]

    def _search(self, model: str, provider: str | None) -> list[PriceRow]:
        sold = sold_model(model, provider)
        if "/" in model and sold.bare.endswith(_FREE):
            source = "openrouter.ai/docs/guides/routing/model-variants/free"
            return [PriceRow("openrouter", (re.escape(sold.bare),), Rates(*3 * [Decimal(0)]), source=source)]
        for name in dict.fromkeys((model.strip().lower(), *sold.names)):
            if own := [row for row in self._rows_named(name) if row.provider in ("", sold.provider)]:
                return own
        for other in _SAME.get(sold.provider, ()):
            for name in sold.names:
                if own := [row for row in self._rows_named(name) if row.provider == other]:
                    return own
        return []

    def _rows_named(self, name: str) -> list[PriceRow]:
        found = {*self._by_name.get(name, ()), *(at for pattern, at in self._patterns if pattern.fullmatch(name))}
        return [self.rows[at] for at in sorted(found)]

    def find(self, text: str) -> list[PriceRow]:
        """Return the rows of a model by any name that people write: `Claude 4.5 Sonnet`, `gpt 5.6 sol`, `Bedrock GLM 5.3`.

        The model's own API comes first; else every API that sells it, also where the one of the name does not. Letters and
        numbers count, in any order. Each row has the names that were asked for.
        """
        if found := self._sold(text, None):
            return found
        wanted = _words(text)
        for with_provider in (False, True):
            if same := self._named(wanted, with_provider=with_provider):
                before_release = self._named(sorted([*wanted, "preview"]), with_provider=False)
                return _of_makers(same) or _of_makers(before_release) or same
        if is_deployment(text) and (found := self._sold(text, "azure")):
            return found
        if "/" in text:
            return self.find(text.rpartition("/")[2])
        return self._routed(text) or self._branded(Counter(wanted))

    def _named(self, wanted: list[str], *, with_provider: bool) -> list[PriceRow]:
        """Return the rows whose names, after that of their API if it is a part of them, have these words."""
        found = []
        for row in self.rows:
            api = f"{row.provider} " if with_provider else ""
            names = {name for name in row.literal_names() if _words(api + name) == wanted}
            found += [_narrowed(row, names)] if names else []
        return found

    def _routed(self, text: str) -> list[PriceRow]:
        """Return the rows of a name after that of an API, `openrouter gemini 2.5 pro`: those of this API, if it has any."""
        first, _, rest = text.strip().partition(" ")
        api = provider_named(first)
        found = self.find(rest) if api and rest.strip() else []
        return [row for one in found for name in one.literal_names() for row in self._sold(name, api)] or found

    def _sold(self, text: str, api: str | None) -> list[PriceRow]:
        """Return the rows of a name as an API writes it."""
        names = set(sold_model(text, api).names)
        return [_narrowed(row, names) for row in self.rows_of(text, api)]

    def _branded(self, wanted: Counter[str]) -> list[PriceRow]:
        """Return the rows of the only model whose name at its maker has these words and one more without a digit, its brand."""
        found: dict[str, list[PriceRow]] = {}
        for row in self.rows:
            for name in row.literal_names():
                more = Counter(_words(name)) - wanted
                if more.total() == 1 and not wanted - Counter(_words(name)) and next(iter(more)).isalpha():
                    found.setdefault(name, []).append(row)
        own = {name: rows for name, rows in found.items() if maker_of(name) in {row.provider for row in rows}}
        return (
            [_narrowed(row, {name}) for name, rows in own.items() for row in rows] if len(own) == 1 and wanted else []
        )

    def near(self, text: str) -> list[str]:
        """Return names of models that have all words of a text, or of the part after its last slash, shortest first."""
        wanted = Counter(_words(text.partition(":")[0]))
        names = {
            name
            for row in self.rows
            for name in row.literal_names()
            if not wanted - Counter(_words(f"{row.provider} {name}"))
        }
        if not names and (shorter := _shorter(text)):
            return self.near(shorter)
        return sorted(names, key=lambda name: (len(name), name)) if wanted else []

    def row(self, model: str, provider: str | None, day: date | None) -> PriceRow | None:
        """Return the row of a model's day; without a day the latest one. None: there is no price, and none is guessed."""
        rows = self.rows_of(model, provider)
        if day is None:
            return next((row for row in rows if row.until is None), None)
        return next((row for row in rows if row.applies_on(day)), None)

    def rates(
        self, row: PriceRow, prompt: int, moment: datetime | None, *, batch: bool = False, tier: str | None = None
    ) -> Rates:
        """Return the rates of one request, with the discount."""
        found = row.rates_for(prompt, moment, batch=batch, tier=tier)
        return found if self.factor == 1 else found.times(self.factor)


def price_table(path: str | None = None, discount: Decimal = Decimal(0)) -> PriceTable:
    """Return kvtool's prices after those of a file; KvtoolError for a file in none of the three forms."""
    return PriceTable([*_read_file(path), *_built_in()], 1 - discount) if path is not None else _own_table(discount)


@lru_cache(maxsize=4)
def _own_table(discount: Decimal) -> PriceTable:
    """kvtool's prices alone: a report asks for them once for each of its runs."""
    return PriceTable(_built_in(), 1 - discount)


def _of_makers(rows: Sequence[PriceRow]) -> list[PriceRow]:
    return [row for row in rows if any(maker_of(name) == row.provider for name in row.literal_names())]


def _narrowed(row: PriceRow, names: set[str]) -> PriceRow:
    """Return a row with those of its names; with all if it has none of them by letter."""
    own = tuple(pattern for pattern in row.models if re.sub(r"\\(.)", r"\1", pattern) in names)
    return replace(row, models=own or row.models)


def _shorter(text: str) -> str:
    """Return a name without its prefix of a router, else without its last part; nothing where it has one part."""
    return text.rpartition("/")[2] if "/" in text else re.sub(r"[-_ @][^-_ @]*$|^[^-_ @]+$", "", text)


def _words(text: str) -> list[str]:
    """Return the letters and numbers of a name, sorted, without the date of a release; `4o` is one word, and not `o4`."""
    return sorted(re.findall(r"\d+o(?![a-z\d])|[a-z]+|\d+", _DATE.sub("", text.lower())))


@cache
def _built_in() -> tuple[PriceRow, ...]:
    text = (files("kvtool") / "accounting" / "prices" / "price_rows.json").read_text(encoding="utf-8")
    return tuple(read_own(PriceDocument(text, "kvtool's prices"), places=False))


def _read_file(path: str) -> list[PriceRow]:
    data = read_data(Path(path).expanduser(), what="prices ", shown=path)
    document = PriceDocument(decode(data, shown=path), path)
    rows = _rows(document, document.value)
    if not rows:
        raise KvtoolError("the file contains no token prices", hint=_HINT, place=document.place(()))
    return rows


_HINT = (
    f'known formats: {{"format": "{FORM}", "rows": […]}}, genai-prices\' data.json and LiteLLM\'s model_prices… .json'
)


def _rows(document: PriceDocument, value: Any) -> list[PriceRow]:
    if isinstance(value, dict) and value.get("format") == FORM:
        rows = read_own(document)
        check_days(rows)
        return rows
    if isinstance(value, list) and value and isinstance(value[0], dict) and "models" in value[0]:
        from kvtool.accounting.prices.genai_form import read_genai

        return read_genai(document)
    if isinstance(value, dict) and any(
        isinstance(one, dict) and "input_cost_per_token" in one for one in value.values()
    ):
        from kvtool.accounting.prices.litellm_form import read_litellm

        return read_litellm(document)
    raise KvtoolError("unknown price format", hint=_HINT, place=document.place(()))


def check_days(rows: Sequence[PriceRow]) -> None:
    """Raise KvtoolError, with its place, if two rows of one model apply on a day, or none between two."""
    by_model: dict[tuple[str, str], list[PriceRow]] = {}
    for row in rows:
        if row.since is not None and row.until is not None and row.until <= row.since:
            raise KvtoolError(
                "the price ends before it begins: `to` is the first day on which it no longer applies",
                place=row.written,
            )
        for name in row.models:
            by_model.setdefault((row.provider, name), []).append(row)
    for (_, name), same in by_model.items():
        ordered = sorted(same, key=lambda row: row.since or date.min)
        for before, after in pairwise(ordered):
            if before.until is None or after.since is None or before.until > after.since:
                shared = after.since or date.min
                told = "always" if after.since is None else f"on {shared}"
                raise KvtoolError(
                    f"two prices of {name} apply {told}", hint="set `to` in one of the two rows", place=after.written
                )
            if before.until < after.since:
                gap = f"from {before.until} to the day before {after.since}"
                raise KvtoolError(f"{name} has no price {gap}", place=after.written)
