"""The cheapest request settings and cache marks of a log of hosted models, on top of other fixes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kvtool.fixes.fix import Fix
from kvtool.profiler.advice.trials import TrialInterruptedError
from kvtool.profiler.opening import Opened
from kvtool.profiler.profiler import ReportOptions
from kvtool.profiler.reported.cheapest_marks import MarkTrial
from kvtool.profiler.reported.cheapest_settings import cheaper_settings, settled_marks
from kvtool.profiler.run.run_result import money_of
from kvtool.profiler.run.samples import SampleBook
from kvtool.text.terminal.progress import Progress
from kvtool.workload.logs.logs import LogSource


def mark_trial(
    opened: Opened, fixes: Sequence[Fix], progress: Progress, samples: SampleBook | None
) -> MarkTrial | None:
    """Return the trial of marks that cost less than those of the log with these fixes and the cheapest request settings, by other
    runs; None where nothing is priced. Raises TrialInterruptedError."""
    if not isinstance(opened.source, LogSource) or not opened.planned.plan.hosted:
        return None
    again = partial(opened.profiler(ReportOptions(), progress).runs.priced, "pricing cache marks")
    settings, result = cheaper_settings(again(list(fixes)), again, fixes)
    book = None if result.partial else money_of(result)
    if result.partial:
        raise TrialInterruptedError
    if book is None or not book.known:
        return None
    trial = MarkTrial(result, book, again, [*fixes, *settings], samples, settings=settings)
    trial = settled_marks(trial, again, [*fixes, *settings])
    _ = trial.cheaper
    if trial.result.partial:
        raise TrialInterruptedError
    return trial
