"""Purposes of runs: each chooses the ledger's writer and the books. A new book is a class and a line here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from kvtool.accounting.book import Book
from kvtool.accounting.boundary import BoundaryBook
from kvtool.accounting.caches.request_layout import MOST_REPLAYED
from kvtool.accounting.misses.miss_book import MissBook
from kvtool.accounting.observable import ObservableBook
from kvtool.accounting.servers.server import ServerTraits
from kvtool.accounting.views.collector import ViewBook
from kvtool.diagnose.shared_secrets import SensitiveBook
from kvtool.measure.request_sample import RequestSample
from kvtool.profiler.run.cause_sample import CauseSample
from kvtool.profiler.run.ledger_writers import CauseWriter, FateWriter, HitWriter, hosted_scope, new_ledger
from kvtool.profiler.run.run_books import (
    CounterBook,
    DecodeBook,
    EventFile,
    HitBook,
    Hits,
    KeptBook,
    ProvidersBill,
    RowBook,
    SaltBook,
)
from kvtool.profiler.run.run_loop import RunLoop
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.profiler.run.samples import SampleBook
from kvtool.profiler.run.source_readers import read_by_two, read_divided, read_plainly
from kvtool.profiler.steps.step_book import StepBook
from kvtool.results.choices import By, misses_by, tokens_by
from kvtool.workload.kept_requests import KeptRequests, KeptTrace
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.accounting.event_writer import EventWriter
    from kvtool.accounting.prices.money_book import MoneyBook
    from kvtool.profiler.reported.event_comparison import EventComparison


def explained_run(
    setup: RunSetup,
    *,
    explain: bool = True,
    one_in: Mapping[str, int] | None = None,
    relaxed: Sequence[tuple[str, Hits]] = (),
    per_request: bool = False,
    by: By | None = None,
    views: ViewBook | None = None,
    decode: bool = False,
    money: MoneyBook | None = None,
    beside: EventComparison | None = None,
    keep: KeptTrace | KeptRequests | None = None,
    events: EventWriter | None = None,
    sample: RequestSample | None = None,
    bill: ProvidersBill | None = None,
    reports_usage: bool = False,
    lays_out: bool = False,
) -> RunLoop:
    """Make the run of a report: every token gets its fate, and every loss its cause.

    `one_in` limits the search for causes to a part of large groups; without `explain` there is none. `relaxed` are the hits of
    `HitBook`s of runs without a limit of the engine, by the fate that the limit explains. `by` requests the ledger's sums by
    session, tenant or line, and those of misses by session, project, model or day. `views` collects the data of charts, `decode`
    the reads of decode steps, `money` the costs of requests. `beside` compares with the KV events of a server, `keep` keeps the
    requests for later runs, `events` gets the engine's KV events, and `sample` draws requests for a measured run. `bill` sums the
    costs of requests to providers, where the run is that of an own server.
    `reports_usage`: misses are found in reported usage, where requests have it. `lays_out`: other marks will be priced.
    """
    from kvtool.profiler.reported.server_reads import ServerReadBook

    plan, maker = setup.plan, setup.maker
    plain = plan.engine.plan is None  # windows and states are read otherwise
    steps = DecodeBook(plan) if decode and plain and plan.sized else None
    server = setup.make_server(
        ladder=True,
        runner=None if steps is None else steps.runner,
        record_events=events is not None,
        lays_out=MOST_REPLAYED if lays_out else 0,
    )
    traits = server.traits
    ledger = FateWriter(
        plan, maker, traits, explain=explain, by=tokens_by(by), watcher=views, one_in=one_in, relaxed=relaxed
    )
    misses = setup.miss_book(money, misses_by(by)) if reports_usage else None
    books: list[Book | None] = [
        None if events is None else EventFile(events, server),
        None if keep is None else KeptBook(keep),
        steps,
        *setup.price_books(money),
        CounterBook(may_skip_cache=plan.by_vllm),
        views,
        beside,
        sample,
        bill,
        misses,
        RowBook() if per_request else None,
        setup.time_book(traits),
    ]
    as_they_are = explain and setup.rewrite is None
    if as_they_are:
        books += [
            SampleBook(),
            StepBook(misses),
            None if traits.salted else SaltBook(),
            SensitiveBook(),
            BoundaryBook(plan.base_block, whole_prompt_may_hit=traits.whole_prompt_may_hit),
            ObservableBook(_scope_of(traits)),
            ServerReadBook() if traits.follows_engine else None,
        ]
    read = read_by_two(setup, server, ledger, compares=not one_in) if as_they_are else read_plainly(setup)
    run = RunLoop(setup, server, ledger, [book for book in books if book is not None], read)
    if as_they_are:
        setup.progress.tells(run.rate_so_far)
    return run


def cause_run(
    setup: RunSetup,
    *,
    groups: Collection[str] | None = None,
    one_in: Mapping[str, int] | None = None,
    money: MoneyBook | None = None,
) -> RunLoop:
    """Make a run that finds hits and the causes of losses (of these groups, if given), and no fate of any token; see
    `explained_run`."""
    plan, maker = setup.plan, setup.maker
    server = setup.make_server(ladder=False)
    ledger = new_ledger(plan, maker, server.traits, find_gaps=True, fates=False)
    writer = CauseWriter(plan, maker, server.traits, ledger, looks=CauseSample(one_in or {}, groups))
    books = [*setup.price_books(money), *([setup.time_book(server.traits)] if server.traits.has_clock else [])]
    return RunLoop(setup, server, writer, books, read_divided(setup, CauseSample(one_in or {}, groups)))


def counted_run(
    setup: RunSetup, *, keep_hits: bool = False, money: MoneyBook | None = None, timed: bool = False
) -> RunLoop:
    """Make a run that counts hits, and no fate of any token.

    `keep_hits`: request by request. `money` sums the costs of requests; `timed` predicts their times, too.
    """
    plan, maker = setup.plan, setup.maker
    server = setup.make_server(ladder=False, lays_out=0 if money is None else MOST_REPLAYED)
    writer = HitWriter(plan, maker, server.traits)
    books: list[Book] = [*([HitBook()] if keep_hits else []), *setup.price_books(money)]
    if timed or server.traits.has_clock:
        books.append(setup.time_book(server.traits))
    return RunLoop(setup, server, writer, books, read_divided(setup))


def _scope_of(traits: ServerTraits) -> Callable[[Turn], str | None]:
    """Return how the cache that a request can read is named."""
    if traits.hosted:
        return hosted_scope
    return (lambda turn: turn.salt) if traits.salted else lambda _: None


def missed_run(setup: RunSetup, money: MoneyBook) -> RunLoop:
    """Make a run that sums the misses in reported usage by session, with their costs, and compares the text of no prompts."""
    server = setup.make_server(ladder=False)
    misses = MissBook(money, None if setup.plan.cache is None else setup.plan.cache.epoch, hosted=True, by="session")
    return RunLoop(setup, server, HitWriter(setup.plan, setup.maker, server.traits), [misses], read_plainly(setup))
