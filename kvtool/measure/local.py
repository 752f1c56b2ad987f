"""Measured TTFT: real forward passes of the embedded model on this machine, with the prefix cache on and off; then TPOT."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from kvtool.accounting.quantiles import median_interval, quantiles
from kvtool.engine.clock import WallClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.engine_error import EngineError
from kvtool.engine.impossible_requests import check_fits
from kvtool.engine.kv_dtype import AUTO
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.device import choose_kernels, device_name, find_device
from kvtool.engine.model.model_runner import ModelRunner, OnLogits, attention_shortfall, shares_by_default
from kvtool.engine.model.weights import load_model
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.measure.audit import Audit, AuditResult, to_all
from kvtool.measure.bench.attention import fill_randomly
from kvtool.measure.decode import DecodeMeasurement, MeasuredDecode, decode_modes, prompts_together
from kvtool.measure.device_memory import DeviceMemory
from kvtool.measure.measure_options import MeasureOptions
from kvtool.measure.request_sample import RequestSample, SampledRequest
from kvtool.results.run_times import Measured, MeasuredTpot
from kvtool.text.terminal.interrupts import uninterrupted
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.progress import Progress
from kvtool.workload.jobs import JobMaker
from kvtool.workload.turn import Source

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
_LARGEST_DIFFERENCE = 0.05
"""Between the hit rates of the sample and of the run. A sample that differs more says nothing about the run."""


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
            on_interval=median_interval(self.on),
            off_interval=median_interval(self.off),
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


class Measurement:
    """Runs a sample of a workload's requests, one at a time, until the budget is spent.

    Each request runs twice: without a cache, and with one that contains only what the accounting says is cached. The rest of the
    budget, or a part that is kept back for it, goes to requests that decode together.
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
        # Forced answers are appended between steps; and all layers of the model here are in one block table.
        self._config = replace(config, async_scheduling=False, plan=None)
        price = self._price is not None
        self._memory = DeviceMemory(model, self._config, (how.kv_cache_dtype, AUTO) if price else (how.kv_cache_dtype,))
        if self._memory.bounded:
            blocks, asked = self._memory.blocks(_CACHES + price), self._config.num_blocks
            self._config = replace(self._config, num_blocks=blocks if asked is None else min(blocks, asked))
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
        assert config.num_blocks is not None
        runner = ModelRunner(
            self._model,
            config.block_size,
            config.num_blocks,
            kv_cache_dtype=kv_cache_dtype,
            on_logits=to_all(*hooks) if hooks else None,
            decode_attention=self._how.decode_attention,
        )
        runner.kv.reserve(config.num_blocks)  # a cache that grows is copied, which would count as time to a first token
        return Engine(config, runner, WallClock())

    def _make_engines(self, requests: Sequence[SampledRequest]) -> None:
        """Make the engines, with room for the largest of the requests."""
        config = replace(self._config, num_blocks=max(map(self._blocks, requests)))
        uncached = replace(config, enable_prefix_caching=False)
        reuse, price, dtype = self._reuse, self._price, self._how.kv_cache_dtype
        self._on = self._engine(config, dtype, [reuse.candidate] if reuse else [])
        off = [*([reuse.reference] if reuse else []), *([price.candidate] if price else [])]
        self._off = self._engine(uncached, dtype, off)
        self._native = self._engine(uncached, AUTO, [price.reference]) if price else None
        assert isinstance(self._on.runner, ModelRunner)
        if reuse is None:
            fill_randomly(self._on.runner.kv, self._model.device)

    def _blocks(self, request: SampledRequest) -> int:
        """Return the blocks of a cache for a request with its answer, the null block included."""
        return 1 + -(-(request.num_tokens + len(request.output_ids) - 1) // self._config.block_size)

    def _warm_up(self) -> float:
        """Return tokens per second of a prefill. A slow machine gets fewer runs: its first figure shall not wait for them."""
        block_size = self._config.block_size
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

    def run(self, source: Source, sample: RequestSample) -> MeasuredRun:
        """Measure until the budget or the sample ends; Ctrl-C keeps what there is."""
        result = self.result
        self._progress.ends_by(self._deadline)
        try:
            self._measure_ttft(sample)
        except KeyboardInterrupt:
            result.reason, result.interrupted = "interrupted", True
        if not result.interrupted:
            try:
                self._measure_decode(source)
            except KeyboardInterrupt:
                result.interrupted = True
        result.reuse = self._reuse.result if self._reuse is not None else None
        result.price = self._price.result if self._price is not None else None
        self._check_sample(sample)
        return result

    def _measure_ttft(self, sample: RequestSample) -> None:
        """Measure requests of the sample, those of all depths of hits in turn."""
        result, drawn = self.result, sample.balanced()
        if not drawn:
            result.reason = "the input has no tokens, only block hashes"
            return
        fitting = [each for each in drawn if self._fits(each.num_tokens, len(each.output_ids))]
        result.too_large = len(drawn) - len(fitting) if self._memory.bounded else 0
        if not fitting:
            result.reason = f"no request fits the memory of the {result.device}"
            return
        # The first request may have all of the budget: where it does not fit a part of it, nothing would be measured.
        shortest = min(fitting, key=lambda each: each.num_tokens)
        left = self._last_moment - time.monotonic()
        short = [each for each in fitting if self._seconds(each) <= left]
        if not short:
            result.reason = (
                f"no sampled request fits into {self._how.budget:g} s. The start took {self._start_seconds:.1f} s, and the "
                f"shortest request has {shortest.num_tokens:,} tokens"
            )
            return
        self._make_engines(short)
        for request in short:
            deadline = self._deadline if len(result.on) else self._last_moment
            if time.monotonic() + self._seconds(request) > deadline:
                result.reason = f"the budget of {self._how.budget:g} s is spent"
                return
            self._measure_pair(request)
        result.complete = sample.is_whole and len(short) == len(drawn)

    def _seconds(self, request: SampledRequest) -> float:
        """Estimate the seconds of all runs of a request."""
        uncached = 1 + (self._price is not None)
        computed = request.num_tokens if self._reuse is not None else request.num_tokens - request.hit_tokens
        return (uncached * request.num_tokens + computed) / self._rate

    def _check_sample(self, sample: RequestSample) -> None:
        """Drop the times of a sample whose hit rate is not that of the run."""
        result = self.result
        if not result.prompt_tokens:
            return
        rate = result.hit_tokens / result.prompt_tokens
        if abs(rate - sample.hit_rate) > _LARGEST_DIFFERENCE:
            result.reason = (
                f"a hit rate of {percent(rate)} in the {plural(len(result.on), 'request')} that fit {self._how.budget:g} s, "
                f"too far from {percent(sample.hit_rate)} of the run"
            )
            result.on, result.off = array("d"), array("d")
            result.hit_tokens = result.prompt_tokens = 0

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
            fits=lambda request: self._fits(request.num_prompt_tokens, request.max_tokens),
            deadline=time.monotonic() + left / 2,
        )
        measurement = DecodeMeasurement(
            self._model,
            self._config,
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

    def _fits(self, prompt: int, outputs: int) -> bool:
        try:
            check_fits("request", prompt, outputs, self._config)
        except EngineError:
            return False
        return True

    def _measure_pair(self, sampled: SampledRequest) -> None:
        """Run a request with the cached prefix and without; in turn, so that a drift of the machine's speed favours neither."""
        ids = np.mod(sampled.prompt_ids, self._vocabulary)  # ids of another tokenizer take as long
        outputs = [token % self._vocabulary for token in sampled.output_ids]

        def made(outputs: list[int], tokens: int | None = None) -> Request:
            return Request(sampled.id, len(ids[:tokens]), prompt_ids=ids[:tokens], output_ids=outputs)

        request = made(outputs)
        self._fill_cache(made([0], sampled.hit_tokens))
        if len(self.result.on) % 2:
            on, off = self._time(self._on, request), self._time(self._off, made([0]))
        else:
            off, on = self._time(self._off, made([0])), self._time(self._on, request)
        self._rate = 0.5 * self._rate + 0.5 * request.num_prompt_tokens / max(off, 1e-6)
        if self._native is not None:
            self._time(self._native, made([0]))
        with uninterrupted():
            for audit in (self._reuse, self._price):
                if audit is not None:
                    audit.settle()
            self.result.on.append(on)
            self.result.off.append(off)
            self.result.hit_tokens += max(request.num_cached_tokens, 0)
            self.result.prompt_tokens += request.num_prompt_tokens
        self._progress.advance(1)

    def _fill_cache(self, prefix: Request) -> None:
        """Make the prefix, and nothing else, cached. An audit needs its keys and values; without one any numbers take as long."""
        self._on.scheduler.reset_prefix_cache()
        if prefix.num_prompt_tokens < self._config.block_size:
            return
        runner = self._on.runner
        if self._reuse is None:
            self._on.runner = DryRunner()
        try:
            self._time(self._on, prefix)
        finally:
            self._on.runner = runner
        if self._reuse is not None:
            self._reuse.drop(prefix.id)

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
