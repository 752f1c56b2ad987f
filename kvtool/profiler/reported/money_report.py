"""Reported, predicted and paid sums, in the form of reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

from kvtool.accounting.prices.bill import Bill, shown_money
from kvtool.accounting.prices.money_book import MoneyBook, MoneySide
from kvtool.accounting.prices.price_table import STALE_DAYS
from kvtool.profiler.advice.trials import total_rate
from kvtool.profiler.reported.cheapest_marks import CheaperMarks, MarkTrial
from kvtool.profiler.reported.money_parts import MoneySections
from kvtool.profiler.run.run_books import ProvidersBill
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.results.money import (
    CauseMoney,
    GpuMoney,
    GroupMoney,
    Money,
    MoneyParts,
    Predicted,
    Reported,
    amount_text,
    known_amount_text,
)
from kvtool.results.report import GroupRead
from kvtool.text.terminal.numbers import plural

_DAY = 86_400.0
_MONTH = Decimal("30.4375")
_MOST_STALE = 3
"""Models that a notice names."""


def make_money_sections(
    result: RunResult,
    marks: MarkTrial | None,
    fixed: MarkTrial | None,
    gpu: GpuMoney | None,
    reads: MoneySections | None = None,
    *,
    predicts: bool = True,
) -> MoneySections:
    """Return the sums of a run, of runs with other marks and, with kept fixes, of the run with them; `reads` are the reports of
    the user's own servers. `predicts`: the log holds what the rules need; else nothing predicted is reported."""
    book = money_of(result)
    if book is None or not book.known:
        money = None if gpu is None else _only_gpu(gpu, 0 if book is None else book.requests)
        return MoneySections(money=money) if reads is None else replace(reads, money=money)
    side = book.total[book.told]
    if not side.predicted.requests and not side.costs.requests and not side.told.requests:
        return MoneySections()
    reported = None
    if side.told.requests:
        read = side.told
        costs = side.costs
        reported = Reported(
            requests=read.requests,
            prompt_tokens=read.prompt,
            cached_tokens=read.cached,
            hit_rate=min(read.rate, 1.0),
            saved=amount_text(costs.without.total - costs.paid.total) if costs.requests else None,
        )
    return MoneySections(
        reported=reported,
        predicted=_predicted(book, side, result) if predicts and side.predicted.requests else None,
        difference=dict(side.difference) if reported is not None and predicts else None,
        money=_money(book, side, marks, fixed, gpu, predicts=predicts),
        groups={name: _group_read(sides[True]) for name, sides in book.groups.items() if sides[True].reported.requests},
    )


def with_providers_bill(sections: MoneySections, bill: ProvidersBill) -> MoneySections:
    """Return the sections of a run of an own server with the bill of the log's requests to providers."""
    book = bill.money
    if book is None or not (book.told or book.logged_requests):
        return sections
    gpu = None if sections.money is None else sections.money.gpu
    money = _money(book, book.total[book.told], None, None, gpu, predicts=False)
    own = f"No bill covers the {plural(bill.own_requests, 'request')} to your own server."
    notices = [*money.notices, own] if bill.own_requests and book.told else money.notices
    total = money.requests + bill.own_requests
    return replace(sections, money=money.model_copy(update={"requests": total, "notices": notices}))


def _predicted(book: MoneyBook, side: MoneySide, result: RunResult) -> Predicted:
    read = side.predicted
    return Predicted(
        requests=read.requests,
        prompt_tokens=read.prompt,
        cached_tokens=read.cached,
        hit_rate=min(read.rate, 1.0),
        reachable_tokens=min(side.reachable, read.prompt),
        lost=dict(side.lost),
        most_a_minute=book.most_a_minute,
        reported_tokens=side.reported.cached if side.reported.requests else None,
        tokens_per_own={} if result.counts.hosted is None else result.counts.hosted.ratios.told(),
    )


def _money(
    book: MoneyBook,
    side: MoneySide,
    marks: MarkTrial | None,
    fixed: MarkTrial | None,
    gpu: GpuMoney | None,
    *,
    predicts: bool,
) -> Money:
    costs = side.costs
    priced = costs.requests > 0
    paid = costs.paid.total if book.told and priced else None
    best: Decimal | None = None
    cheaper: CheaperMarks | None = None
    if priced and marks is not None and marks.again is not None:
        best, cheaper = _best(side, fixed, marks)
    on_top = cheaper is not None and cheaper.cost != best
    base = paid if paid is not None else costs.predicted.total
    span = None if book.first is None or book.last is None else book.last - book.first
    saved = None if best is None else costs.predicted.total - best  # what the provider lost is saved by no fix
    month = None
    if saved is not None and span is not None and span >= _DAY:
        month = saved * _MONTH * Decimal(str(_DAY)) / Decimal(str(span))
    return Money(
        currency=next(iter(book.currencies), "USD"),
        requests=book.requests,
        priced_requests=costs.requests,
        paid=known_amount_text(paid),
        paid_parts=_parts(costs.paid) if paid is not None else None,
        predicted=known_amount_text(costs.predicted.total) if priced and predicts else None,
        with_fixes=known_amount_text(best),
        fixed_hit_rate=None if fixed is None else total_rate(fixed.proof),
        with_marks=known_amount_text(cheaper.cost) if cheaper is not None and on_top else None,
        without_cache=known_amount_text(costs.without.total) if priced else None,
        logged=known_amount_text(book.logged) if book.logged_requests else None,
        days=None if span is None else span / _DAY,
        month=known_amount_text(month),
        per_1k_requests=known_amount_text(base * 1000 / costs.requests) if priced and not book.summed else None,
        by_group={name: _group(sides[book.told], told=book.told) for name, sides in book.groups.items()},
        by_cause=_causes(side, differs=False) if predicts else {},
        by_difference=_causes(side, differs=True) if predicts else {},
        settings=[] if fixed is None else [fix.what for fix in fixed.settings],
        marks=[] if cheaper is None else cheaper.marks,
        unpriced=dict(book.unpriced),
        notices=_notices(book),
        gpu=gpu,
    )


def _best(side: MoneySide, fixed: MarkTrial | None, marks: MarkTrial) -> tuple[Decimal, CheaperMarks | None]:
    """Return the cost by the rules with the kept fixes, and marks that cost less on top of them.

    Each is from a run; where no fix was kept, or the fixes need these marks, the first is the cost with them.
    """
    now = side.costs.predicted.total
    if fixed is not None and fixed.priced_requests == side.costs.requests:
        return fixed.least if fixed.needs_marks else fixed.cost, fixed.cheaper
    cheaper = marks.cheaper
    return now if cheaper is None else min(now, cheaper.cost), cheaper


def _group_read(side: MoneySide) -> GroupRead:
    return GroupRead(
        requests=side.reported.requests,
        prompt_tokens=side.reported.prompt,
        predicted_tokens=side.predicted.cached,
        reported_tokens=side.reported.cached,
        difference=dict(side.difference),
    )


def _group(side: MoneySide, *, told: bool) -> GroupMoney:
    costs = side.costs
    return GroupMoney(
        requests=costs.requests,
        paid=known_amount_text(costs.paid.total) if told else None,
        predicted=amount_text(costs.predicted.total),
        without_cache=amount_text(costs.without.total),
        reported_hit_rate=min(side.told.rate, 1.0) if told else None,
        predicted_hit_rate=min(side.predicted.rate, 1.0) if side.predicted.requests else None,
    )


def _causes(side: MoneySide, *, differs: bool) -> dict[str, CauseMoney]:
    """Return the causes of the difference, or those of the rules."""
    return {
        cause: CauseMoney(tokens=tokens, cost=amount_text(cost))
        for (cause, of_difference), (tokens, cost) in side.cost.items()
        if of_difference == differs
    }


def _notices(book: MoneyBook) -> list[str]:
    """Return notices on the prices: their age, missing ones, and the difference from the log's own costs."""
    told = []
    stale: Mapping[str, int] = {
        model: (book.last_day - row.checked).days
        for model, row in book.used.items()
        if row.checked is not None and book.last_day is not None and (book.last_day - row.checked).days > STALE_DAYS
    }
    for model, days in list(stale.items())[:_MOST_STALE]:
        told.append(
            f"Prices of {model} are {days} days old (checked on {book.used[model].checked}). Update them with --prices FILE."
        )
    told[:0] = book.daily.falls()
    told += unpriced_notice(book)
    if alone := [model for model, row in book.used.items() if not row.confirmed]:
        told.append(f"Only one source has the price of {_few(alone)}.")
    if book.summed:
        of = f" The rows sum {plural(book.summed_requests, 'request')}." if book.summed_requests else ""
        told.append(f"Each row of the usage export counts as one request here.{of}")
    told += book.not_stored
    if book.undated:
        told.append(f"{plural(book.undated, 'request')} without a date: priced with the latest prices.")
    if book.logged_requests:
        told.append(f"Cost in the log: {shown_money(book.logged)} for {plural(book.logged_requests, 'request')}.")
        if ours := book.logged_priced:
            off = (book.logged_compared - ours) / ours * 100
            told.append(
                f"The cost in the log of priced requests is {off:+.1f}% compared with {shown_money(ours)} here."
            )
        if (mistake := book.mistakes.found()) is not None:
            told.append(f"The cost in the log {mistake}.")
    return told


def _few(names: Iterable[str]) -> str:
    """Return some names, and the number of the others."""
    ordered = sorted(names)
    more = len(ordered) - _MOST_STALE
    return ", ".join(ordered[:_MOST_STALE]) + (f" and {more:,} more" if more > 0 else "")


def unpriced_notice(book: MoneyBook) -> list[str]:
    """Return which models, or longer cache writes of models, have no known price, with their requests."""
    told = []
    if book.unpriced:
        priced = book.requests - sum(book.unpriced.values())
        told.append(
            f"Priced {priced:,} of {plural(book.requests, 'request')}. No price is known for {_counted(book.unpriced)}."
        )
    if book.longer_writes:
        told.append(
            "Cache writes for longer than usual have no published price; they are priced as usual ones: "
            f"{_counted(book.longer_writes)}."
        )
    return told


def _counted(models: Counter[str]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in models.most_common(_MOST_STALE))


def _only_gpu(gpu: GpuMoney, requests: int) -> Money:
    return Money(
        currency="USD",
        requests=requests,
        priced_requests=0,
        paid=None,
        paid_parts=None,
        predicted=None,
        with_fixes=None,
        with_marks=None,
        without_cache=None,
        logged=None,
        days=None,
        month=None,
        per_1k_requests=None,
        by_group={},
        by_cause={},
        marks=[],
        unpriced={},
        gpu=gpu,
    )


def _parts(bill: Bill) -> MoneyParts:
    return MoneyParts(
        input=amount_text(bill.input),
        written=amount_text(bill.written),
        read=amount_text(bill.read),
        output=amount_text(bill.output),
        storage=amount_text(bill.storage),
    )
