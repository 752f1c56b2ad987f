"""What the budget of a measured run pays for: its own start, warm-ups and requests, and no step that would end too late."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kvtool.accounting.servers.server import ServedRequest
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.request import Request
from kvtool.measure import decode, local
from kvtool.measure.decode import DecodeMeasurement, MeasuredDecode
from kvtool.measure.local import Measurement
from kvtool.measure.measure_options import MeasureOptions
from kvtool.measure.request_sample import RequestSample
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.jobs import Job, JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Conversation, Turn


class Clock:
    """A clock that goes on only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Nothing:
    """A workload without conversations: nothing decodes together."""

    def conversations(self) -> Iterator[Conversation]:
        yield from ()


def sample_of(count: int) -> RequestSample:
    """Return a sample of a run that missed the cache with every one of its prompts of 202 tokens."""
    sample = RequestSample(seed=0)
    for number in range(count):
        ids = np.full(202, number, np.int32)
        request = Request(str(number), len(ids), prompt_ids=ids, output_ids=[0])
        sample.end(Job(Turn(group="g"), None, request, ids, 1, ""), None, ServedRequest(0))
    return sample


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    stopped = SimpleNamespace(monotonic=clock, perf_counter=clock)
    monkeypatch.setattr(local, "time", stopped)
    monkeypatch.setattr(decode, "time", stopped)
    return clock


@pytest.fixture
def taken(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tokens of each prefill, which takes a second for 512 of them."""
    tokens: list[int] = []
    run = Measurement._time

    def timed(engine: Engine, request: Any) -> float:
        run(engine, request)
        tokens.append(request.num_prompt_tokens)
        seconds: float = request.num_prompt_tokens / 512
        clock.now += seconds
        return seconds

    monkeypatch.setattr(Measurement, "_time", staticmethod(timed))
    return tokens


def made(tokenizer: Tokenizer, budget: float, began: float, *, audit: bool = False) -> Measurement:
    renderer = Renderer(lambda: tokenizer, lambda tokenizer: ChatTemplate.load(None, tokenizer))
    maker = JobMaker(renderer, seed=0)
    how = MeasureOptions(budget, device="cpu", audit=audit)
    return Measurement(EngineConfig(16), maker, how, limit=None, progress=Progress(None), began=began)


def test_the_start_is_part_of_the_budget(clock: Clock, taken: list[int], byte_tokenizer: Tokenizer) -> None:
    measurement = made(byte_tokenizer, 20.0, began=clock.now - 25)
    result = measurement.run(Nothing(), sample_of(3))
    assert len(result.on) == 0
    assert (
        result.reason
        == "no sampled request fits into 20 s. The start took 26.0 s, and the shortest request has 202 tokens"
    )
    measurement = made(byte_tokenizer, 20.0, began=clock.now - 10)
    result = measurement.run(Nothing(), sample_of(30))
    assert 0 < len(result.on) < 30
    assert result.reason == "the budget of 20 s is spent"
    assert clock.now <= measurement._last_moment


@pytest.mark.parametrize(("budget", "runs"), [(20.0, 1), (60.0, 2), (400.0, 3)])
def test_a_small_budget_is_not_spent_on_warm_ups(
    clock: Clock, taken: list[int], byte_tokenizer: Tokenizer, budget: float, runs: int
) -> None:
    measurement = made(byte_tokenizer, budget, began=clock.now)
    assert taken == [512] * runs
    assert measurement._rate == 512


def test_no_request_begins_that_would_end_too_late(clock: Clock, taken: list[int], byte_tokenizer: Tokenizer) -> None:
    """Not the first one either: its two runs of 202 tokens take 0.79 s."""
    for left, measured in ((0.75, 0), (0.85, 1)):
        measurement = made(byte_tokenizer, 1_000.0, began=clock.now)
        clock.now = measurement._last_moment - left
        assert len(measurement.run(Nothing(), sample_of(3)).on) == measured
        assert clock.now <= measurement._last_moment


def cached_sample(hits: dict[int, int]) -> RequestSample:
    """Return a sample of prompts of other tokens each, with so many hit tokens by prompt length."""
    sample = RequestSample(seed=0)
    for number, (tokens, hit) in enumerate(hits.items()):
        ids = np.full(tokens, number, np.int32)
        request = Request(str(number), tokens, prompt_ids=ids, output_ids=[0, 0])
        sample.end(Job(Turn(group="g"), None, request, ids, 1, ""), None, ServedRequest(hit))
    return sample


@pytest.mark.parametrize("audit", [False, True])
def test_only_what_the_run_missed_is_computed(
    byte_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, audit: bool
) -> None:
    """And in whole blocks, at least the last token; an audit computes the cached prefix before, which is not timed."""
    timed: list[tuple[int, int]] = []
    run = Measurement._time

    def spied(engine: Engine, request: Any) -> float:
        seconds = run(engine, request)
        if engine.config.enable_prefix_caching:
            timed.append((request.num_prompt_tokens, request.num_cached_tokens))
        return seconds

    monkeypatch.setattr(Measurement, "_time", staticmethod(spied))
    hits = {300: 0, 301: 48, 302: 302, 304: 304, 303: 15, 40: 39}
    measurement = made(byte_tokenizer, 1_000.0, began=time.monotonic(), audit=audit)
    timed.clear()
    sample = cached_sample(hits)
    result = measurement.run(Nothing(), sample)
    assert result.complete
    assert len(result.on) == len(result.off) == 6
    assert {tokens: cached for tokens, cached in timed if tokens in hits and (tokens, cached) != (304, 0)} == {
        300: 0,
        301: 48,
        302: 288,
        304: 288,
        303: 0,
        40: 32,
    }
    if audit:
        assert result.reuse is not None
        assert (result.reuse.requests, result.reuse.flips) == (6, [])


def test_a_sample_unlike_the_run_says_nothing(byte_tokenizer: Tokenizer) -> None:
    measurement = made(byte_tokenizer, 1_000.0, began=time.monotonic())
    sample = cached_sample({100: 0, 101: 48})
    sample.hit_tokens += 20
    result = measurement.run(Nothing(), sample)
    assert (len(result.on), result.hit_tokens, result.ttft().on) == (0, 0, None)
    assert result.reason == "a hit rate of 23.9% in the 2 requests that fit 1000 s, too far from 33.8% of the run"


@pytest.fixture(scope="module")
def small() -> Decoder:
    return Decoder.random(ModelConfig.tiny(200), seed=0)


@pytest.mark.parametrize(("rate", "chunk"), [(1e9, 8_192), (2_000.0, 1_000), (10.0, 256)])
def test_steps_of_a_prefill_are_short(small: Decoder, rate: float, chunk: int) -> None:
    """The deadline is looked at between them."""
    measurement = DecodeMeasurement(
        small,
        EngineConfig(16),
        kv_cache_dtype="auto",
        modes=("flat",),
        most_blocks=lambda _: 100,
        rate=rate,
        deadline=time.monotonic() + 1e6,
    )
    assert measurement._config.max_num_batched_tokens == chunk


def test_no_step_begins_that_would_end_too_late(clock: Clock, small: Decoder) -> None:
    measurement = DecodeMeasurement(
        small,
        EngineConfig(16),
        kv_cache_dtype="auto",
        modes=("flat",),
        most_blocks=lambda _: 100,
        rate=1e9,
        deadline=clock.now + 35,
    )

    def step() -> None:
        clock.now += 10

    measurement._engines = [SimpleNamespace(step=step)]  # type: ignore[list-item] # all that is asked of an engine here
    assert sum(1 for _ in measurement.steps(MeasuredDecode(2, 10.0))) == 3
