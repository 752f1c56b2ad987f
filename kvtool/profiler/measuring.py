"""Real runs of a workload on this machine."""

from __future__ import annotations

import time

from kvtool.measure.engine_extra import need_engine, not_measured
from kvtool.measure.measure_options import MeasureOptions
from kvtool.measure.request_sample import RequestSample
from kvtool.profiler.document import Measurements
from kvtool.profiler.run.workload_runs import WorkloadRuns
from kvtool.results.run_times import Decode
from kvtool.text.terminal.interrupts import uninterrupted
from kvtool.workload.jobs import JobMaker


def check_measure(how: MeasureOptions) -> None:
    """Raise KvtoolError if the requested device, model or torch is missing, before all the accounting."""
    if how.asked:
        with uninterrupted():
            need_engine("a real run")
    if how.model is None and how.device in ("auto", "cpu"):
        return
    if not how.asked and not_measured() is not None:
        return
    with uninterrupted():
        from kvtool.engine.model.device import find_device  # torch
        from kvtool.engine.model.weights import check_model

    device = find_device(how.device)
    if how.model is not None:
        check_model(how.model, dtype=how.dtype, load_format=how.load_format, device=device)


def measure(
    runs: WorkloadRuns, how: MeasureOptions, sample: RequestSample, decode: Decode | None
) -> tuple[Measurements, bool]:
    """Measure a real run; return the results, or the reason for none, and whether it was interrupted."""
    began = time.monotonic()
    runs.begin("measuring")
    runs.progress.advance(0)
    with uninterrupted():
        lack = not_measured()
        if lack is not None:
            return Measurements(lack), False
        from kvtool.measure.local import Measurement  # torch: two seconds that accounting alone does not need

    maker = JobMaker(runs.renderer, seed=runs.plan.seed)
    measurement = Measurement(
        runs.plan.measured_engine,
        maker,
        how,
        limit=runs.plan.limit,
        progress=runs.progress,
        began=began,
        decode_together=round(decode.batch) if decode is not None else 0,
    )
    run = measurement.run(runs.source, sample)
    return Measurements(run.ttft(), run.tpot()), run.interrupted
