"""Two batches in flight: a step is scheduled before the tokens of the one before are known."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.clock import WallClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.request import Request, Status
from kvtool.engine.runner import DryRunner
from kvtool.engine.sequential import account
from kvtool.engine.step import EngineStep

BLOCK = 4


class Oracle:
    """A model whose next token depends on every token before it, so that one wrong or missing token changes the rest."""

    def run(self, step: EngineStep) -> list[int | None]:
        tokens: list[int | None] = []
        for item in step.scheduled:
            request, end = item.request, item.start + item.num_tokens
            assert len(request.block_ids) * BLOCK >= end
            tokens.append(zlib.crc32(request.token_ids(0, end).tobytes()) % 5 if item.samples else None)
        return tokens


def request(name: str, ids: list[int], outputs: int = 1, **options: object) -> Request:
    return Request(name, len(ids), prompt_ids=np.array(ids, np.int32), max_tokens=outputs, **options)  # type: ignore[arg-type]


def engine(num_blocks: int | None = None, *, asynchronous: bool = True, **options: object) -> Engine:
    config = EngineConfig(block_size=BLOCK, num_blocks=num_blocks, async_scheduling=asynchronous, **options)  # type: ignore[arg-type]
    return Engine(config, Oracle(), WallClock())


def finish(running: Engine, most: int = 5_000) -> int:
    """The number of steps it took."""
    for step in range(most):
        if not running.busy:
            return step
        running.step()
        running.scheduler.check()
    raise AssertionError("it never ends")


def test_a_request_ends_one_step_later_and_is_never_scheduled_in_vain() -> None:
    config = EngineConfig(block_size=BLOCK, async_scheduling=True)
    seen: list[list[tuple[int, int]]] = []

    class Watching(DryRunner):
        def run(self, step: EngineStep) -> list[int | None]:
            seen.append([(item.start, item.num_tokens) for item in step.scheduled])
            return super().run(step)

    running = Engine(config, Watching(), WallClock())
    one = request("a", list(range(10)), outputs=3)
    running.add(one)
    assert [len(running.step()) for _ in range(4)] == [0, 0, 0, 1]
    assert seen == [[(0, 10)], [(10, 1)], [(11, 1)], []]
    assert one.status is Status.FINISHED
    assert not running.busy


def test_generated_blocks_can_be_hit_a_step_later() -> None:
    """Token 4 of `a` is sampled in step 1; the block that it fills is computed in step 2 and known when step 3 is scheduled."""
    running = engine()
    first = request("a", [1, 2], outputs=9)
    running.add(first)
    stored = []
    for _ in range(6):
        running.step()
        stored.append((first.num_computed_tokens, running.cache.num_stored))
    assert stored == [(2, 0), (3, 0), (4, 0), (5, 1), (6, 1), (7, 1)]
    sync = engine(asynchronous=False)
    sync.add(second := request("a", [1, 2], outputs=9))
    stored = []
    for _ in range(6):
        sync.step()
        stored.append((second.num_computed_tokens, sync.cache.num_stored))
    assert stored == [(2, 0), (3, 0), (4, 1), (5, 1), (6, 1), (7, 1)]


def test_a_finished_request_keeps_its_place_while_the_next_step_is_scheduled() -> None:
    admitted = []
    for asynchronous in (False, True):
        running = engine(asynchronous=asynchronous, max_num_seqs=1)
        running.add(request("a", [1, 2, 3]))
        running.add(second := request("b", [4, 5, 6]))
        finish(running)
        admitted.append(second.admissions)
    assert admitted == [[(1, 0)], [(2, 0)]]


def test_an_answer_that_fills_the_model_ends_there() -> None:
    for outputs in (6, 7, 50):
        running = engine(max_model_len=10)
        running.add(one := request("a", [1, 2, 3], outputs=outputs))
        finish(running)
        assert len(one.outputs) == min(outputs, 7)


@pytest.mark.parametrize(("outputs", "ends"), [(4, True), (5, False)])
def test_a_preempted_request_still_gets_its_token_and_may_end_with_it(outputs: int, ends: bool) -> None:
    """Of four usable blocks `a` wants a third one in step 4, when the fourth token of `b` is in flight."""
    running = engine(5)
    running.add(first := request("a", [1, 2, 3, 4, 5], outputs=8))
    running.add(last := request("b", [6, 7, 8, 9, 10], outputs=outputs))
    for _ in range(4):
        assert running.step() == []
    assert (len(last.outputs), last.num_preemptions) == (3, 0)
    assert [one.id for one in running.step()] == (["b"] if ends else [])
    assert (len(last.outputs), last.num_preemptions) == (4, 1)
    assert last.status is (Status.FINISHED if ends else Status.PREEMPTED)
    assert len(running.scheduler.waiting) == (not ends)
    finish(running)
    assert [len(one.outputs) for one in (first, last)] == [8, outputs]
    assert len(last.admissions) == 1 + (not ends)


@dataclass(frozen=True)
class Spec:
    ids: tuple[int, ...]
    outputs: int
    step: int
    priority: int
    salt: str | None


specs = st.builds(
    Spec,
    ids=st.lists(st.integers(0, 1), min_size=1, max_size=14).map(tuple),
    outputs=st.integers(1, 12),
    step=st.integers(0, 12),
    priority=st.integers(0, 2),
    salt=st.sampled_from([None, None, "s"]),
)
options = st.fixed_dictionaries(
    {
        "max_num_batched_tokens": st.sampled_from([3, 8, 100]),
        "max_num_seqs": st.integers(1, 5),
        "policy": st.sampled_from(["fcfs", "priority"]),
        "watermark": st.sampled_from([0.0, 0.2]),
        "long_prefill_token_threshold": st.sampled_from([0, 2]),
        "scheduler_reserve_full_isl": st.booleans(),
        "enable_prefix_caching": st.sampled_from([True, True, False]),
        "max_model_len": st.sampled_from([16, 1 << 31]),
    }
)


def run(running: Engine, workload: list[Spec], resets: dict[int, bool]) -> tuple[list[tuple[list[int], Status]], int]:
    """Each request's answer, and the preemptions; resets come before their step, those that are true preempt."""
    requests = [
        request(
            str(index), list(spec.ids), spec.outputs, priority=spec.priority, cache_salt=spec.salt, arrival=spec.step
        )
        for index, spec in enumerate(workload)
    ]
    for step in range(20):
        for spec, one in zip(workload, requests, strict=True):
            if spec.step == step:
                running.add(one)
        if step in resets:
            running.scheduler.reset_prefix_cache(reset_running=resets[step])
        running.step()
        running.scheduler.check()
    finish(running)
    assert running.cache.num_used == 0
    assert not any(one.num_awaited_outputs for one in requests)
    return [(one.outputs, one.status) for one in requests], running.scheduler.num_preemptions


@given(
    workload=st.lists(specs, min_size=1, max_size=8),
    config=options,
    num_blocks=st.none() | st.integers(8, 14),
    resets=st.dictionaries(st.integers(0, 15), st.booleans(), max_size=3),
)
def test_nothing_that_is_generated_changes(
    workload: list[Spec], config: dict[str, object], num_blocks: int | None, resets: dict[int, bool]
) -> None:
    """Under preemptions, resets, chunks and priorities the answers are those of synchronous scheduling in an endless cache."""
    workload = [spec for spec in workload if len(spec.ids) < config["max_model_len"]]  # type: ignore[operator]
    plain, _ = run(engine(asynchronous=False, max_model_len=config["max_model_len"]), workload, {})
    assert all(status is Status.FINISHED for _, status in plain)
    answers, _ = run(engine(num_blocks, **config), workload, resets)
    assert answers == plain


@given(workload=st.lists(specs, min_size=1, max_size=8), config=options, num_blocks=st.none() | st.integers(8, 14))
def test_requests_that_run_alone_can_be_accounted_at_once(
    workload: list[Spec], config: dict[str, object], num_blocks: int | None
) -> None:
    stepped, at_once = (engine(num_blocks, **config) for _ in range(2))
    stepped.runner = DryRunner()
    for index, spec in enumerate(workload):
        one, other = (request(str(index), list(spec.ids), spec.outputs, cache_salt=spec.salt) for _ in range(2))
        stepped.add(one)
        finish(stepped)
        account(at_once.scheduler, other)
        assert (one.outputs, one.num_cached_tokens) == (other.outputs, other.num_cached_tokens)
    assert list(stepped.cache.free_queue) == list(at_once.cache.free_queue)
    assert stepped.cache.hashes == at_once.cache.hashes
    assert stepped.cache.num_evictions == at_once.cache.num_evictions
    assert stepped.scheduler.stats == at_once.scheduler.stats


def test_random_workloads_do_preempt() -> None:
    """Else the test above would say little."""
    workload = [Spec((0, 1) * 6, 12, 0, 0, None), Spec((1, 1, 1), 12, 0, 0, None), Spec((1,) * 14, 9, 1, 0, None)]
    _, preemptions = run(engine(9), workload, {})
    assert preemptions > 0


def test_a_reset_drops_what_is_in_flight() -> None:
    """The request runs again in the very step whose predecessor's token is still to come: that token must not count twice."""
    running = engine()
    running.add(one := request("a", list(range(6)), outputs=4))
    running.step()
    running.step()
    assert running.scheduler.reset_prefix_cache(reset_running=True)
    assert len(one.outputs) == 1
    finish(running)
    plain = engine(asynchronous=False)
    plain.add(other := request("a", list(range(6)), outputs=4))
    finish(plain)
    assert one.outputs == other.outputs
    assert one.num_preemptions == 1


@pytest.mark.parametrize("asynchronous", [False, True])
def test_lookups_are_counted_once_and_resumes_apart(asynchronous: bool) -> None:
    running = engine(9, asynchronous=asynchronous)
    requests = [request(str(index), ids, 12) for index, ids in enumerate([[0, 1] * 6, [0, 1] * 6, [1, 1, 1]])]
    for one in [*requests, request("x", [7] * 5, skip_reading_cache=True)]:
        running.add(one)
    finish(running)
    stats = running.scheduler.stats
    assert (stats.requests, stats.queries) == (3, 27)
    assert stats.hits == 8
    assert stats.preempted_requests == sum(len(one.admissions) - 1 for one in requests) > 0
    assert stats.preempted_queries > stats.preempted_hits > 0
