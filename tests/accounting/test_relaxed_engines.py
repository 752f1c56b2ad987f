"""Models with several KV cache groups: each lost token has the fate of the limit that was in its way, and all of them sum up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.accounting.caches.relaxed_configs import full_attention, relax_configs
from kvtool.accounting.plan import Plan
from kvtool.accounting.served_cache import ServedCache
from kvtool.engine.config import EngineConfig
from kvtool.engine.groups.model_plan import ServeOptions
from kvtool.engine.groups.planner import Speculation
from kvtool.engine.model.configs.find_served import find_served
from kvtool.profiler.run.purposes import explained_run
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.text.terminal.progress import Progress
from kvtool.workload.jobs import JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn
from tests.accounting.test_ledger import LATENCY, Given, assert_sums, hits_of

MODELS = ("gpt-oss-20b", "qwen3-next-80b", "nemotron-3-nano", "gemma-3-27b", "kimi-linear-48b")


def served(model: str, **options: object) -> ServedCache:
    return ServedCache.of(find_served(model), ServeOptions(**options))  # type: ignore[arg-type]


def run(
    renderer: Renderer, cache: ServedCache, *conversations: list[Turn], concurrency: int | None = None, **engine: object
) -> RunResult:
    config = EngineConfig(plan=cache.plan, block_size=cache.block_size, **engine)  # type: ignore[arg-type]
    plan = Plan(config, LATENCY, served=cache, concurrency=concurrency)
    relaxed = []
    if concurrency is not None:
        for fate, kind in [*relax_configs(config), *full_attention(config, plan.base_block)]:
            other = Plan(kind, LATENCY, served=cache, concurrency=concurrency)
            relaxed.append((fate, hits_of(renderer, other, conversations)))
    return _pass(renderer, plan, conversations, relaxed=relaxed)


def _pass(renderer: Renderer, plan: Plan, conversations: tuple[list[Turn], ...], **options: object) -> RunResult:
    accountant = explained_run(RunSetup(plan, JobMaker(renderer, seed=0), Progress(None)), **options)  # type: ignore[arg-type]
    result = accountant.run(Given(*conversations))
    assert_sums(result)
    return result


def turn(ids: list[int], answer: int = 1, **options: object) -> Turn:
    return Turn("g", token_ids=np.array(ids, np.int32), output_ids=np.arange(answer, dtype=np.int32), **options)  # type: ignore[arg-type]


def numbers(start: int, count: int) -> list[int]:
    return list(range(start, start + count))


def test_a_prefix_shorter_than_the_block_of_a_state(byte_renderer: Renderer) -> None:
    """1,500 shared tokens: full attention hits 1,488 of them, Nemotron's blocks of 2,096 none."""
    requests = [[turn(numbers(0, 1500) + numbers(10_000 * (at + 1), 400))] for at in range(4)]
    fates = run(byte_renderer, served("nemotron-3-nano"), *requests).ledger.fates()
    assert (fates["hit"], fates["long_block"], fates["partial_block"]) == (0, 3 * 1488, 3 * 12)


def test_the_third_request_of_a_prefix_is_the_first_to_hit(byte_renderer: Renderer) -> None:
    requests = [[turn(numbers(0, 1000) + numbers(10_000 * (at + 1), 1000))] for at in range(4)]
    lost = run(byte_renderer, served("gpt-oss-20b"), *requests).ledger.fates()
    assert (lost["hit"], lost["not_kept"]) == (2 * 992, 992)
    kept = run(byte_renderer, served("gpt-oss-20b"), *requests, prefix_cache_retention_interval=None).ledger.fates()
    assert kept["hit"] == 3 * 992
    assert "not_kept" not in kept


def test_a_state_that_no_interval_brings_back(byte_renderer: Renderer) -> None:
    """544 tokens a block; the prompts part after two blocks, and end in the fourth."""
    requests = [[turn(numbers(0, 1100) + numbers(10_000 * (at + 1), 1000))] for at in range(4)]
    fates = run(byte_renderer, served("qwen3-next-80b"), *requests).ledger.fates()
    assert (fates["hit"], fates["no_state"]) == (2 * 1088, 1088)


def test_a_sessions_last_answer(byte_renderer: Renderer) -> None:
    first = numbers(0, 600)
    answer = numbers(0, 300)
    talk = [turn(first, 300, session="s"), turn(first + answer + numbers(5000, 100), session="s", index=1)]
    fates = run(byte_renderer, served("gpt-oss-20b"), talk).ledger.fates()
    assert fates["answer_not_kept"] > 250
    assert "not_kept" not in fates
    kept = run(byte_renderer, served("gpt-oss-20b"), talk, prefix_cache_retention_interval=None).ledger.fates()
    assert kept["hit"] == fates["hit"] + fates["answer_not_kept"]


def test_drafts_take_the_last_block(byte_renderer: Renderer) -> None:
    prompt = numbers(0, 640)
    cache = served("llama-3.1-8b", speculation=Speculation(method="eagle", tokens=3))
    requests = [[turn(prompt + numbers(9000 + at * 100, 8))] for at in range(3)]
    fates = run(byte_renderer, cache, *requests).ledger.fates()
    assert (fates["hit"], fates["drafts"]) == (2 * 624, 2 * 16)


@pytest.mark.parametrize("concurrency", [None, 3])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_fates_sum_up_whatever_the_model(byte_renderer: Renderer, concurrency: int | None, data: st.DataObject) -> None:
    cache = served(data.draw(st.sampled_from(MODELS)))
    interval = data.draw(st.sampled_from([0, None]))
    blocks = data.draw(st.sampled_from([None, 400]))
    heads = [numbers(0, 1300), numbers(2000, 700), numbers(0, 560) + numbers(4000, 900)]
    conversations = [
        [turn(head + numbers(10_000 + 300 * at, data.draw(st.integers(1, 250))), data.draw(st.integers(1, 30)))]
        for at, head in enumerate(data.draw(st.lists(st.sampled_from(heads), min_size=1, max_size=6)))
    ]
    result = run(
        byte_renderer,
        cache,
        *conversations,
        concurrency=concurrency,
        num_blocks=blocks,
        prefix_cache_retention_interval=interval,
    )
    fates = result.ledger.fates()
    if blocks is None:
        assert "evicted" not in fates
