"""Settings and objects that every run needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtool.accounting.book import Book
from kvtool.accounting.misses.miss_book import MissBook
from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.choose import choose_server
from kvtool.accounting.servers.server import Server, ServerTraits
from kvtool.engine.runner import DryRunner
from kvtool.engine.step import Runner
from kvtool.profiler.run.run_books import PriceBook, TimeBook
from kvtool.results.choices import MissesBy
from kvtool.text.terminal.progress import Progress
from kvtool.workload.drive import Rewrite
from kvtool.workload.jobs import JobMaker

if TYPE_CHECKING:
    from kvtool.accounting.prices.money_book import MoneyBook


@dataclass(frozen=True, slots=True)
class RunSetup:
    """Settings and objects that every run needs."""

    plan: Plan
    maker: JobMaker
    progress: Progress
    rewrite: Rewrite | None = None
    """Changes each turn before it is used."""
    jobs: int | None = 1
    """Processes that may work on the run; None: as many as pay."""

    def make_server(
        self, *, ladder: bool, runner: Runner | None = None, record_events: bool = False, lays_out: int = 0
    ) -> Server:
        """Make the server of the run."""
        numbers = self.maker.numbers
        return choose_server(
            self.plan,
            runner or DryRunner(),
            numbers=numbers,
            record_events=record_events,
            ladder=ladder,
            lays_out=lays_out,
        )

    def time_book(self, traits: ServerTraits) -> TimeBook:
        """Make the book of times to the first token."""
        return TimeBook(self.plan, has_clock=traits.has_clock)

    @property
    def in_order_of_log(self) -> bool:
        """Return whether requests of tokens run one after another, in the order of the log."""
        plan = self.plan
        return plan.one_at_a_time and not plan.use_arrivals and not plan.traced

    def price_books(self, money: MoneyBook | None) -> list[Book]:
        """Make the book of prices, if a cache's rules define the charges."""
        cache = self.plan.cache
        return [] if money is None or cache is None else [PriceBook(money, cache.epoch)]

    def miss_book(self, money: MoneyBook | None, by: MissesBy | None) -> MissBook:
        """Make the book of misses in reported usage."""
        return MissBook(money, None if self.plan.cache is None else self.plan.cache.epoch, self.plan.hosted, by)
