"""Books of a run: each writes the same beside any others, and a new one is a class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.book import Book
from kvtool.accounting.boundary import BoundaryBook
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.accounting.observable import ObservableBook
from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.server import ServedRequest
from kvtool.accounting.views.collector import ViewBook
from kvtool.diagnose.shared_secrets import SensitiveBook
from kvtool.engine.blocks.chain_numbers import TraceNumbers
from kvtool.engine.config import EngineConfig
from kvtool.profiler.run.ledger_writers import FateWriter
from kvtool.profiler.run.purposes import cause_run, counted_run, explained_run
from kvtool.profiler.run.run_books import CounterBook, DecodeBook, HitBook, RowBook, TimeBook
from kvtool.profiler.run.run_loop import RunLoop
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.profiler.run.source_readers import read_plainly
from kvtool.text.terminal.progress import Progress
from kvtool.workload.call import Call, Usage
from kvtool.workload.jobs import Job, JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn
from tests.accounting.view_runs import BLOCK, LATENCY, Given, hashed, traces, turn, workloads

plans = st.builds(
    Plan,
    st.builds(EngineConfig, block_size=st.just(BLOCK), num_blocks=st.sampled_from([None, 12, 40])),
    st.just(LATENCY),
    rules=st.sampled_from(["vllm", "block-lru"]),
    concurrency=st.sampled_from([None, 3]),
)
NEW: dict[str, Callable[[RunSetup], Book]] = {
    "boundaries": lambda _: BoundaryBook(BLOCK),
    "decode": lambda setup: DecodeBook(setup.plan),
    "counters": lambda _: CounterBook(may_skip_cache=True),
    "hits": lambda _: HitBook(),
    "observable": lambda _: ObservableBook(),
    "rows": lambda _: RowBook(),
    "sensitive": lambda _: SensitiveBook(),
    "times": lambda setup: setup.time_book(setup.make_server(ladder=True).traits),
}
PARTS: dict[str, Callable[[RunResult], object]] = {
    "boundaries": lambda result: [group.boundary() for group in result.book(BoundaryBook)],
    "decode": lambda result: result.book(DecodeBook).decode,
    "counters": lambda result: result.book(CounterBook).generation_tokens,
    "hits": lambda result: result.book(HitBook).hits,
    "observable": lambda result: result.book(ObservableBook).tenants,
    "rows": lambda result: result.book(RowBook).rows,
    "sensitive": lambda result: list(result.book(SensitiveBook).shared()),
    "times": lambda result: (result.book(TimeBook).groups, result.book(TimeBook).off, result.book(TimeBook).computed),
}


def setup_of(renderer: Renderer, plan: Plan, numbers: TraceNumbers | None = None) -> RunSetup:
    return RunSetup(plan, JobMaker(renderer, seed=0, numbers=numbers), Progress(None))


def run_with(setup: RunSetup, turns: Sequence[Turn], *names: str) -> RunResult:
    server = setup.make_server(ladder=True)
    ledger = FateWriter(setup.plan, setup.maker, server.traits)
    return RunLoop(setup, server, ledger, [NEW[name](setup) for name in names], read_plainly(setup)).run(Given(turns))


def hits(result: RunResult) -> object:
    return [
        (one.name, one.requests, one.prompt_tokens, one.hit_tokens) for one in result.ledger.totals() if one.requests
    ]


@given(st.one_of(workloads, traces()), plans, st.sampled_from(sorted(NEW)))
def test_a_book_writes_the_same_beside_all_others(
    byte_renderer: Renderer, turns: list[Turn], plan: Plan, name: str
) -> None:
    numbers = TraceNumbers() if turns[0].hashed is not None else None
    alone = run_with(setup_of(byte_renderer, plan, numbers), turns, name)
    every = run_with(setup_of(byte_renderer, plan, None if numbers is None else TraceNumbers()), turns, *sorted(NEW))
    assert PARTS[name](alone) == PARTS[name](every)
    assert hits(alone) == hits(every)


@given(st.one_of(workloads, traces()), plans)
def test_every_purpose_counts_the_same_hits(byte_renderer: Renderer, turns: list[Turn], plan: Plan) -> None:
    traced = turns[0].hashed is not None

    def setup() -> RunSetup:
        return setup_of(byte_renderer, plan, TraceNumbers() if traced else None)

    views = ViewBook(BLOCK, whole_prompt_may_hit=plan.by_trace_study)
    runs = [
        counted_run(setup()),
        counted_run(setup(), keep_hits=True, timed=True),
        cause_run(setup()),
        explained_run(setup()),
        explained_run(setup(), views=views, per_request=True, by="session", decode=True),
    ]
    found = [run.run(Given(turns)) for run in runs]
    assert [hits(one) for one in found[1:]] == [hits(found[0])] * 4
    assert [one.counts for one in found[1:]] == [found[0].counts] * 4


def test_a_book_that_a_purpose_does_not_have_is_no_empty_one(byte_renderer: Renderer) -> None:
    result = counted_run(setup_of(byte_renderer, Plan(EngineConfig(block_size=BLOCK), LATENCY))).run(Given([turn([1])]))
    assert result.find(RowBook) is None
    with pytest.raises(AssertionError, match="RowBook"):
        result.book(RowBook)


def test_a_book_without_batches_gets_each_request_of_a_trace(byte_renderer: Renderer) -> None:
    turns = [hashed([1, 2], 2 * BLOCK), hashed([1, 3], 2 * BLOCK)]
    setup = setup_of(byte_renderer, Plan(EngineConfig(block_size=BLOCK), LATENCY), TraceNumbers())
    result = run_with(setup, turns, "rows", "boundaries")
    assert [row.hit_tokens for row in result.book(RowBook).rows] == [0, BLOCK]


@dataclass
class Misses(Book):
    """What a book of misses takes: one class, and a line in a purpose."""

    takes_batches = False
    found: list[tuple[str, int]] = field(default_factory=list)

    def end(self, job: Job, entry: LedgerEntry | None, _served: ServedRequest) -> None:
        usage = job.turn.call.usage
        assert entry is not None
        if usage is not None and usage.cached is not None and usage.cached < entry.reachable:
            self.found.append((job.request.id, entry.reachable - usage.cached))


def test_a_new_book_is_one_class(byte_renderer: Renderer) -> None:
    """It lists the requests of which a server reported that it read less than had been sent before."""
    prompt = list(range(3 * BLOCK + 1))
    turns = [
        replace(turn(prompt), id=f"r{number}", call=Call(usage=Usage(prompt=len(prompt), cached=cached)))
        for number, cached in enumerate((0, 3 * BLOCK, BLOCK, None))
    ]
    setup = setup_of(byte_renderer, Plan(EngineConfig(block_size=BLOCK), LATENCY))
    server, book = setup.make_server(ladder=True), Misses()
    ledger = FateWriter(setup.plan, setup.maker, server.traits)
    result = RunLoop(setup, server, ledger, [book], read_plainly(setup)).run(Given(turns))
    assert result.book(Misses).found == [("r2", 2 * BLOCK)]
