"""The command `kvtool prices`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Argument, Option, check_values, only
from kvtool.config.options.pricing_options import Pricing
from kvtool.config.options.shown_options import Showing
from kvtool.errors import KvtoolError

_MOST_NEAR = 5
"""Names that an error proposes."""


@dataclass(frozen=True, kw_only=True)
class PricesCommand(Command):
    """List the prices of hosted models, with their days, their sources and the day of the last check."""

    model: Annotated[str | None, Argument("Model by any name, such as gpt-5.6-sol; without it, all", "[MODEL]")] = None
    on: Annotated[str | None, Option("Day to show the prices of.", "DATE")] = None
    pricing: Annotated[Pricing, only("prices")]
    showing: Annotated[Showing, only("json", "color", "plain", "width")]

    def run(self) -> int:
        """Print the rows. KvtoolError for a model without a price or a day that is none."""
        from datetime import date

        from kvtool.accounting.hosted_models import is_own_name
        from kvtool.accounting.prices.price_lines import prices_document
        from kvtool.accounting.prices.price_table import price_table

        check_values(self)
        table = price_table(self.pricing.prices)
        rows = list(table.rows) if self.model is None else table.find(self.model)
        if not rows:
            near = table.near(self.model or "")[:_MOST_NEAR]
            like = f"names like it: {', '.join(near)}" if near else "kvtool prices lists all models"
            if is_own_name(self.model or ""):
                like = "it is a name of weights on your own server, which has no price by the token"
            raise KvtoolError(f"no price is known for `{self.model}`", hint=f"{like}; --prices FILE adds your own")
        if self.on is not None:
            try:
                day = date.fromisoformat(self.on)
            except ValueError:
                raise KvtoolError(f"--on {self.on[:40]} is not a date", hint="write it like 2026-08-21") from None
            rows = [row for row in rows if row.applies_on(day)]
            if not rows:
                raise KvtoolError(f"no price is known for {day}", hint="leave --on out to see all days")
        document = prices_document(rows)
        if self.showing.json:
            sys.stdout.write(document.to_json())
            return 0
        from kvtool.report.terminal.prices import print_prices
        from kvtool.text.terminal.streams import printing

        with printing():
            print_prices(self.showing.console(), document, details=self.model is not None, on=self.on)
        return 0
