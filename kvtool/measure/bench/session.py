"""A run of `kvtool bench`: ceilings, steps of the engine in rounds until the budget is spent, and the fit to them."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from math import inf

import torch

from kvtool.engine.config import DEFAULT_MODEL
from kvtool.engine.kv_dtype import KVDtype, find_kv_dtype
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.device import choose_kernels, find_device
from kvtool.engine.model.kv_store import storage_dtype
from kvtool.engine.model.model_runner import shares_by_default
from kvtool.engine.model.weights import DTYPES, free_memory, load_model
from kvtool.engine.prediction.accelerators import Accelerator
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.engine.prediction.sizing import bytes_per_block
from kvtool.measure.bench.attention import AttentionShape, StepTimer, Timed, measure_store
from kvtool.measure.bench.bench_result import BenchOptions, BenchResult
from kvtool.measure.bench.calibration import LEAST_POINTS, Constants, Fitted, Point, fit, residuals
from kvtool.measure.bench.calibration_file import Calibration
from kvtool.measure.bench.cases import CPU, GPU, StepCase, shallow_cases, step_cases
from kvtool.measure.bench.this_machine import Ceilings, ceilings, describe_machine
from kvtool.measure.bench.timing import release
from kvtool.results.documents.bench import TimedStore

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how many of its parts are done, and how many there are."""

VOCABULARY = 32_000  # of the embedded model, whose own tokenizer is not needed here
_GIB = 1 << 30
_MODELS_BY_ROOM = ((28 * _GIB, DEFAULT_MODEL), (8 * _GIB, "llama-3.2-1b"))
"""The largest one is taken whose memory is free: weights, a cache for some long requests, and room to compute in."""

_CACHE_SHARE = 0.4  # of the memory that the weights leave: two runners may each have a cache
_MOST_ROUNDS = 100  # of all cases, however much time there is
_LEAST_ROUNDS = 3  # of all cases
_REMEMBERED = 5  # times of a case from which the cost of the next one is estimated
_CEILINGS_SHARE, _STORE_SHARE, _STEPS_SHARE = 0.03, 0.02, 0.85
_STORED_TOKENS = 8192  # of a large prefill step
_PLAUSIBLE = 4.0  # times a ceiling, for what is read from a processor's caches, and ceilings measured in a busy moment


class Bench:
    """Makes the model; `run` measures it."""

    def __init__(self, options: BenchOptions, on_progress: OnProgress) -> None:
        self._options = options
        self._on_progress = on_progress
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
        self._device = device = find_device(options.device)
        on_progress("making the model", 0, 1)
        self._model = _make_model(options, device)
        self._started = time.perf_counter()
        config = self._model.config
        dtype = str(self._model.dtype).removeprefix("torch.")
        self._kept = find_kv_dtype(options.kv_cache_dtype, dtype)
        self._kernels = choose_kernels(device)
        self._sizes = GPU if device.type == "cuda" else CPU
        self._block_bytes = _block_bytes(config, options.block_size, self._kept)
        found = ceilings(device, self._model.dtype, seconds=_CEILINGS_SHARE * options.budget)
        self.result = BenchResult(
            machine=describe_machine(device),
            geometry=Geometry.of(config),
            dtype=dtype,
            dtype_bytes=self._model.dtype.itemsize,
            kv_cache_dtype=self._kept.name,
            kv_token_bytes=self._block_bytes / options.block_size,
            block_size=options.block_size,
            copy_bytes_per_s=found.copy_bytes_per_s,
            matmul_flops_per_s=found.matmul_flops_per_s,
            budget=options.budget,
        )
        self.result.load = load
        if self._kernels.shortfall:
            self.result.notes.append(self._kernels.shortfall)

    def run(self) -> BenchResult:
        """Measure until the budget is spent; Ctrl-C keeps what every step has been measured for by then."""
        result = self.result
        shallow: list[Point] = []
        try:
            result.store = self._store()
            self._steps()
            shallow = self._shallow_points()
        except KeyboardInterrupt:
            if not result.steps:
                raise
            result.partial = True
            result.no_calibration = "interrupted"
        if not result.partial:
            self._fit(shallow)
        result.seconds = time.perf_counter() - self._started
        return result

    def _until(self, share: float) -> float:
        """Return when so much of the budget is spent."""
        return self._started + share * self._options.budget

    def _store(self) -> TimedStore:
        """Time the writing of keys and values of new tokens."""
        self._on_progress("store_kv", 0, 1)
        config, result = self._model.config, self.result
        shape = AttentionShape(
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
            result.block_size,
            self._model.dtype,
            storage_dtype(self._kept, self._device),
        )
        written = measure_store(
            self._kernels.kernels,
            shape,
            _STORED_TOKENS,
            Ceilings(result.copy_bytes_per_s, result.matmul_flops_per_s),
            self._device,
            seconds=_STORE_SHARE * self._options.budget,
        )
        release(self._device)
        return TimedStore(tokens=written.tokens, bytes=written.num_bytes, seconds=written.timing.seconds)

    def _steps(self) -> None:
        """Time one case after the other, in rounds: whatever disturbs the machine for a while disturbs all of them."""
        result, page = self.result, self._options.block_size
        prefix_aware = shares_by_default(self._model, self._kept.name)
        cases = step_cases(self._sizes, page, prefix_aware=prefix_aware)
        room = int(_CACHE_SHARE * free_memory(self._device)) // self._block_bytes
        result.left_out = [case for case in cases if case.blocks(page) >= room]
        cases = [case for case in cases if case.blocks(page) < room]
        timer = StepTimer(self._model, cases, page, self._kept.name)
        admitted, dropped = self._admit(timer, cases, self._until(_STEPS_SHARE))
        result.left_out += dropped
        order = {case: index for index, case in enumerate(cases)}
        try:
            self._rounds(timer, admitted, self._until(_STEPS_SHARE))
        finally:
            done = [timed.result() for timed in admitted if timed.times]
            result.steps = sorted(done, key=lambda step: order[step.case])
        del timer, admitted
        release(self._device)

    def _admit(self, timer: StepTimer, cases: list[StepCase], until: float) -> tuple[list[Timed], list[StepCase]]:
        """Warm up the cases that can be run some times, the cheapest ones first; and those that there is no time for."""
        guess = self._guess()
        admitted: list[Timed] = []
        dropped: list[StepCase] = []
        ratios = [1.0]  # measured to guessed
        round_seconds = 0.0
        for index, case in enumerate(sorted(cases, key=lambda case: guess.step_seconds(case.work))):
            self._on_progress("warming up", index, len(cases))
            guessed = guess.step_seconds(case.work)
            expected = guessed * statistics.median(ratios[-_REMEMBERED:])
            if admitted and time.perf_counter() + (round_seconds + 2 * expected) * _LEAST_ROUNDS > until:
                dropped.append(case)
                continue
            timed = timer.build(case)
            if self._device.type == "cuda":
                timer.run(timed)  # compiles
            took = timer.run(timed)
            if took > 2 * expected:  # the first time, or something else had the machine
                took = min(took, timer.run(timed))
            ratios.append(took / guessed)
            round_seconds += took
            admitted.append(timed)
        return admitted, dropped

    def _rounds(self, timer: StepTimer, admitted: list[Timed], until: float) -> None:
        """Time at least one round."""
        for number in range(_MOST_ROUNDS):
            began = time.perf_counter()
            for index, timed in enumerate(admitted):
                self._on_progress(f"round {number + 1}", index, len(admitted))
                timed.times.append(timer.run(timed))
            ended = time.perf_counter()
            if ended + (ended - began) > until:
                break

    def _guess(self) -> LatencyModel:
        """Estimate the time of a step from the ceilings, before anything is timed."""
        result = self.result
        constants = Constants(result.matmul_flops_per_s, result.copy_bytes_per_s, layer_overhead=20e-6)
        return self._fitted().latency_model(constants, result.geometry.num_layers)

    def _fitted(self) -> Fitted:
        return Fitted(self.result.geometry, self.result.dtype_bytes, self.result.kv_token_bytes)

    def _shallow_points(self) -> list[Point]:
        """Return points of the same model with a quarter of its layers, which takes the whole one's place in memory."""
        layers = max(self.result.geometry.num_layers // 4, 1)
        if layers == self.result.geometry.num_layers:
            return []
        config = replace(self._model.config, num_hidden_layers=layers)
        dtype = self._model.dtype
        del self._model
        release(self._device)
        model = Decoder.random(config, device=self._device, dtype=dtype)
        timer = StepTimer(model, shallow_cases(self._sizes), self._options.block_size, self._kept.name)
        admitted, _ = self._admit(timer, shallow_cases(self._sizes), until=inf)
        self._rounds(timer, admitted, self._until(1.0))
        return [Point(timed.case.work, layers, timed.result().seconds) for timed in admitted if timed.times]

    def _fit(self, shallow: list[Point]) -> None:
        """Fit the calibration; only as much as the steps are enough for."""
        result, of = self.result, self._fitted()
        points = [*result.points(), *shallow]
        enough = sum(not point.held_out for point in points)
        if enough < LEAST_POINTS:
            result.no_calibration = f"there was time for {enough} steps to fit to, and {LEAST_POINTS} are needed"
            return
        constants = fit(
            of,
            points,
            most_flops=_PLAUSIBLE * result.matmul_flops_per_s,
            most_bandwidth=_PLAUSIBLE * result.copy_bytes_per_s,
        )
        result.calibration = Calibration(
            machine=result.machine,
            date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            geometry=result.geometry,
            dtype=result.dtype,
            kv_cache_dtype=result.kv_cache_dtype,
            block_size=result.block_size,
            kv_token_bytes=result.kv_token_bytes,
            copy_bytes_per_s=result.copy_bytes_per_s,
            matmul_flops_per_s=result.matmul_flops_per_s,
            constants=constants,
            points=tuple(points),
        )
        result.ceilings_alone = residuals(of, _assumed(result), result.points())


def _assumed(result: BenchResult) -> Constants:
    """Return the latency model's assumptions for a machine of which only the ceilings are known."""
    peak = Accelerator("ceilings", result.matmul_flops_per_s, result.copy_bytes_per_s, 0, "measured")
    model = LatencyModel(result.geometry, peak)
    return Constants(
        flops=peak.flops * peak.compute_efficiency,
        bandwidth=peak.bandwidth * model.bandwidth_efficiency,
        layer_overhead=model.layer_overhead,
        step_overhead=model.step_overhead,
    )


def _make_model(options: BenchOptions, device: torch.device) -> Decoder:
    """Make a model of random weights, which take as long as any."""
    name = options.model
    if name is None and device.type == "cuda":
        free = free_memory(device)
        name = next((name for room, name in _MODELS_BY_ROOM if free >= room), None)
    if name is not None:
        return load_model(name, dtype=options.dtype, load_format="dummy", device=device)
    dtype = DTYPES.get(options.dtype, torch.bfloat16 if device.type == "cuda" else torch.float32)
    return Decoder.random(ModelConfig.tiny(VOCABULARY), device=device, dtype=dtype)


def _block_bytes(config: ModelConfig, block_size: int, kept: KVDtype) -> int:
    return bytes_per_block(config.num_hidden_layers, config.num_key_value_heads, config.head_dim, block_size, kept)
