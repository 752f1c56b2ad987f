"""The whole engine on a model's geometry with random weights: time to the first token, and tokens a second."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import numpy as np

from kvtool.engine.attention.decode_plan import Int32
from kvtool.engine.clock import WallClock
from kvtool.engine.config import DecodeMode, EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.kv_dtype import AUTO
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.request import Request

BLOCK = 16


@dataclass(frozen=True, slots=True)
class TtftResult:
    """Host seconds from submission to the first token of a question behind a document, one request at a time."""

    document: int
    question: int
    cold: list[float]
    """Of each document's first question; a first document, for which things are compiled, is not counted."""
    warm: list[float]
    """Of each document's second question."""

    @property
    def cold_median(self) -> float:
        return statistics.median(self.cold)

    @property
    def warm_median(self) -> float:
        return statistics.median(self.warm)

    @property
    def warm_share(self) -> float:
        """Of the cold time."""
        return self.warm_median / self.cold_median


@dataclass(frozen=True, slots=True)
class ThroughputResult:
    """Decode of `batch` requests at once, each with `context` tokens of prompt, `shared` of which all have in common."""

    batch: int
    context: int
    shared: int
    mode: str
    step_seconds: list[float]
    """Host seconds of each step in which every request got a token."""
    prefill_seconds: float

    @property
    def tpot(self) -> float:
        """Median seconds between two tokens of a request."""
        return statistics.median(self.step_seconds)

    @property
    def tokens_per_second(self) -> float:
        return self.batch / self.tpot


def make_prompts(count: int, shared: int, own: int, vocabulary: int, seed: int = 0) -> list[Int32]:
    """int32[shared + own] each; the first `shared` are the same."""
    rng = np.random.default_rng(seed)
    common = rng.integers(0, vocabulary, shared, dtype=np.int32)
    return [np.concatenate([common, rng.integers(0, vocabulary, own, dtype=np.int32)]) for _ in range(count)]


def measure_ttft(
    model: Decoder, *, document: int = 6000, question: int = 30, documents: int = 5, until: float | None = None
) -> TtftResult:
    """`until`: the time of `time.monotonic` after which no further document is begun, once there is one."""
    engine = _engine(model, (document + question + 2 * BLOCK) * (documents + 1) * 2)
    cold: list[float] = []
    warm: list[float] = []
    for index in range(documents + 1):
        for times, ids in zip(
            (cold, warm), make_prompts(2, document, question, model.config.vocab_size, index), strict=True
        ):
            request = Request(f"{index}", len(ids), prompt_ids=ids)
            began = time.perf_counter()
            engine.add(request)
            while engine.busy:
                engine.step()
            times.append(time.perf_counter() - began)
        if index and until is not None and time.monotonic() > until:
            break
    return TtftResult(document, question, cold[1:], warm[1:])


def measure_throughput(
    model: Decoder,
    *,
    batch: int = 64,
    context: int = 1024,
    shared: int = 0,
    mode: DecodeMode = "auto",
    steps: int = 48,
    kv_cache_dtype: str = AUTO,
) -> ThroughputResult:
    """Prefill of all, then `steps` decode steps that are timed, after some that are not."""
    warm_up, chunks = 4, -(-batch * context // 8192)
    outputs = steps + warm_up + chunks + 2  # requests whose prefill is early are ahead
    tokens = batch * (context + outputs + BLOCK)
    engine = _engine(model, tokens, mode, kv_cache_dtype)
    prompts = make_prompts(batch, shared, context - shared, model.config.vocab_size)
    requests = [Request(str(index), len(ids), prompt_ids=ids, max_tokens=outputs) for index, ids in enumerate(prompts)]
    began = time.perf_counter()
    for request in requests:
        engine.add(request)
    while any(request.first_token_at is None for request in requests):
        engine.step()
    prefill = time.perf_counter() - began
    times: list[float] = []
    for index in range(warm_up + steps):
        began = time.perf_counter()
        finished = engine.step()
        if index >= warm_up:
            times.append(time.perf_counter() - began)
        assert not finished
    return ThroughputResult(batch, context, shared, mode, times, prefill)


def _engine(model: Decoder, tokens: int, mode: DecodeMode = "auto", kv_cache_dtype: str = AUTO) -> Engine:
    """With its memory set aside: growing would count as time to a token."""
    blocks = 2 + -(-tokens // BLOCK)
    runner = ModelRunner(model, BLOCK, blocks, kv_cache_dtype=kv_cache_dtype, decode_attention=mode)
    runner.kv.reserve(blocks)
    return Engine(EngineConfig(block_size=BLOCK, num_blocks=blocks), runner, WallClock())
