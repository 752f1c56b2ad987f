"""Explicit caches of Gemini that cost less than what a log paid."""

from __future__ import annotations

from decimal import Decimal

from kvtool.accounting.caches.request_layout import PromptLayout
from kvtool.accounting.log_clock import moment_of
from kvtool.accounting.prices.bill import shown_money
from kvtool.accounting.prices.explicit_caches import ExplicitCache, cheaper_caches
from kvtool.accounting.prices.price_row import Rates
from kvtool.profiler.reported.cheapest_marks import saves_enough
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.results.documents.optimize import NamedCache
from kvtool.results.money import amount_text


def explicit_caches(before: RunResult) -> list[ExplicitCache]:
    """Return the explicit caches that cost less than what was paid for the requests of a log."""
    hosted, book = before.counts.hosted, money_of(before)
    if hosted is None or book is None or not book.told:
        return []

    def rates_of(layout: PromptLayout) -> Rates | None:
        return book.rates_of(layout.call, layout.prompt, moment_of(hosted.rules.epoch, layout.use.now))

    return [each for each in cheaper_caches(hosted.nameable, rates_of) if saves_enough(each.paid, each.cost)]


def named_caches(before: RunResult) -> list[NamedCache]:
    """Return the same as a document has them."""
    book = money_of(before)
    return [
        NamedCache(
            model=each.model,
            end=each.end,
            kept=each.kept,
            tokens=each.tokens,
            ttl=each.ttl,
            made=each.made,
            requests=each.requests,
            paid=amount_text(each.paid),
            cost=amount_text(each.cost),
            storage=amount_text(each.storage),
            uses_per_hour=each.uses_per_hour,
            currency="USD" if book is None else next(iter(book.currencies), "USD"),
        )
        for each in explicit_caches(before)
    ]


def named_caches_note(result: RunResult) -> list[str]:
    """Return what such caches would cost, and the command that shows them; nothing where none is cheaper."""
    found = named_caches(result)
    if not found:
        return []
    cost, paid = (
        sum(map(Decimal, of), Decimal(0)) for of in ([one.cost for one in found], [one.paid for one in found])
    )
    amounts = [shown_money(amount, found[0].currency) for amount in (cost, paid)]
    return [f"Explicit caches would cost {amounts[0]} instead of {amounts[1]} (estimate): kvtool optimize shows them."]
