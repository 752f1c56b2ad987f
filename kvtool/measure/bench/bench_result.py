"""Results of `kvtool bench` and their document. Needs no torch."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from math import inf

from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.measure.bench.calibration import Constants, Point
from kvtool.measure.bench.calibration_file import Calibration
from kvtool.measure.bench.cases import StepCase
from kvtool.results.documents.bench import BenchCase, BenchDocument, Misses, Reached, SharingGain, TimedStep, TimedStore
from kvtool.results.documents.calibrated import Machine, Residuals
from kvtool.version import __version__

_ONLY_FLOPS, _ONLY_BYTES = Constants(1.0, inf), Constants(inf, 1.0)


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """The command line; `model` None is the embedded one, or a larger one on a GPU with room."""

    budget: float
    model: str | None = None
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    device: str = "auto"
    block_size: int = EngineConfig.block_size


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step: lower quartile and median of so many runs."""

    case: StepCase
    seconds: float
    median: float
    runs: int


@dataclass(slots=True)
class BenchResult:
    """A finished run as data."""

    machine: Machine
    geometry: Geometry
    dtype: str
    dtype_bytes: int
    kv_cache_dtype: str
    kv_token_bytes: float
    block_size: int
    copy_bytes_per_s: float
    matmul_flops_per_s: float
    steps: list[StepTime] = field(default_factory=list)
    store: TimedStore | None = None
    left_out: list[StepCase] = field(default_factory=list)
    """What there was no time or no memory for."""
    calibration: Calibration | None = None
    no_calibration: str = ""
    """Why there is none."""
    ceilings_alone: Residuals | None = None
    """How far the latency model is off with nothing fitted: the ceilings, and the efficiencies that it assumes."""
    notes: list[str] = field(default_factory=list)
    budget: float = 0.0
    seconds: float = 0.0
    partial: bool = False
    load: float = 0.0
    """What else ran before, as a part of the processors."""

    @property
    def disturbance(self) -> float:
        """Return how much longer than its lower quartile a step usually took; 1 on an idle machine."""
        return statistics.median(step.median / step.seconds for step in self.steps) if self.steps else 1.0

    def of_kind(self, kind: str) -> list[StepTime]:
        """Return the steps of a kind, in the order of their cases."""
        return [step for step in self.steps if step.case.kind == kind]

    def sharing(self) -> list[SharingGain]:
        """Return the speed-up of prefix-aware attention, where both ways were measured."""
        steps = self.of_kind("sharing")
        flat = {(step.case.work, step.case.shared): step for step in steps if step.case.mode == "flat"}
        pairs = [
            (flat[key], step)
            for step in steps
            if step.case.mode == "prefix-aware" and (key := (step.case.work, step.case.shared)) in flat
        ]
        return [
            SharingGain(
                requests=len(one.case.work),
                context_tokens=one.case.context,
                shared_tokens=one.case.shared,
                flat_s=one.seconds,
                prefix_aware_s=other.seconds,
                gain=one.seconds / other.seconds,
            )
            for one, other in pairs
        ]

    def flops(self, case: StepCase) -> float:
        """Return the FLOPs of a step."""
        return self._work(_ONLY_FLOPS, case)

    def memory_floor(self, case: StepCase) -> float:
        """Return seconds that a step takes at least, as it reads each weight once, and the keys and values of each block once."""
        repeated = (len(case.work) - 1) * case.shared * self.kv_token_bytes
        return (self._work(_ONLY_BYTES, case) - repeated) / self.copy_bytes_per_s

    def _work(self, constants: Constants, case: StepCase) -> float:
        model = constants.latency_model(self.geometry, dtype_bytes=self.dtype_bytes, kv_token_bytes=self.kv_token_bytes)
        return model.step_seconds(case.work)

    def points(self) -> list[Point]:
        """Return the steps that the latency model is about."""
        return [
            Point(step.case.work, self.geometry.num_layers, step.seconds, step.case.held_out)
            for step in self.steps
            if step.case.fits_the_model
        ]

    def document(self) -> BenchDocument:
        """Return the result as it is written."""
        alone = self.ceilings_alone
        return BenchDocument(
            schema="kvtool.bench/1",
            version=__version__,
            machine=self.machine,
            model=self.geometry.name,
            dtype=self.dtype,
            kv_cache_dtype=self.kv_cache_dtype,
            block_size=self.block_size,
            budget_s=self.budget,
            partial=self.partial,
            ceilings=Reached(copy_bytes_per_s=self.copy_bytes_per_s, matmul_flops_per_s=self.matmul_flops_per_s),
            steps=[self._timed_step(step) for step in self.steps],
            sharing=self.sharing(),
            left_out=[_case(case) for case in self.left_out],
            store_kv=self.store,
            calibration=None if self.calibration is None else self.calibration.document(),
            no_calibration=self.no_calibration,
            ceilings_alone=None if alone is None else Misses.taken_from(alone),
            load=self.load,
            notes=self.notes,
        )

    def _timed_step(self, step: StepTime) -> TimedStep:
        return TimedStep(
            **dict(_case(step.case)),
            seconds=step.seconds,
            median_s=step.median,
            runs=step.runs,
            flops=self.flops(step.case),
            memory_floor_s=self.memory_floor(step.case),
        )


def _case(case: StepCase) -> BenchCase:
    before, new = case.work[0]
    return BenchCase(
        kind=case.kind,
        requests=len(case.work),
        tokens_before=before,
        new_tokens=new,
        shared_tokens=case.shared,
        decode_attention=case.mode,
        held_out=case.held_out,
    )
