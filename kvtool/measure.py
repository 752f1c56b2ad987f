"""Measured TTFT: real forward passes of the embedded model on this machine, with the prefix cache on and off."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from kvtool.audit import Audit, AuditResult, to_all
from kvtool.drive import first_turns, one_at_a_time
from kvtool.engine.clock import WallClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.errors import EngineError
from kvtool.engine.kv_dtype import AUTO
from kvtool.engine.model import Decoder
from kvtool.engine.model_config import ModelConfig
from kvtool.engine.model_runner import ModelRunner, OnLogits
from kvtool.engine.request import Request
from kvtool.engine.weights import load_model
from kvtool.errors import MessageRefusedError
from kvtool.interrupts import uninterrupted
from kvtool.jobs import Job, JobMaker
from kvtool.measure_options import MeasureOptions
from kvtool.progress import Progress
from kvtool.workload.turn import Source, Turn

_WARM_UP_TOKENS = 512
_RESERVED_BYTES = 1 << 30
"""Address space for an unlimited cache; memory is taken only where it is written."""


@dataclass(slots=True)
class Measured:
    """Seconds to the first token of each measured request, and why there are not more of them."""

    on: array[float] = field(default_factory=lambda: array("d"))
    off: array[float] = field(default_factory=lambda: array("d"))
    hit_tokens: int = 0
    prompt_tokens: int = 0
    complete: bool = False
    interrupted: bool = False
    reason: str = ""
    exact: bool = False
    """Whether the model computed in fp32 with a cache that holds just that: then reuse may flip no token."""
    reuse: AuditResult | None = None
    """Cached against uncached logits."""
    price: AuditResult | None = None
    """Logits with the chosen KV cache dtype against those with the model's own."""


class _BudgetSpent(Exception):  # noqa: N818 - a signal, not an error
    pass


class Measurement:
    """Runs a workload's first requests, one at a time, until the budget is spent.

    Each request runs twice: through an engine whose cache remembers the ones before, and through one without a cache.
    """

    def __init__(
        self,
        config: EngineConfig,
        maker: JobMaker,
        how: MeasureOptions,
        *,
        limit: int | None,
        progress: Progress,
    ) -> None:
        """Makes the model and warms it up; the budget then goes to the requests."""
        self._maker = maker
        self._limit = limit
        self._progress = progress
        self._how = how
        model = self._load(how, maker)
        self._model = model
        self._vocabulary = model.config.vocab_size
        self.result = Measured(exact=model.dtype == torch.float32 and how.kv_cache_dtype == AUTO)
        self._reuse = Audit() if how.audit else None
        self._price = Audit() if how.kv_cache_dtype != AUTO else None
        config = replace(config, async_scheduling=False)  # forced answers are appended between steps
        uncached = replace(config, enable_prefix_caching=False)
        reuse, price = self._reuse, self._price
        on = [reuse.candidate] if reuse else []
        off = ([reuse.reference] if reuse else []) + ([price.candidate] if price else [])
        self._on = self._engine(config, how.kv_cache_dtype, on)
        self._off = self._engine(uncached, how.kv_cache_dtype, off)
        self._native = self._engine(uncached, AUTO, [price.reference]) if price else None
        self._rate = self._warm_up()
        self._deadline = time.monotonic() + how.budget

    @staticmethod
    def _load(how: MeasureOptions, maker: JobMaker) -> Decoder:
        if how.model is None:
            return Decoder.random(ModelConfig.tiny(maker.renderer.tokenizer.vocab_size), seed=0)
        return load_model(how.model, dtype=how.dtype, load_format=how.load_format)

    def _engine(self, config: EngineConfig, kv_cache_dtype: str, hooks: Sequence[OnLogits]) -> Engine:
        runner = ModelRunner(
            self._model,
            config.block_size,
            config.num_blocks,
            kv_cache_dtype=kv_cache_dtype,
            on_logits=to_all(*hooks) if hooks else None,
        )
        if config.num_blocks is None:  # a cache that grows is copied, which would count as time to a first token
            runner.kv.reserve(_RESERVED_BYTES // runner.kv.bytes_per_block)
        return Engine(config, runner, WallClock())

    def _warm_up(self) -> float:
        """Tokens per second of a prefill; its first run pays for what later ones find ready."""
        config = EngineConfig(block_size=self._on.config.block_size, enable_prefix_caching=False)
        engine = self._engine(config, self._how.kv_cache_dtype, [])
        ids = np.random.default_rng(0).integers(0, self._vocabulary, _WARM_UP_TOKENS, dtype=np.int32)
        seconds = 1.0
        for _ in range(3):
            request = Request("warm-up", len(ids), prompt_ids=ids, output_ids=[0])
            seconds = self._time(engine, request)
        return len(ids) / max(seconds, 1e-6)

    def run(self, source: Source) -> Measured:
        """Measure until the budget or the workload ends; Ctrl-C keeps what there is."""
        result = self.result
        try:
            one_at_a_time(first_turns(source.conversations(), self._limit), self._begin, self._execute, self._end)
            result.complete = True
        except _BudgetSpent:
            result.reason = result.reason or "the budget is spent"
        except KeyboardInterrupt:
            result.reason, result.interrupted = "interrupted", True
        result.reuse = self._reuse.result if self._reuse is not None else None
        result.price = self._price.result if self._price is not None else None
        return result

    def _begin(self, turn: Turn) -> Job | None:
        if turn.hashed is not None:
            self.result.reason = "the trace has block hashes, no tokens"
            raise _BudgetSpent
        try:
            job = self._maker.make(turn)
        except MessageRefusedError:
            return None  # the accounting has counted it, or ended with it
        request = job.request
        try:
            self._on.scheduler.check_fits(request)
        except EngineError:
            return None
        left = self._deadline - time.monotonic()
        runs = 2 if self._native is None else 3
        if left <= 0 or runs * request.num_prompt_tokens / self._rate > left:
            if not len(self.result.on):
                self.result.reason = (
                    f"the first request ({request.num_prompt_tokens:,} tokens) does not fit {self._how.budget:g} s"
                )
            raise _BudgetSpent
        assert request.prompt_ids is not None
        request.prompt_ids = np.mod(request.prompt_ids, self._vocabulary)  # ids of another tokenizer take as long
        request.output_ids = [token % self._vocabulary for token in request.output_ids or [0]]
        return job

    def _execute(self, job: Job) -> None:
        request = job.request
        cold = self._copy(request)
        if len(self.result.on) % 2:  # in turn, so that a drift of the machine's speed favours neither
            on, off = self._time(self._on, request), self._time(self._off, cold)
        else:
            off, on = self._time(self._off, cold), self._time(self._on, request)
        self._rate = 0.5 * self._rate + 0.5 * request.num_prompt_tokens / max(off, 1e-6)
        if self._native is not None:
            self._time(self._native, self._copy(request))
        with uninterrupted():
            for audit in (self._reuse, self._price):
                if audit is not None:
                    audit.settle()
            self.result.on.append(on)
            self.result.off.append(off)
            self.result.hit_tokens += max(request.num_cached_tokens, 0)
            self.result.prompt_tokens += request.num_prompt_tokens

    @staticmethod
    def _copy(request: Request) -> Request:
        """The same prompt, to its first token only."""
        return Request(request.id, request.num_prompt_tokens, prompt_ids=request.prompt_ids, output_ids=[0])

    @staticmethod
    def _time(engine: Engine, request: Request) -> float:
        """Seconds from submission to the first token; the rest of the answer is computed afterwards."""
        submitted = engine.clock.now()
        engine.add(request)
        while engine.busy:
            engine.step()
            if request.first_token_at is not None:
                request.skip_ahead()
        assert request.first_token_at is not None
        return request.first_token_at - submitted

    def _end(self, job: Job) -> None:
        del job
        self._progress.advance(1)
