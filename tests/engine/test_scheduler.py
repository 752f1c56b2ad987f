"""The scheduler against steps worked out by hand, and under random traffic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvtool.engine.blocks.block_keys import Image
from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.events import AllBlocksCleared
from kvtool.engine.request import Request, Status
from kvtool.engine.runner import DryRunner
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.step import EngineStep

BLOCK = 4
Row = dict[str, tuple[int, int]]


def scheduler(num_blocks: int | None = None, **options: object) -> Scheduler:
    config = EngineConfig(block_size=BLOCK, num_blocks=num_blocks, **options)  # type: ignore[arg-type]
    return Scheduler(config, BlockManager(config, record_events=True))


def request(name: str, ids: list[int], outputs: int = 1, **options: object) -> Request:
    """A prompt whose forced answer is 900, 901, …"""
    forced = [900 + i for i in range(outputs)]
    return Request(name, len(ids), prompt_ids=np.array(ids, np.int32), output_ids=forced, **options)  # type: ignore[arg-type]


def numbers(start: int, count: int) -> list[int]:
    return list(range(start, start + count))


def run_step(engine: Scheduler) -> EngineStep:
    step = engine.schedule()
    engine.check()
    engine.update(step, DryRunner().run(step))
    engine.check()
    return step


def rows(engine: Scheduler, steps: int) -> list[Row]:
    """What each of the next steps computes: request to (first token, number of tokens)."""
    return [
        {item.request.id: (item.start, item.num_tokens) for item in run_step(engine).scheduled} for _ in range(steps)
    ]


def test_an_image_has_one_length() -> None:
    """While the server keeps an image, its id with another length is refused."""
    engine = scheduler()
    engine.add(request("a", numbers(0, 12), images=(Image("cat", 2, 4),)))
    engine.add(request("b", numbers(0, 12), images=(Image("cat", 6, 4), Image("dog", 0, 2))))
    with pytest.raises(EngineError, match="image 'cat' with 3 tokens; an earlier one had 4"):
        engine.add(request("c", numbers(0, 12), images=(Image("cat", 2, 3),)))
    assert len(engine) == 2


def test_a_prompt_then_one_token_at_a_time() -> None:
    engine = scheduler()
    one = request("a", numbers(0, 10), outputs=3)
    engine.add(one)
    assert rows(engine, 3) == [{"a": (0, 10)}, {"a": (10, 1)}, {"a": (11, 1)}]
    assert one.status is Status.FINISHED
    assert one.outputs == [900, 901, 902]
    # 12 of 13 tokens are computed: the last sampled one never is.
    assert len(engine.cache.cached) == 3
    assert len(engine) == 0


def test_one_request_hits_what_another_of_the_same_step_computes() -> None:
    engine = scheduler()
    first, second = request("a", numbers(0, 10)), request("b", numbers(0, 10))
    engine.add(first)
    engine.add(second)
    step = engine.schedule()
    assert [(item.request.id, item.start, item.num_tokens) for item in step.scheduled] == [("a", 0, 10), ("b", 8, 2)]
    assert (first.block_ids, second.block_ids) == ([1, 2, 3], [1, 2, 4])
    assert (first.num_cached_tokens, second.num_cached_tokens) == (0, 8)
    assert second.admissions == [(0, 8)]


def test_chunked_prefill_fills_the_budget_and_decodes_go_first() -> None:
    engine = scheduler(max_num_batched_tokens=8)
    engine.add(request("a", numbers(0, 10), outputs=3))
    engine.add(request("b", numbers(50, 9), outputs=1))
    assert rows(engine, 4) == [
        {"a": (0, 8)},
        {"a": (8, 2), "b": (0, 6)},
        {"a": (10, 1), "b": (6, 3)},
        {"a": (11, 1)},
    ]


def test_a_chunk_is_hittable_before_the_rest_of_its_prompt() -> None:
    engine = scheduler(max_num_batched_tokens=6)
    engine.add(request("a", numbers(0, 9)))
    assert rows(engine, 1) == [{"a": (0, 6)}]
    engine.add(request("b", numbers(0, 9)))
    # a computes (and registers) its second block first; b then finds both.
    assert rows(engine, 2) == [{"a": (6, 3), "b": (8, 1)}, {}]


def test_without_chunked_prefill_a_prompt_waits_for_a_whole_budget_and_so_do_those_behind_it() -> None:
    engine = scheduler(max_num_batched_tokens=8, enable_chunked_prefill=False)
    for name, start, length in (("a", 0, 5), ("b", 20, 6), ("c", 40, 2)):
        engine.add(request(name, numbers(start, length)))
    assert rows(engine, 2) == [{"a": (0, 5)}, {"b": (0, 6), "c": (0, 2)}]
    with pytest.raises(EngineError, match="chunked prefill is off"):
        engine.add(request("d", numbers(60, 9)))


def test_a_hit_makes_room_in_the_budget_without_chunked_prefill() -> None:
    engine = scheduler(max_num_batched_tokens=8, enable_chunked_prefill=False)
    engine.add(request("a", numbers(0, 8)))
    run_step(engine)
    engine.add(request("b", numbers(20, 4)))
    engine.add(request("c", [*numbers(0, 4), 70, 71, 72, 73]))  # four of its eight tokens hit
    assert rows(engine, 1) == [{"b": (0, 4), "c": (4, 4)}]


def test_the_cap_on_long_prefills_holds_only_where_somebody_waits_for_it() -> None:
    engine = scheduler(long_prefill_token_threshold=3)
    engine.add(request("a", numbers(0, 10)))
    assert rows(engine, 1) == [{"a": (0, 10)}]
    engine.add(request("b", numbers(20, 7)))
    engine.add(request("c", numbers(40, 2)))
    assert rows(engine, 3) == [{"b": (0, 3), "c": (0, 2)}, {"b": (3, 4)}, {}]


def test_at_most_max_num_seqs_run() -> None:
    engine = scheduler(max_num_seqs=2)
    for name, outputs in (("a", 1), ("b", 2), ("c", 1)):
        engine.add(request(name, numbers(ord(name), 3), outputs=outputs))
    assert rows(engine, 2) == [{"a": (0, 3), "b": (0, 3)}, {"b": (3, 1), "c": (0, 3)}]


@pytest.mark.parametrize(("gate", "at_once"), [(True, False), (False, True)])
def test_the_admission_gate_wants_room_for_the_whole_prompt(gate: bool, at_once: bool) -> None:
    engine = scheduler(6, max_num_batched_tokens=8, scheduler_reserve_full_isl=gate)
    engine.add(request("a", numbers(0, 6), outputs=3))
    engine.add(request("b", numbers(50, 16)))  # four blocks; three are free beside a's two
    first = rows(engine, 1)[0]
    assert first["a"] == (0, 6)
    assert ("b" in first) == at_once
    while len(engine):
        run_step(engine)


def test_the_watermark_keeps_blocks_free_only_beside_running_requests() -> None:
    engine = scheduler(9, watermark=0.5)  # int(0.5 * 9) = 4 of 8 blocks
    engine.add(request("a", numbers(0, 20)))  # five: nothing runs, so they are given
    engine.add(request("b", numbers(30, 4)))
    assert rows(engine, 2) == [{"a": (0, 20)}, {"b": (0, 4)}]
    engine.add(request("c", numbers(50, 12)))
    engine.add(request("d", numbers(70, 4)))
    engine.add(request("e", numbers(80, 4)))
    assert rows(engine, 1) == [{"c": (0, 12), "d": (0, 4)}]  # 5 - 1 = 4 are left; one more would make it 3


def test_preemption_takes_the_last_admitted_which_resumes_from_what_is_left_of_its_blocks() -> None:
    engine = scheduler(6)
    first, second = request("a", numbers(0, 8), outputs=6), request("b", numbers(50, 7), outputs=4)
    engine.add(first)
    engine.add(second)
    assert rows(engine, 2) == [{"a": (0, 8), "b": (0, 7)}, {"a": (8, 1), "b": (7, 1)}]
    assert (first.block_ids, second.block_ids) == ([1, 2, 5], [3, 4])
    # b needs a third block for token 8 and there is none: it is the last of running, so it goes itself.
    step = run_step(engine)
    assert [item.request.id for item in step.scheduled] == ["a"]
    assert step.preempted == (second,)
    assert (second.status, second.num_computed_tokens, second.num_preemptions) == (Status.PREEMPTED, 0, 1)
    assert list(engine.cache.free_queue) == [4, 3]
    # b waits for three blocks until a is done; a's last token takes block 4, the tail of b.
    assert rows(engine, 3) == [{"a": (10, 1)}, {"a": (11, 1)}, {"a": (12, 1)}]
    assert list(engine.cache.free_queue) == [4, 3, 5, 2, 1]
    assert rows(engine, 2) == [{"b": (4, 5)}, {"b": (9, 1)}]
    assert second.outputs == [900, 901, 902, 903]
    assert second.admissions == [(0, 0), (6, 4)]
    assert second.num_cached_tokens == 0  # what the first admission hit
    assert engine.num_preemptions == 1


def test_by_priority_the_least_urgent_is_preempted_and_its_budget_is_given_to_others() -> None:
    engine = scheduler(6, policy="priority")
    low = request("low", numbers(50, 8), outputs=4, priority=9)
    engine.add(low)
    run_step(engine)
    high = request("high", numbers(0, 8), outputs=4, priority=1)
    engine.add(high)
    assert rows(engine, 1) == [{"low": (8, 1), "high": (0, 8)}]
    assert (low.block_ids, high.block_ids) == ([1, 2, 3], [4, 5])
    # low was scheduled first in this step; high needs a block, so low loses its blocks and its token.
    step = run_step(engine)
    assert [(item.request.id, item.start) for item in step.scheduled] == [("high", 8)]
    assert step.preempted == (low,)
    assert len(low.outputs) == 2
    while len(engine):
        run_step(engine)
    assert low.outputs == high.outputs == [900, 901, 902, 903]


def test_by_priority_a_victim_that_was_scheduled_makes_room_for_those_behind_it() -> None:
    engine = scheduler(7, policy="priority")
    engine.add(request("low", numbers(50, 8), outputs=4, priority=9))
    run_step(engine)
    engine.add(request("high", numbers(0, 8), outputs=4, priority=1))
    engine.add(request("mid", numbers(20, 3), outputs=4, priority=2))
    assert rows(engine, 1) == [{"low": (8, 1), "high": (0, 8), "mid": (0, 3)}]
    assert engine.cache.num_free == 0
    engine.config = replace(engine.config, max_num_batched_tokens=2)
    # low takes one of two tokens; high needs a block and takes low's, so that there is a token for mid again.
    assert rows(engine, 1) == [{"high": (8, 1), "mid": (3, 1)}]


def test_by_priority_one_that_preempts_itself_does_not_hold_up_the_others() -> None:
    engine = scheduler(5, policy="priority")
    engine.add(request("low", numbers(50, 7), outputs=4, priority=9))
    run_step(engine)
    engine.add(request("high", numbers(0, 6), outputs=2, priority=1))
    assert rows(engine, 2) == [{"low": (7, 1), "high": (0, 6)}, {"high": (6, 1)}]
    assert engine.num_preemptions == 1


def test_by_priority_the_urgent_are_admitted_first_and_equals_in_order_of_arrival() -> None:
    engine = scheduler(policy="priority", max_num_seqs=1)
    for name, priority, arrival in (("a", 5, 0.0), ("b", 1, 2.0), ("c", 1, 1.0), ("d", 5, 0.0)):
        engine.add(request(name, numbers(ord(name), 3), priority=priority, arrival=arrival))
    assert [item.id for item in engine.waiting] == ["c", "b", "a", "d"]
    assert [list(row) for row in rows(engine, 4)] == [["c"], ["b"], ["a"], ["d"]]


def test_generation_stops_at_max_model_len() -> None:
    engine = scheduler(max_model_len=10)
    one = request("a", numbers(0, 8), outputs=5)
    engine.add(one)
    assert rows(engine, 3) == [{"a": (0, 8)}, {"a": (8, 1)}, {}]
    assert (one.status, one.outputs) == (Status.FINISHED, [900, 901])
    with pytest.raises(EngineError, match="the model accepts at most 9"):
        engine.add(request("b", numbers(0, 10)))


def test_reset_needs_an_idle_engine_or_preempts() -> None:
    engine = scheduler(8)
    first, second = request("a", numbers(0, 8), outputs=2), request("b", numbers(20, 4), outputs=2)
    engine.add(first)
    engine.add(second)
    run_step(engine)
    assert not engine.reset_prefix_cache()
    assert engine.cache.cached
    engine.cache.take_events()
    assert engine.reset_prefix_cache(reset_running=True)
    assert engine.cache.take_events() == [AllBlocksCleared()]
    assert not engine.cache.cached
    assert [item.id for item in engine.waiting] == ["a", "b"]
    assert (first.num_preemptions, first.num_computed_tokens) == (1, 0)
    engine.check()
    assert rows(engine, 1) == [{"a": (0, 9), "b": (0, 5)}]  # all over again, with the token that each had
    assert len(engine) == 0
    assert engine.reset_prefix_cache()


@pytest.mark.parametrize(
    ("options", "length", "outputs", "reason"),
    [
        ({}, 0, 1, "empty prompt"),
        ({"num_blocks": 3}, 9, 1, "the whole cache has 2"),
        ({"num_blocks": 3}, 8, 2, "the whole cache has 2"),
        ({"max_model_len": 8}, 8, 1, "prompt tokens"),
        ({}, 3, 0, "no output token"),
        (
            {"num_blocks": 9, "max_num_batched_tokens": 8, "enable_chunked_prefill": False},
            6,
            4,
            "chunked prefill is off",
        ),
    ],
)
def test_what_could_never_run_is_refused(options: dict[str, object], length: int, outputs: int, reason: str) -> None:
    engine = scheduler(**options)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match=reason):
        engine.add(request("a", numbers(0, length), outputs=outputs))
    assert len(engine) == 0


@pytest.mark.parametrize("num_blocks", [None, 9])
def test_an_answer_that_a_reset_would_make_too_long_for_a_step_is_refused(num_blocks: int | None) -> None:
    """A reset preempts what runs; prompt and answer so far are then one prefill, and without chunks it must fit into a step."""
    engine = scheduler(num_blocks, max_num_batched_tokens=8, enable_chunked_prefill=False)
    with pytest.raises(EngineError, match="9 tokens of prompt and answer, more than a step's 8"):
        engine.add(request("a", numbers(0, 6), outputs=4))
    longest = request("b", numbers(0, 6), outputs=3)
    engine.add(longest)
    for _ in range(2):
        run_step(engine)
    assert engine.reset_prefix_cache(reset_running=True)
    assert rows(engine, 1) == [{"b": (0, 8)}]
    assert longest.status is Status.FINISHED


def test_a_scheduler_that_can_schedule_nothing_says_so() -> None:
    """Whatever let such a request in: a caller that steps until all are done would never end."""
    engine = scheduler(max_num_batched_tokens=8, enable_chunked_prefill=False)
    engine.add(request("a", numbers(0, 8)))
    engine.config = replace(engine.config, max_num_batched_tokens=4)
    with pytest.raises(
        EngineError, match="request a can never be scheduled: it needs 8 tokens in one step, which takes 4"
    ):
        engine.schedule()


def test_a_running_request_whose_token_never_comes_is_told_of() -> None:
    engine = scheduler()
    engine.add(request("a", numbers(0, 8)))
    engine.update(engine.schedule(), [None])
    with pytest.raises(EngineError, match="request a waits for a token"):
        engine.schedule()


def test_what_fits_exactly_runs() -> None:
    engine = scheduler(3, max_num_batched_tokens=8, enable_chunked_prefill=False)
    one = request("a", numbers(0, 6), outputs=3)  # 8 of its 9 tokens are computed
    engine.add(one)
    for _ in range(3):
        run_step(engine)
    assert one.status is Status.FINISHED


beginnings = st.sampled_from([[0], [0, 0, 0, 0], [0, 0, 0, 0, 1, 1], [0] * 9, [2] * 5])


class RandomTraffic(RuleBasedStateMachine):
    """Whatever comes, the books balance, limits hold, and every request ends with the answer that was forced on it."""

    @initialize(
        num_blocks=st.none() | st.integers(5, 14),
        budget=st.sampled_from([3, 8, 64]),
        seqs=st.integers(1, 4),
        policy=st.sampled_from(["fcfs", "priority"]),
        threshold=st.sampled_from([0, 2]),
        gate=st.booleans(),
        caching=st.booleans(),
        chunked=st.booleans(),
        watermark=st.sampled_from([0.0, 0.3]),
        max_model_len=st.sampled_from([13, 1 << 31]),
    )
    def begin(
        self,
        num_blocks: int | None,
        budget: int,
        seqs: int,
        policy: str,
        threshold: int,
        gate: bool,
        caching: bool,
        chunked: bool,
        watermark: float,
        max_model_len: int,
    ) -> None:
        self.engine = scheduler(
            num_blocks,
            max_num_batched_tokens=budget,
            max_num_seqs=seqs,
            policy=policy,
            long_prefill_token_threshold=threshold,
            scheduler_reserve_full_isl=gate,
            enable_prefix_caching=caching,
            enable_chunked_prefill=chunked,
            watermark=watermark,
            max_model_len=max_model_len,
        )
        self.accepted: list[Request] = []

    @rule(
        start=beginnings,
        end=st.lists(st.integers(0, 1), max_size=4),
        outputs=st.integers(1, 9),
        salt=st.sampled_from([None, None, "s"]),
        priority=st.integers(0, 2),
        skip=st.sampled_from([False, False, False, True]),
    )
    def add(self, start: list[int], end: list[int], outputs: int, salt: str | None, priority: int, skip: bool) -> None:
        new = request(
            str(len(self.accepted)),
            [*start, *end],
            outputs,
            cache_salt=salt,
            priority=priority,
            skip_reading_cache=skip,
            arrival=float(len(self.accepted)),
        )
        try:
            self.engine.add(new)
        except EngineError:
            assert len(self.engine) == sum(item.status is not Status.FINISHED for item in self.accepted)
        else:
            self.accepted.append(new)

    @rule()
    def step(self) -> None:
        self._step()

    @rule(count=st.integers(2, 6))
    def several_steps(self, count: int) -> None:
        for _ in range(count):
            self._step()

    @rule(running=st.booleans())
    def reset(self, running: bool) -> None:
        used = self.engine.cache.num_used
        assert self.engine.reset_prefix_cache(reset_running=running) == (running or not used)

    def _step(self) -> bool:
        engine, config = self.engine, self.engine.config
        step = engine.schedule()
        assert step.num_tokens <= config.max_num_batched_tokens
        assert len(engine.running) <= config.max_num_seqs
        assert len({id(item.request) for item in step.scheduled}) == len(step.scheduled)
        for item in step.scheduled:
            assert item.request in engine.running
            assert 0 < item.num_tokens <= item.request.num_tokens - item.start
            assert item.start + item.num_tokens < config.max_model_len
        for victim in step.preempted:
            assert victim in list(engine.waiting)
        engine.check()
        engine.update(step, DryRunner().run(step))
        engine.check()
        return bool(step.scheduled or step.preempted)

    @invariant()
    def balanced(self) -> None:
        if hasattr(self, "engine"):
            self.engine.check()
            for one in self.accepted:
                assert one.num_computed_tokens <= one.num_tokens
                assert one.outputs == (one.output_ids or [])[: len(one.outputs)]
                hits = [hit for _, hit in one.admissions]
                assert all(hit % BLOCK == 0 for hit in hits)
                assert len(hits) <= one.num_preemptions + 1
                assert hits or one.status is not Status.FINISHED

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        for _ in range(3000):
            if not len(self.engine):
                break
            self._step()
        assert not len(self.engine), "requests that fit wait for ever"
        for one in self.accepted:
            most = self.engine.config.max_model_len - one.num_prompt_tokens
            assert one.outputs == (one.output_ids or [])[:most]
        cache = self.engine.cache
        assert cache.num_used == 0
        assert self.engine.config.num_blocks is None or cache.num_free == cache.num_blocks - 1


TestRandomTraffic = RandomTraffic.TestCase
