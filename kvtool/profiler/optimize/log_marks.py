"""The cheapest request settings, cache marks and named caches of a log of hosted models, on top of other fixes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kvtool.accounting.caches.request_layout import PromptLayout
from kvtool.accounting.log_clock import moment_of
from kvtool.accounting.prices.explicit_caches import cheaper_caches
from kvtool.accounting.prices.price_row import Rates
from kvtool.fixes.fix import Fix
from kvtool.profiler.advice.trials import TrialInterruptedError
from kvtool.profiler.opening import Opened
from kvtool.profiler.profiler import ReportOptions
from kvtool.profiler.reported.cheapest_marks import MarkTrial, saves_enough
from kvtool.profiler.reported.request_settings import cheaper_settings
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.profiler.run.samples import SampleBook
from kvtool.results.documents.optimize import NamedCache
from kvtool.results.money import amount_text
from kvtool.text.terminal.progress import Progress
from kvtool.workload.logs.logs import LogSource


def named_caches(before: RunResult) -> list[NamedCache]:
    """Return the explicit caches that cost less than what was paid for the requests of a log."""
    hosted, book = before.counts.hosted, money_of(before)
    if hosted is None or book is None or not book.told:
        return []

    def rates_of(layout: PromptLayout) -> Rates | None:
        return book.rates_of(layout.call, layout.prompt, moment_of(hosted.rules.epoch, layout.use.now))

    return [
        NamedCache(
            model=each.model,
            end=each.end,
            kept=each.kept,
            tokens=each.tokens,
            ttl=each.ttl,
            made=each.made,
            requests=each.requests,
            paid=amount_text(each.paid),
            cost=amount_text(each.cost),
            storage=amount_text(each.storage),
            uses_per_hour=each.uses_per_hour,
            currency=next(iter(book.currencies), "USD"),
        )
        for each in cheaper_caches(hosted.nameable, rates_of)
        if saves_enough(each.paid, each.cost)
    ]


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
    _ = trial.cheaper
    if result.partial:
        raise TrialInterruptedError
    return trial
