"""What providers reported of a run's requests in all: the hit rate and what was paid, which no prediction replaces."""

from __future__ import annotations

from kvtool.accounting.misses.miss_book import MissBook
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.results.documents.parts import ReportedUse
from kvtool.results.money import amount_text


def reported_use(result: RunResult) -> ReportedUse | None:
    """Return the reported sums; None where no request reports its reads."""
    book, misses = money_of(result), result.find(MissBook)
    if book is None or not book.total[True].told.prompt:
        return None
    side = book.total[True]
    return ReportedUse(
        requests=side.told.requests,
        hit_rate=min(side.told.rate, 1.0),
        paid=amount_text(side.costs.paid.total) if side.costs.requests else None,
        currency=next(iter(book.currencies), "USD"),
        predictable=misses is None or misses.predictable,
    )
