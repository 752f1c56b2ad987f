"""The cheapest cache marks of a log of hosted models, on top of other fixes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kvtool.fixes.fix import Fix
from kvtool.profiler.advice.trials import TrialInterruptedError
from kvtool.profiler.opening import Opened
from kvtool.profiler.profiler import ReportOptions
from kvtool.profiler.reported.cheapest_marks import MarkTrial
from kvtool.profiler.run.run_result import money_of
from kvtool.profiler.run.samples import SampleBook
from kvtool.text.terminal.progress import Progress
from kvtool.workload.logs.logs import LogSource


def mark_trial(
    opened: Opened, fixes: Sequence[Fix], progress: Progress, samples: SampleBook | None
) -> MarkTrial | None:
    """Return the trial of marks that cost less than those of the log with these fixes, by another run; None where nothing is
    priced. Raises TrialInterruptedError."""
    if not isinstance(opened.source, LogSource) or not opened.planned.plan.hosted:
        return None
    runs = opened.profiler(ReportOptions(), progress).runs
    again = partial(runs.priced, "pricing cache marks")
    result = again(list(fixes))
    if result.partial:
        raise TrialInterruptedError
    book = money_of(result)
    if book is None or not book.known:
        return None
    trial = MarkTrial(result, book, again, fixes, samples)
    _ = trial.cheaper
    if result.partial:
        raise TrialInterruptedError
    return trial
