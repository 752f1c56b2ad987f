"""Prices of packages: a mistake that was corrected is no earlier price."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from benchmarks.price_sources import _timeline


def _entry(price: float, noted: str, start: str | None, basis: str) -> dict[str, Any]:
    rates = {"input": 5.0, "output": 25.0, "cache_read": price, "source": "page"}
    return {"start": start, "rates": {**rates, "valid_from": noted, "valid_from_basis": basis}}


def test_what_was_noted_after_the_documented_price_began_never_was_a_price() -> None:
    for noted, reads in [
        ("2025-11-24T19:15:58Z", [0.5]),
        ("2025-11-30T00:00:00Z", [0.5]),
        ("2025-03-01T00:00:00Z", [1.5, 0.5]),
    ]:
        begin = "2025-11-24T19:15:58Z"
        entries = [_entry(1.5, noted, None, "commit"), _entry(0.5, begin, begin, "documented")]
        rows = _timeline("anthropic", "some-model", {"standard": entries})
        assert [row.rates.cache_read for row in rows] == [Decimal(str(read)) for read in reads]
        assert rows[0].since is None
        assert rows[-1].since == (date(2025, 11, 24) if len(rows) > 1 else None)
