"""The result of a run: its ledger, its causes, its other books, and its server's counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar

from kvtool.accounting.book import Book
from kvtool.accounting.ledger.ledger import Ledger
from kvtool.accounting.servers.server import RunCounts
from kvtool.diagnose.causes.cause_book import CauseBook
from kvtool.profiler.run.run_books import PriceBook
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.accounting.prices.money_book import MoneyBook

NO_MODEL = "no model named"
AnyBook = TypeVar("AnyBook", bound=Book)


@dataclass(slots=True)
class UnservedRequests:
    """Requests that a run did not serve."""

    refused: int = 0
    """Requests that the engine would never run, and the first reason."""
    first_refusal: str = ""
    failed: dict[int, int] = field(default_factory=dict)
    """Requests that their server refused or failed, by HTTP status: no traffic of its cache."""
    unpredicted: dict[str, int] = field(default_factory=dict)
    """Requests by model, where the run's rules are not those of its server."""
    uncached: dict[str, int] = field(default_factory=dict)
    """Requests by model, of models that their provider does not cache: there is nothing to predict."""
    groups: dict[str, None] = field(default_factory=dict)
    """The groups of unpredicted requests, in the order in which they came."""

    def refuse(self, reason: str) -> None:
        """Count a refused request."""
        self.refused += 1
        self.first_refusal = self.first_refusal or reason

    def leave_out(self, turn: Turn) -> None:
        """Count a request that is not predicted. A reported read outranks the page that says that its model has no cache."""
        from kvtool.accounting.caches.dated_rules import has_no_cache  # only logs need it

        model = turn.call.model or NO_MODEL
        usage = turn.call.usage
        has_read = model in self.unpredicted or (usage is not None and bool(usage.cached))
        if not has_read and has_no_cache(model, turn.call.provider):
            self.uncached[model] = self.uncached.get(model, 0) + 1
            return
        self.unpredicted[model] = self.unpredicted.get(model, 0) + self.uncached.pop(model, 0) + 1
        self.groups[turn.group] = None


@dataclass(slots=True)
class RunResult:
    """The result of one run over a workload."""

    ledger: Ledger
    causes: CauseBook
    books: Sequence[Book] = ()
    left_out: UnservedRequests = field(default_factory=UnservedRequests)
    counts: RunCounts = field(default_factory=RunCounts)
    partial: bool = False
    """True if Ctrl-C ended the run early."""

    _prompt_costs: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    """What `prompt_costs` returned before the books were dropped."""

    def prompt_costs(self) -> dict[str, tuple[Decimal, Decimal]]:
        """Return by group what its prompts cost by the rules, and without a cache; empty where no prices are known."""
        money = money_of(self)
        if money is None:
            return self._prompt_costs
        found: dict[str, tuple[Decimal, Decimal]] = {}
        for name, sides in money.groups.items():
            costs = [side.costs for side in sides.values() if side.costs.requests]
            full = sum((each.without.input for each in costs), Decimal(0))
            if full:
                found[name] = sum((each.predicted.prompt for each in costs), Decimal(0)), full
        return found

    def find(self, kind: type[AnyBook]) -> AnyBook | None:
        """Return the book of a kind; None where the run had none."""
        return next((book for book in self.books if isinstance(book, kind)), None)

    def book(self, kind: type[AnyBook]) -> AnyBook:
        """Return the book of a kind, which the purpose of the run has."""
        found = self.find(kind)
        assert found is not None, f"a run without {kind.__name__}"
        return found

    def forget_requests(self) -> None:
        """Keep totals and causes, and nothing that grows with the requests: several such results are kept side by side."""
        self._prompt_costs = self.prompt_costs()
        self.ledger.forget_requests()
        self.books = ()
        self.counts = replace(self.counts, hosted=None)


def money_of(result: RunResult) -> MoneyBook | None:
    """Return the sums of requests' costs; None if the run had none."""
    prices = result.find(PriceBook)
    return None if prices is None else prices.money
