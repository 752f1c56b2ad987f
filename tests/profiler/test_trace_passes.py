"""Passes over traces: by number as by hash, with everything as for hits only, read from the log as kept from before."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvtool.accounting.boundary import BoundaryBook
from kvtool.accounting.caches.cache_rules import CacheRules
from kvtool.accounting.plan import Plan
from kvtool.accounting.views.collector import ViewBook
from kvtool.api import profile
from kvtool.engine.blocks.chain_numbers import TraceNumbers
from kvtool.engine.config import EngineConfig
from kvtool.profiler.run.purposes import counted_run, explained_run
from kvtool.profiler.run.run_books import CounterBook, DecodeBook, RowBook, TimeBook
from kvtool.profiler.run.run_loop import RunLoop
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.text.terminal.progress import Progress
from kvtool.workload.jobs import JobMaker
from kvtool.workload.kept_requests import KeptTrace
from kvtool.workload.logs import TRACE_BLOCK
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Conversation, Source, Turn
from tests.accounting.view_runs import BLOCK, LATENCY, Given, hashed, traces
from tests.accounting.view_runs import turn as tokens

plans = st.builds(
    Plan,
    st.builds(
        EngineConfig,
        block_size=st.just(BLOCK),
        num_blocks=st.sampled_from([None, 9, 13, 30]),
        enable_prefix_caching=st.sampled_from([True, True, False]),
        max_num_batched_tokens=st.sampled_from([6, 1000]),
    ),
    st.just(LATENCY),
    rules=st.sampled_from(["vllm", "vllm", "block-lru"]),
    concurrency=st.sampled_from([None, None, 3]),
    cache=st.sampled_from([
        None, None, None, CacheRules(replicas=2, routing="prefix-aware"), CacheRules(replicas=2, routing="random"),
    ]),
)  # fmt: skip
extras = st.lists(
    st.tuples(st.sampled_from([None, None, "x"]), st.sampled_from([None, "s", "t"]), st.integers(0, 9)),
    min_size=12,
    max_size=12,
)


def with_extras(turns: Sequence[Turn], more: Sequence[tuple[str | None, str | None, int]]) -> list[Turn]:
    return [
        replace(turn, salt=salt, session=session, output_tokens=answer, id=str(number))
        for number, (turn, (salt, session, answer)) in enumerate(zip(turns, more, strict=False))
    ]


def run(renderer: Renderer, source: Source, plan: Plan, numbers: TraceNumbers | None, **wanted: Any) -> RunResult:
    maker = JobMaker(renderer, seed=0, numbers=numbers)
    progress = wanted.pop("progress", Progress(None))
    return explained_run(RunSetup(plan, maker, progress), **{"explain": False, **wanted}).run(source)


def figures(result: RunResult) -> dict[str, object]:
    """All that a report tells of a pass."""
    views, decode, rows, boundaries = (result.find(kind) for kind in (ViewBook, DecodeBook, RowBook, BoundaryBook))
    assert isinstance(views, ViewBook)
    return {
        "groups": list(result.ledger.totals()),
        "sums": result.ledger.sums(),
        "views": views.views(result.ledger),
        "timelines": views.timelines(),
        "boundaries": boundaries and [group.boundary() for group in boundaries],
        "times": (result.book(TimeBook).groups, result.book(TimeBook).off),
        "decode": decode and decode.decode,
        "rows": rows and rows.rows,
        "counts": (
            result.counts.evictions, result.counts.preemptions, result.counts.queries, result.counts.hit_queries,
            result.book(CounterBook).generation_tokens,
            result.counts.filled_blocks, result.counts.peak_used_blocks, result.left_out.refused, result.left_out.first_refusal,
        ),
    }  # fmt: skip


@given(traces(), extras, plans, st.sampled_from([None, "session"]), st.booleans(), st.sampled_from([None, 14]))
def test_by_number_as_by_hash(
    byte_renderer: Renderer, turns: list[Turn], more: list[Any], plan: Plan, by: Any, details: bool, longest: int | None
) -> None:
    """Also where some prompts are longer than the model takes: what never ran is not known to those that come later."""
    turns = with_extras(turns, more)
    if longest is not None:
        plan = replace(plan, engine=replace(plan.engine, max_model_len=longest))
    found = [
        figures(
            run(
                byte_renderer, Given(turns), plan, numbers, per_request=True, decode=True, by=by,
                views=ViewBook(BLOCK, whole_prompt_may_hit=plan.rules == "block-lru", details=details),
            )
        )
        for numbers in (None, TraceNumbers())
    ]  # fmt: skip
    assert found[0] == found[1]


@given(
    traces(),
    st.lists(
        st.tuples(st.sampled_from([None, None, None, "x"]), st.sampled_from([*[None] * 9, "s"]), st.integers(0, 9)),
        min_size=12,
        max_size=12,
    ),
    plans,
    st.integers(1, 5),
    st.sampled_from([1, 64]),
    st.sampled_from([None, 14]),
    st.booleans(),
)
def test_many_at_a_time_as_one_by_one(
    byte_renderer: Renderer,
    turns: list[Turn],
    more: list[Any],
    plan: Plan,
    together: int,
    groups: int,
    longest: int | None,
    explain: bool,
) -> None:
    """A session, one group too many and what does not fit end it; with no group at all each is taken by itself."""
    turns = with_extras(turns, more)
    if longest is not None:
        plan = replace(plan, engine=replace(plan.engine, max_model_len=longest))
    found = []
    for most in (0, groups):
        views = ViewBook(BLOCK, whole_prompt_may_hit=plan.rules == "block-lru", details=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kvtool.profiler.run.trace_run._TOGETHER", together)
            patch.setattr("kvtool.profiler.run.trace_run._MOST_GROUPS", most)
            result = run(byte_renderer, Given(turns), plan, TraceNumbers(), decode=True, explain=explain, views=views)
        found.append(figures(result))
    assert found[0] == found[1]


def test_what_is_taken_many_at_a_time_is_told_while_it_runs(byte_renderer: Renderer) -> None:
    """Requests wait for their books; who asks for the hit rate has all that are done."""
    told: list[str] = []
    asked: list[Callable[[], str]] = []

    class Asking(Progress):
        def tells(self, found: Callable[[], str]) -> None:
            asked.append(found)

        def advance(self, count: int = 1) -> None:
            super().advance(count)
            told.extend(each() for each in asked)

    plan = Plan(EngineConfig(block_size=BLOCK), LATENCY)
    turns = [hashed([1, 2, each], 3 * BLOCK) for each in (3, 4, 5)]
    result = run(byte_renderer, Given(turns), plan, TraceNumbers(), progress=Asking(None), explain=True)
    assert told == ["0.0% hit", "33.3% hit", "44.4% hit"]
    assert result.counts.queries == 3 * 3 * BLOCK


def test_what_was_served_before_ctrl_c_is_in_the_books(byte_renderer: Renderer) -> None:
    class Interrupted(Given):
        def conversations(self) -> Iterator[Conversation]:
            yield from super().conversations()
            raise KeyboardInterrupt

    turns = [hashed([1, 2, each], 3 * BLOCK) for each in (3, 4, 5)]
    plan = Plan(EngineConfig(block_size=BLOCK, num_blocks=9), LATENCY)
    found = []
    for source in (Interrupted(turns), Given(turns)):
        views = ViewBook(BLOCK, details=False)
        result = run(byte_renderer, source, plan, TraceNumbers(), decode=True, explain=True, views=views)
        assert result.partial == isinstance(source, Interrupted)
        found.append(figures(result))
    assert found[0] == found[1]


@given(traces(), extras, plans)
def test_hits_only_and_kept_from_before(
    byte_renderer: Renderer, turns: list[Turn], more: list[Any], plan: Plan
) -> None:
    turns = [replace(turn, salt=None, session=None) for turn in with_extras(turns, more)]
    numbers, keep = TraceNumbers(), KeptTrace()
    whole = run(byte_renderer, Given(turns), plan, numbers, keep=keep)
    assert keep.complete
    assert not whole.left_out.refused  # else it had been left out of what is kept
    for source, again in ((Given(turns), None), (Given(turns), TraceNumbers()), (keep, numbers)):
        setup = RunSetup(plan, JobMaker(byte_renderer, seed=0, numbers=again), Progress(None))
        lean = counted_run(setup).run(source)
        assert [(one.name, one.requests, one.prompt_tokens, one.hit_tokens) for one in lean.ledger.totals()] == [
            (one.name, one.requests, one.prompt_tokens, one.hit_tokens) for one in whole.ledger.totals() if one.requests
        ] + [(one.name, 0, 0, 0) for one in whole.ledger.totals() if not one.requests]
        assert lean.counts.evictions == whole.counts.evictions
        assert (lean.left_out.refused, lean.counts.preemptions) == (whole.left_out.refused, whole.counts.preemptions)


@example([[0] * 5], [hashed([0], BLOCK)])
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=14), min_size=1, max_size=6), traces())
def test_tokens_among_a_trace(byte_renderer: Renderer, prompts: list[list[int]], traced: list[Turn]) -> None:
    """A log of both: what has tokens goes by the number of its hash."""
    mixed = [each for pair in zip(traced, map(tokens, prompts), strict=False) for each in pair]
    for blocks in (None, 12):
        plan = Plan(EngineConfig(block_size=BLOCK, num_blocks=blocks), LATENCY)
        found = [
            figures(run(byte_renderer, Given(mixed), plan, numbers, views=ViewBook(BLOCK)))
            for numbers in (None, TraceNumbers())
        ]
        assert found[0] == found[1]


def line(number: int) -> str:
    ids = [number % 5 + 10 * place for place in range(3)]
    return json.dumps({"timestamp": number, "input_length": 3 * TRACE_BLOCK, "output_length": 2, "hash_ids": ids})


def test_a_trace_is_read_once_whatever_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that is too small has two fixes, each run again; the trace is read for its block size and for the report."""
    passes: list[bool] = []

    run_plainly = RunLoop.run

    def watched(self: RunLoop, source: Source) -> RunResult:
        passes.append(isinstance(source, KeptTrace))
        return run_plainly(self, source)

    monkeypatch.setattr(RunLoop, "run", watched)
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(line, range(60))))
    kept = profile(str(path), capacity="8")
    assert passes == [False, True, True]
    assert any(finding.tried is not None for finding in kept.findings)
    passes.clear()
    monkeypatch.setattr("kvtool.workload.kept_requests.MOST_TRACE_BYTES", 100)
    assert profile(str(path), capacity="8") == kept
    assert passes == [False, False, False], "too large to be kept: read again"
    passes.clear()
    assert profile(str(path)).totals.evictions == 0
    assert passes == [False], "nothing is lost without a limit"
