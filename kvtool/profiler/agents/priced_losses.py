"""What the losses of an agent's circumstances cost, by the prices of its model."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from kvtool.accounting.prices.price_row import MILLION
from kvtool.accounting.prices.price_table import price_table
from kvtool.config.command_line import flag
from kvtool.errors import KvtoolError
from kvtool.results.documents.agent_probe import VariedRun
from kvtool.results.money import amount_text
from kvtool.text.terminal.console import sanitize


def check_model(model: str | None) -> None:
    """Raise KvtoolError for a model that has no price."""
    if model is not None and price_table().row(model, None, None) is None:
        near = price_table().near(model)
        hint = f"did you mean {near[0]}?" if near else None
        raise KvtoolError(f"{flag('price_model')}: no price is known of {sanitize(model)[:80]}", hint=hint)


def priced(rows: Sequence[VariedRun], model: str | None) -> dict[str, object]:
    """Return the rows with the cost of what each loses, and the model; nothing where its price is not known.

    A lost token is written to the cache again, or computed as input, in place of a read.
    """
    table = price_table()
    row = None if model is None else table.row(model, None, None)
    if row is None:
        return {}
    found = []
    for each in rows:
        rates = table.rates(row, each.tokens, None)
        cost = (rates.write - rates.read) * Decimal(each.lost_tokens) / MILLION
        found.append(each.model_copy(update={"cost": amount_text(cost)}))
    return {"circumstances": found, "price_model": model, "currency": row.currency}
