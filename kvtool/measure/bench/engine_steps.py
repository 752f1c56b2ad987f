"""Whole steps of the engine on requests that are in the middle of their lives: built, warmed up and timed."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

import numpy as np
import torch

from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.kv_store import KVStore
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.request import Request
from kvtool.engine.step import EngineStep, Scheduled
from kvtool.measure.bench.attention import random_cache
from kvtool.measure.bench.bench_result import StepTime
from kvtool.measure.bench.cases import Mode, StepCase
from kvtool.measure.bench.timing import host_seconds


def build_step(case: StepCase, vocab_size: int, block_size: int) -> EngineStep:
    """Requests of random tokens whose blocks lie anywhere in as small a pool as holds them."""
    rng = np.random.default_rng(0)
    pool = iter((1 + rng.permutation(case.blocks(block_size))).tolist())
    common = [next(pool) for _ in range(case.shared // block_size)]
    items = []
    for index, (before, new) in enumerate(case.work):
        length = before + new
        ids = rng.integers(0, vocab_size, length, dtype=np.int32)
        request = Request(f"{case.kind} {index}", length, prompt_ids=ids)
        own = -(-length // block_size) - len(common)
        request.block_ids = [*common, *(next(pool) for _ in range(own))]
        items.append(Scheduled(request, before, new))
    return EngineStep(0, tuple(items))


@dataclass(slots=True)
class Timed:
    """A case, its step and how long it took each time."""

    case: StepCase
    step: EngineStep
    times: list[float] = field(default_factory=list)

    def result(self) -> StepTime:
        """The lower quartile is the step's time: whatever else the machine does only ever adds to it."""
        times = sorted(self.times)
        return StepTime(self.case, times[len(times) // 4], statistics.median(times), len(times))


class StepTimer:
    """Runs the steps of cases through a runner for each way of attending, whose caches are full of random numbers."""

    def __init__(self, model: Decoder, cases: list[StepCase], block_size: int, kv_cache_dtype: str) -> None:
        self._model = model
        self._block_size = block_size
        modes: set[Mode] = {case.mode for case in cases}
        self._runners: dict[Mode, ModelRunner] = {}
        for mode in sorted(modes):
            blocks = 1 + max(case.blocks(block_size) for case in cases if case.mode == mode)
            runner = ModelRunner(model, block_size, blocks, kv_cache_dtype=kv_cache_dtype, decode_attention=mode)
            runner.kv.reserve(blocks)
            _fill(runner.kv, model.device)
            self._runners[mode] = runner

    def build(self, case: StepCase) -> Timed:
        """The case with its step."""
        return Timed(case, build_step(case, self._model.config.vocab_size, self._block_size))

    def run(self, timed: Timed) -> float:
        """Seconds until its tokens are known on the host."""
        runner = self._runners[timed.case.mode]
        return host_seconds(lambda: runner.run(timed.step), self._model.device)


def _fill(kv: KVStore, device: torch.device) -> None:
    """Numbers as a model leaves them: what is in memory by chance may be denormal, which takes CPUs far longer."""
    for layer in range(len(kv.k)):
        for cache, scale in ((kv.k[layer], kv.k_scale[layer]), (kv.v[layer], kv.v_scale[layer])):
            cache.copy_(random_cache(tuple(cache.shape), cache.dtype, device))
            if isinstance(scale, torch.Tensor):
                scale.fill_(1 / 64)
