"""What decode steps read: exact token counts for batches that can be counted by hand, and by brute force for simulated runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.decode_traffic import ConversationWindows, SampledSteps
from kvtool.accounting.plan import Plan
from kvtool.engine.attention.decode_planner import DecodePlanner
from kvtool.engine.blocks.hashing import hash_ids
from kvtool.engine.clock import VirtualClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.engine.step import EngineStep
from kvtool.results.run_times import Decode
from kvtool.workload.drive import Arrivals
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Output, Turn

BLOCK = 16
TOKEN_BYTES = 131_072
"""Of Llama-3.1-8B in bf16: 32 layers, 8 heads, K and V of 128 numbers."""


def plan(**change: Any) -> Plan:
    engine = EngineConfig(block_size=BLOCK, **change.pop("engine", {}))
    latency = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
    return replace(Plan(engine, latency), **change)


def prompt(*parts: tuple[int, int], name: str = "r", **change: Any) -> Request:
    """Parts are (number, tokens): equal numbers are equal texts."""
    ids = np.concatenate([np.full(tokens, number, np.int32) for number, tokens in parts])
    return Request(name, len(ids), prompt_ids=ids, output_ids=[0], **change)


def traffic_of(requests: Sequence[Request], plan: Plan, turns: Sequence[Turn] | None = None) -> Decode | None:
    windows = ConversationWindows(plan)
    for index, request in enumerate(requests):
        windows.add(turns[index] if turns is not None else Turn("g", id=request.id), request)
    return windows.traffic()


def gain(found: Decode) -> float:
    """How many times less prefix-aware decode reads."""
    return found.flat_bytes_per_step / found.prefix_aware_bytes_per_step


def shared_prefix(count: int, shared: int, own: int) -> list[Request]:
    return [prompt((1, shared), (100 + index, own), name=str(index)) for index in range(count)]


# Conversations that would decode together


def test_a_prefix_of_all_is_read_once() -> None:
    for shared, own in [(1600, 40), (1600, 16), (1607, 9), (320, 2000)]:
        found = traffic_of(shared_prefix(8, shared, own), plan())
        assert found is not None
        length = shared + own + 1  # the token that is being decoded
        common = shared // BLOCK * BLOCK
        assert (found.batch, found.tokens_mean, found.sampled) == (8, length, "windows")
        assert found.flat_bytes_per_step == 8 * length * TOKEN_BYTES
        assert found.prefix_aware_bytes_per_step == (common + 8 * (length - common)) * TOKEN_BYTES


def test_more_queries_than_a_tile_holds_read_it_again() -> None:
    """Groups of four query heads and tiles of 128 rows: 32 requests at a time."""
    found = traffic_of(shared_prefix(64, 1600, 40), plan())
    assert found is not None
    assert found.prefix_aware_bytes_per_step == (2 * 1600 + 64 * 41) * TOKEN_BYTES


def test_nothing_in_common_saves_nothing() -> None:
    found = traffic_of([prompt((index, 500)) for index in range(8)], plan())
    assert found is not None
    assert found.flat_bytes_per_step == found.prefix_aware_bytes_per_step == 8 * 501 * TOKEN_BYTES
    assert (gain(found), found.chosen) == (1.0, "flat")
    assert found.tpot.predicted.flat == found.tpot.predicted.prefix_aware


def test_the_bytes_are_those_of_the_cache_type() -> None:
    requests = shared_prefix(4, 1600, 40)
    whole, half = (traffic_of(requests, plan(kv_cache_dtype=name)) for name in ("auto", "fp8_e4m3"))
    assert whole is not None
    assert half is not None
    assert (2 * half.flat_bytes_per_step, 2 * half.prefix_aware_bytes_per_step) == (
        whole.flat_bytes_per_step,
        whole.prefix_aware_bytes_per_step,
    )
    int8 = traffic_of(requests, plan(kv_cache_dtype="int8"))
    assert int8 is not None
    assert int8.flat_bytes_per_step == half.flat_bytes_per_step * 132 // 128  # a scale of four bytes for each vector


def test_tenants_and_a_cache_that_is_switched_off_share_nothing() -> None:
    requests = shared_prefix(4, 1600, 40)
    for number, request in enumerate(requests):
        request.cache_salt = f"tenant {number % 2}"
    found = traffic_of(requests, plan())
    assert found is not None
    assert found.prefix_aware_bytes_per_step == (2 * 1600 + 4 * 41) * TOKEN_BYTES
    found = traffic_of(shared_prefix(4, 1600, 40), plan(engine={"enable_prefix_caching": False}))
    assert found is not None
    assert gain(found) == 1.0


def test_a_last_block_that_is_computed_again_is_a_copy() -> None:
    """Of the same prompt of 64 full blocks, a later request reuses 63: its last token is always computed."""
    found = traffic_of([prompt((1, 64 * BLOCK)) for _ in range(3)], plan())
    assert found is not None
    assert found.prefix_aware_bytes_per_step == (63 * BLOCK + 3 * (BLOCK + 1)) * TOKEN_BYTES
    longer = traffic_of(
        [prompt((1, 64 * BLOCK)), prompt((1, 64 * BLOCK), (2, 5)), prompt((1, 64 * BLOCK), (3, 5))], plan()
    )
    assert longer is not None
    assert longer.prefix_aware_bytes_per_step == (64 * BLOCK + 1 + 6 + 6) * TOKEN_BYTES


def test_a_trace_of_hashes() -> None:
    requests = [
        Request(
            str(index),
            5 * 512 + 100,
            prompt_hashes=hash_ids([1, 2, 3, 4, 10 + index, 20 + index]),
            max_tokens=9,
        )
        for index in range(3)
    ]
    asked = plan()
    found = traffic_of(requests, replace(asked, engine=replace(asked.engine, block_size=512)))
    assert found is not None
    assert found.prefix_aware_bytes_per_step == (4 * 512 + 3 * (512 + 101)) * TOKEN_BYTES


def test_as_many_as_the_cache_holds() -> None:
    """100 blocks in common and 3 each: 110 blocks hold three requests."""
    found = traffic_of(shared_prefix(8, 1600, 40), plan(engine={"num_blocks": 111}))
    assert found is not None
    assert found.batch == 3
    assert traffic_of(shared_prefix(8, 1600, 40), plan(engine={"num_blocks": 105})) is None


def turns(*sessions: str | None) -> list[Turn]:
    counts: dict[str | None, int] = {}
    made: list[Turn] = []
    for session in sessions:
        index = counts.get(session, 0) if session is not None else 0
        counts[session] = index + 1
        made.append(Turn("g", session=session, index=index))
    return made


def test_turns_of_a_conversation_never_decode_together() -> None:
    requests = [prompt((1, 160 * (turn + 1))) for turn in range(6)]
    assert traffic_of(requests, plan(), turns(*"aaaaaa")) is None
    found = traffic_of(requests, plan(), turns(*"ababab"))
    assert found is not None
    assert found.batch == 2
    lengths = {tokens * 2 for tokens in (161, 321, 481, 641, 801, 961)}
    assert found.tokens_mean * 2 * 2 in {first + second for first in lengths for second in lengths}
    alone = traffic_of(requests, plan(), turns(*[None] * 6))
    assert alone is not None
    assert alone.batch == 6


def test_any_turn_of_a_conversation_may_be_the_one() -> None:
    """Over many workloads the mean length is that of all turns, not that of the first or last."""
    lengths: list[float] = []
    for seed in range(150):
        requests = [prompt((index % 2, 100 * (index // 2 + 1))) for index in range(8)]
        found = traffic_of(requests, plan(seed=seed), turns(*"abababab"))
        assert found is not None
        lengths.append(found.tokens_mean)
    assert np.mean(lengths) == pytest.approx(251, abs=20)


def test_windows_are_those_of_consecutive_conversations_and_few_are_kept() -> None:
    asked = plan(decode_batch=4)
    windows = ConversationWindows(asked)
    for index in range(1003):
        windows.add(Turn("g"), prompt((index // 4, 1600), (index, 40)))
    found = windows.traffic()
    assert found is not None
    assert (found.samples, found.sampled_of, found.batch) == (8, 250, 4)
    assert found.prefix_aware_bytes_per_step == (1600 + 4 * 41) * TOKEN_BYTES
    assert sum(len(window.prompts) for window in windows._windows) <= 32
    again = ConversationWindows(asked)
    for index in range(1003):
        again.add(Turn("g"), prompt((index // 4, 1600), (index, 40)))
    assert again.traffic() == found


def test_forgotten_windows_forget_their_conversations() -> None:
    windows = ConversationWindows(plan(decode_batch=2))
    for index in range(400):
        windows.add(Turn("g", session=str(index)), prompt((index, 20)))
    assert len(windows._turns) <= 16


def test_contexts_that_no_plan_can_count_are_left_out() -> None:
    huge = [Request(str(index), 10**12, prompt_hashes=[], max_tokens=9) for index in range(3)]
    asked = replace(plan(), engine=EngineConfig(block_size=10**15))
    assert traffic_of(huge, asked) is None
    found = traffic_of([*huge, *shared_prefix(2, 1600, 40)], asked)
    assert found is not None
    assert (found.batch, found.tokens_mean, gain(found)) == (2, 1641, 1.0)


def test_fewer_than_two_conversations_have_nothing_to_say() -> None:
    assert ConversationWindows(plan()).traffic() is None
    assert traffic_of([prompt((1, 50))], plan()) is None
    assert traffic_of(shared_prefix(8, 160, 4), plan(decode_batch=1)) is None


def test_modes_differ_in_what_is_chosen_and_not_in_what_there_is() -> None:
    requests = shared_prefix(32, 4096, 40)
    flat, aware, auto = (traffic_of(requests, plan(decode_attention=mode)) for mode in ("flat", "prefix-aware", "auto"))
    assert flat is not None
    assert aware is not None
    assert auto is not None
    assert (flat.chosen, aware.chosen, auto.chosen) == ("flat", "prefix-aware", "prefix-aware")
    assert (flat.flat_bytes_per_step, flat.prefix_aware_bytes_per_step) == (
        aware.flat_bytes_per_step,
        aware.prefix_aware_bytes_per_step,
    )
    assert aware.prefix_aware_bytes_per_step == auto.prefix_aware_bytes_per_step < auto.flat_bytes_per_step
    assert auto.tpot.predicted.prefix_aware < auto.tpot.predicted.flat


def test_the_prediction_is_that_of_the_step_less_the_reads_that_are_saved() -> None:
    found = traffic_of(shared_prefix(32, 4096, 40), plan())
    assert found is not None
    latency = plan().latency
    assert found.tpot.predicted.flat == pytest.approx(latency.step_seconds([(4136, 1)] * 32))
    bandwidth = latency.accelerator.bandwidth * latency.bandwidth_efficiency
    saved = (found.flat_bytes_per_step - found.prefix_aware_bytes_per_step) / bandwidth
    assert found.tpot.predicted.flat - found.tpot.predicted.prefix_aware == pytest.approx(saved, rel=0.05)


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=2, max_size=12), st.integers(0, BLOCK - 1)
)
def test_bounds_of_any_batch(paths: list[list[int]], rest: int) -> None:
    """Prompts from a tree: each is read no more often than flat, and no block of it less than once."""
    requests = [
        prompt(*((part, 5 * BLOCK) for part in path), (9, rest), name=str(index)) for index, path in enumerate(paths)
    ]
    found = traffic_of(requests, plan())
    assert found is not None
    length = [5 * BLOCK * len(path) + rest + 1 for path in paths]
    assert found.flat_bytes_per_step == sum(length) * TOKEN_BYTES
    nodes = {tuple(path[: depth + 1]) for path in paths for depth in range(len(path))}
    assert found.prefix_aware_bytes_per_step <= found.flat_bytes_per_step
    assert found.prefix_aware_bytes_per_step >= (5 * BLOCK * len(nodes) + len(paths) * (rest + 1)) * TOKEN_BYTES


# Steps of a run


class Recorder:
    """Runs dry and keeps what every decode step has."""

    def __init__(self) -> None:
        self.steps: list[list[tuple[list[int], int]]] = []
        self._runner = DryRunner()

    def run(self, step: EngineStep) -> list[int | None]:
        decoding = [
            (list(request.block_ids), start + 1)
            for request, start, count in step.scheduled
            if start >= request.num_prompt_tokens and count == 1
        ]
        if decoding:
            self.steps.append(decoding)
        return self._runner.run(step)


class Talk:
    def __init__(self, request: Request) -> None:
        self._turn: Turn | None = Turn("g", id=request.id)
        self.request = request

    def next_turn(self, previous: Output | None) -> Turn | None:
        del previous
        turn, self._turn = self._turn, None
        return turn


def simulate(steps: SampledSteps | Recorder, asked: Plan, requests: list[Request], concurrency: int) -> None:
    by_name = {request.id: request for request in requests}

    def begin(turn: Turn) -> Job:
        request = by_name[turn.id]
        assert request.prompt_ids is not None
        return Job(turn, None, request, request.prompt_ids, 1, "")

    arrivals = Arrivals(
        iter([Talk(request) for request in requests]),
        begin,
        lambda _: None,
        concurrency=concurrency,
        use_arrivals=False,
    )
    arrivals.run(Engine(asked.engine, steps, VirtualClock(asked.latency)))


def batch(count: int, outputs: int) -> list[Request]:
    made = shared_prefix(count, 320, 40)
    for number, request in enumerate(made):
        request.output_ids = [0] * (outputs + number % 3)
        request.max_tokens = len(request.output_ids)
    return made


@pytest.mark.parametrize("async_scheduling", [False, True])
def test_every_decode_step_of_a_short_run(async_scheduling: bool) -> None:
    asked = plan(engine={"async_scheduling": async_scheduling, "max_num_batched_tokens": 256}, concurrency=4)
    recorder, sampled = Recorder(), SampledSteps(asked, DryRunner())
    simulate(recorder, asked, batch(8, 6), 4)
    simulate(sampled, asked, batch(8, 6), 4)
    assert 5 < len(recorder.steps) < 32
    planner = DecodePlanner(BLOCK, 32, 8, 128, vector_bytes=256, mode="prefix-aware")
    read = flat = 0
    for step in recorder.steps:
        table = np.zeros((len(step), 40), np.int32)
        for row, (blocks, _) in zip(table, step, strict=True):
            row[: len(blocks)] = blocks
        made = planner.plan(table, np.array([length for _, length in step]))
        read, flat = read + made.tokens_read, flat + made.flat_tokens
    found = sampled.traffic()
    assert found is not None
    assert (found.sampled, found.samples) == ("steps", len(recorder.steps))
    assert found.batch == pytest.approx(np.mean([len(step) for step in recorder.steps]))
    assert found.flat_bytes_per_step == round(flat / len(recorder.steps) * TOKEN_BYTES)
    assert found.prefix_aware_bytes_per_step == round(read / len(recorder.steps) * TOKEN_BYTES)
    assert read < flat


def test_a_long_run_is_looked_at_evenly() -> None:
    asked = plan(concurrency=2)
    sampled = SampledSteps(asked, DryRunner())
    simulate(sampled, asked, batch(8, 400), 2)
    found = sampled.traffic()
    assert found is not None
    assert 16 <= found.samples < 32 < found.sampled_of
    assert found.batch == pytest.approx(2, abs=0.3)
    assert found.tokens_mean == pytest.approx(360 + 200, abs=60)


def test_who_decodes_alone_shares_nothing() -> None:
    asked = plan(concurrency=1)
    sampled = SampledSteps(asked, DryRunner())
    simulate(sampled, asked, batch(4, 5), 1)
    assert sampled.traffic() is None
