"""Measured TTFT: real forward passes of the embedded model on this machine, with the prefix cache on and off; then TPOT."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from kvtool.accounting.quantiles import quantiles
from kvtool.engine.clock import WallClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.engine_error import EngineError
from kvtool.engine.kv_dtype import AUTO, find_kv_dtype
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.device import choose_kernels, device_name, find_device
from kvtool.engine.model.model_runner import ModelRunner, OnLogits, attention_shortfall, shares_by_default
from kvtool.engine.model.weights import free_memory, load_model
from kvtool.engine.prediction.sizing import bytes_per_block, estimated_activations
from kvtool.engine.request import Request
from kvtool.errors import MessageRefusedError
from kvtool.measure.audit import Audit, AuditResult, to_all
from kvtool.measure.decode import DecodeMeasurement, MeasuredDecode, decode_modes, prompts_together
from kvtool.measure.measure_options import MeasureOptions
from kvtool.results.run_times import Measured, MeasuredTpot
from kvtool.text.terminal.interrupts import uninterrupted
from kvtool.text.terminal.progress import Progress
from kvtool.workload.drive import first_turns, one_at_a_time
from kvtool.workload.jobs import Job, JobMaker
from kvtool.workload.turn import Source, Turn

_SHARE = 0.9  # of the free memory of a device that caches may take
_MOST_BLOCKS = 1 << 18
"""Of a cache: small models leave room for more than a scheduler should have to keep lists of."""
_WARM_UP_TOKENS = 512  # of a warm-up prompt
_WARM_UPS = 3
"""At most: the first pays for what later ones find ready, the best tells how fast a prefill is."""
_WARM_UP_SHARE = 1 / 40
"""Of the budget, after which there is no other warm-up."""
_COMPILING_TOKENS = (40, 1_000, 4_096)
"""On a GPU there are more warm-ups, each with a hit: what Triton compiles for other shapes is then ready."""
_DECODE_SHARE = 1 / 3
"""Of the budget, at most."""
_MOST_DECODE_ON_CPU = 8  # requests that decode together on a CPU
_CACHES = 4
"""That share the memory of a GPU: with and without reuse, and decode in both ways; a KV cache dtype of its own needs one more."""
_RESERVED_BYTES = 1 << 30
"""Address space for an unlimited cache; memory is taken only where it is written."""


class DeviceMemory:
    """Memory for caches of the same engine, all of them with blocks of the largest of some KV cache dtypes."""

    def __init__(self, model: Decoder, engine: EngineConfig, kv_cache_dtypes: Sequence[str]) -> None:
        geometry = Geometry.of(model.config)
        own = str(model.dtype).removeprefix("torch.")
        self._device = model.device
        config = model.config
        both = max(
            bytes_per_block(
                config.num_hidden_layers,
                config.cache_heads,
                config.cache_dim,
                engine.block_size,
                find_kv_dtype(name, own),
            )
            for name in kv_cache_dtypes
        )
        self.block_bytes = both if config.latent is None else both // 2  # latent vectors are keys and values
        estimate = estimated_activations(
            geometry, max_num_batched_tokens=engine.max_num_batched_tokens, max_num_seqs=engine.max_num_seqs
        )
        self._activations = estimate * model.dtype.itemsize // 2  # the estimate is for types of two bytes

    @property
    def bounded(self) -> bool:
        """Return whether caches have a limit and are made that large at once: a GPU has no memory but its own, and growing
        copies."""
        return self._device.type == "cuda"

    def blocks(self, caches: int) -> int:
        """Return the blocks for each of so many caches, of the memory that is free now; with the null block, and at least one
        beside it."""
        if self._device.type == "cuda":
            torch.cuda.empty_cache()  # what the allocator keeps does not count as free
        left = _SHARE * free_memory(self._device) - self._activations
        return min(max(int(left // (caches * self.block_bytes)), 2), _MOST_BLOCKS)


@dataclass(slots=True)
class MeasuredRun:
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
    device: str = "cpu"
    kernels: str = ""
    shortfall: str = ""
    """Why the kernels are not those that are made for the device; empty where they are."""
    too_large: int = 0
    """Requests left out because the memory of the device has no room for them."""
    decode: MeasuredDecode | None = None

    def ttft(self) -> Measured:
        """Return times to the first token, as reports have them."""
        return Measured(
            on=quantiles(self.on),
            off=quantiles(self.off),
            requests=len(self.on),
            prompt_tokens=self.prompt_tokens,
            hit_tokens=self.hit_tokens,
            complete=self.complete,
            reason=self.reason,
            exact=self.exact,
            audit=None if self.reuse is None else self.reuse.logits(),
            kv_cache_dtype_error=None if self.price is None else self.price.logits(),
            device=self.device,
            kernels=self.kernels,
            shortfall=self.shortfall,
            too_large_requests=self.too_large,
        )

    def tpot(self) -> MeasuredTpot | None:
        """Return times of decode steps; None where none were measured."""
        return None if self.decode is None else self.decode.tpot()


class _BudgetSpent(Exception):  # noqa: N818 - a signal, not an error
    pass


class Measurement:
    """Runs a workload's first requests, one at a time, until the budget is spent.

    Each request runs twice: through an engine whose cache remembers the ones before, and through one without a cache. What is left
    of the budget, or the part of it that is kept back for that, goes to requests that decode together.
    """

    def __init__(
        self,
        config: EngineConfig,
        maker: JobMaker,
        how: MeasureOptions,
        *,
        limit: int | None,
        progress: Progress,
        began: float,
        decode_together: int = 0,
    ) -> None:
        """Makes the model and warms it up; what is left of the budget goes to the requests.

        `began` is the moment of the monotonic clock from which on the budget is spent: importing this file takes some of it.
        `decode_together` is how many requests decode at a time.
        """
        self._maker = maker
        self._limit = limit
        self._progress = progress
        self._how = how
        self._decode_together = decode_together
        model = self._load(how, maker)
        self._model = model
        self._vocabulary = model.config.vocab_size
        choice = choose_kernels(model.device)
        self._triton = choice.triton
        self.result = MeasuredRun(
            exact=model.dtype == torch.float32 and how.kv_cache_dtype == AUTO,
            device=device_name(model.device),
            kernels=choice.kernels.NAME,
            shortfall=choice.shortfall or attention_shortfall(model),
        )
        self._reuse = Audit() if how.audit else None
        self._price = Audit() if how.kv_cache_dtype != AUTO else None
        reuse, price = self._reuse, self._price
        # Forced answers are appended between steps; and all layers of the model here are in one block table.
        config = replace(config, async_scheduling=False, plan=None)
        self._asked = config.num_blocks
        self._memory = DeviceMemory(model, config, (how.kv_cache_dtype, AUTO) if price else (how.kv_cache_dtype,))
        if self._memory.bounded:
            blocks = self._memory.blocks(_CACHES + (price is not None))
            config = replace(config, num_blocks=blocks if self._asked is None else min(blocks, self._asked))
        uncached = replace(config, enable_prefix_caching=False)
        on = [reuse.candidate] if reuse else []
        off = ([reuse.reference] if reuse else []) + ([price.candidate] if price else [])
        self._on = self._engine(config, how.kv_cache_dtype, on)
        self._off = self._engine(uncached, how.kv_cache_dtype, off)
        self._native = self._engine(uncached, AUTO, [price.reference]) if price else None
        self._rate = self._warm_up()
        self._start_seconds = time.monotonic() - began
        self._last_moment = began + how.budget
        self._deadline = self._last_moment - (how.budget * _DECODE_SHARE if decode_together > 1 else 0.0)

    @staticmethod
    def _load(how: MeasureOptions, maker: JobMaker) -> Decoder:
        device = find_device(how.device)
        if how.model is None:
            return Decoder.random(ModelConfig.tiny(maker.renderer.tokenizer.vocab_size), seed=0, device=device)
        return load_model(how.model, dtype=how.dtype, load_format=how.load_format, device=device)

    def _engine(self, config: EngineConfig, kv_cache_dtype: str, hooks: Sequence[OnLogits]) -> Engine:
        runner = ModelRunner(
            self._model,
            config.block_size,
            config.num_blocks,
            kv_cache_dtype=kv_cache_dtype,
            on_logits=to_all(*hooks) if hooks else None,
            decode_attention=self._how.decode_attention,
        )
        if config.num_blocks is None:  # a cache that grows is copied, which would count as time to a first token
            runner.kv.reserve(_RESERVED_BYTES // runner.kv.bytes_per_block)
        elif self._memory.bounded:
            runner.kv.reserve(config.num_blocks)
        return Engine(config, runner, WallClock())

    def _warm_up(self) -> float:
        """Return tokens per second of a prefill. A slow machine gets fewer runs: its first figure shall not wait for them."""
        block_size = self._on.config.block_size
        most = max(_WARM_UP_TOKENS, *_COMPILING_TOKENS)
        config = EngineConfig(block_size, -(-most // block_size) + 2, enable_prefix_caching=self._triton)
        engine = self._engine(config, self._how.kv_cache_dtype, [])
        random = np.random.default_rng(0)

        def prefill(tokens: int, times: int) -> float:
            ids = random.integers(0, self._vocabulary, tokens, dtype=np.int32)
            seconds = 1.0
            for _ in range(times):
                seconds = self._time(engine, Request("warm-up", tokens, prompt_ids=ids, output_ids=[0, 0]))
            return seconds

        for tokens in _COMPILING_TOKENS if self._triton else ():
            prefill(tokens, 2)
        until = time.monotonic() + _WARM_UP_SHARE * self._how.budget
        times = [prefill(_WARM_UP_TOKENS, 1)]
        while len(times) < _WARM_UPS and time.monotonic() <= until:
            times.append(prefill(_WARM_UP_TOKENS, 1))
        return _WARM_UP_TOKENS / max(min(times), 1e-6)

    def run(self, source: Source) -> MeasuredRun:
        """Measure until the budget or the workload ends; Ctrl-C keeps what there is."""
        result = self.result
        self._progress.ends_by(self._deadline)
        try:
            one_at_a_time(first_turns(source.conversations(), self._limit), self._begin, self._execute, self._end)
            result.complete = True
            if result.too_large and not len(result.on):
                result.reason = f"no request fits the memory of the {result.device}"
        except _BudgetSpent:
            result.reason = result.reason or "the budget is spent"
        except KeyboardInterrupt:
            result.reason, result.interrupted = "interrupted", True
        if not result.interrupted:
            try:
                self._measure_decode(source)
            except KeyboardInterrupt:
                result.interrupted = True
        result.reuse = self._reuse.result if self._reuse is not None else None
        result.price = self._price.result if self._price is not None else None
        return result

    def _measure_decode(self, source: Source) -> None:
        """Measure the TPOT of requests that decode together, into the result as it comes."""
        together = min(self._decode_together, _MOST_DECODE_ON_CPU if self._model.device.type == "cpu" else 1 << 20)
        left = self._last_moment - time.monotonic()
        if together < 2 or left <= 0 or not len(self.result.on):
            return
        self._progress.stage("measuring decode")
        prompts = prompts_together(
            source,
            self._maker,
            batch=together,
            limit=self._limit,
            vocabulary=self._vocabulary,
            fits=self._fits,
            deadline=time.monotonic() + left / 2,
        )
        measurement = DecodeMeasurement(
            self._model,
            self._on.config,
            kv_cache_dtype=self._how.kv_cache_dtype,
            modes=decode_modes(
                self._how.decode_attention, shares=shares_by_default(self._model, self._how.kv_cache_dtype)
            ),
            most_blocks=self._memory.blocks,
            rate=self._rate,
            deadline=self._last_moment,
        )
        result = measurement.begin(prompts)
        if result is None:
            return
        self.result.decode = result
        for _ in measurement.steps(result):
            pass

    def _is_too_large(self, request: Request) -> bool:
        """Return whether only the memory of the device is in the way."""
        held, tokens = self._on.config.num_blocks, request.num_prompt_tokens + request.max_tokens - 1
        return held is not None and held != self._asked and -(-tokens // self._on.config.block_size) >= held

    def _fits(self, request: Request) -> bool:
        try:
            self._on.scheduler.check_fits(request)
        except EngineError:
            return False
        return True

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
            self.result.too_large += self._is_too_large(request)
            return None
        # The first request may have all of the budget: where it does not fit a part of it, nothing would be measured.
        is_first = not len(self.result.on)
        left = (self._last_moment if is_first else self._deadline) - time.monotonic()
        runs = 2 if self._native is None else 3
        seconds = runs * request.num_prompt_tokens / self._rate
        if seconds > left:
            if is_first:
                self.result.reason = (
                    f"the first request ({request.num_prompt_tokens:,} tokens) does not fit {self._how.budget:g} s, "
                    f"of which the start took {self._start_seconds:.1f}"
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
        """Return the same prompt, to its first token only."""
        return Request(request.id, request.num_prompt_tokens, prompt_ids=request.prompt_ids, output_ids=[0])

    @staticmethod
    def _time(engine: Engine, request: Request) -> float:
        """Return seconds from submission to the first token; the rest of the answer is computed afterwards."""
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
