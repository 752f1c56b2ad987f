"""What hosted models cost: `kvtool.prices/1` as `kvtool prices --json` prints it. Amounts are decimal numbers as text."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Document, Model


class PriceLine(Model):
    """The rates of one row, per million tokens; `since` and `until` are its days, `until` the first that it no longer holds."""

    provider: str
    models: list[str]
    since: str | None
    until: str | None
    currency: str
    input: str
    cache_read: str
    cache_write: str
    cache_write_1h: str
    output: str
    storage_hour: str | None
    conditions: list[str]
    """Other rates, in words: above so many tokens, in some hours, of batches, of service tiers."""
    checked: str | None
    source: str
    confirmed: bool = True
    """False if only one source has this price."""


class PricesDocument(Document):
    """The rows that hold, in the order in which they are looked for."""

    schema_: Literal["kvtool.prices/1"] = Field(default="kvtool.prices/1", alias="schema")
    rows: list[PriceLine]
