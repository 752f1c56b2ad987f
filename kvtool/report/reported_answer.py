"""The answer for a log with reported usage: what was reported first, then what was cached and not read, and what to change."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal

from kvtool.accounting.misses.advised_change import UNMENDABLE, WORTH, is_noticeable, keeps_no_answers
from kvtool.accounting.prices.bill import shown_money
from kvtool.report.views.facts import too_short
from kvtool.report.views.misses import causes_in_short
from kvtool.results.misses import CacheMisses, MissCause
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import percent, plural


def reported_rate(report: Report, misses: CacheMisses) -> str:
    """Say the reported hit rate, what was paid, and what caching saved."""
    rate = percent(min(misses.read / max(misses.prompt_tokens, 1), 1.0))
    text = f"{rate} reported ({misses.read:,} of {misses.prompt_tokens:,} prompt tokens){too_short(report)}"
    if misses.counted_twice:
        text += f"; the log counts cached tokens twice in {plural(misses.counted_twice, 'request')}, kvtool once"
    money = report.money
    if money is not None and money.paid is not None:
        paid = Decimal(money.paid)
        text += f"; paid {shown_money(paid, money.currency)}"
        if money.priced_requests < misses.requests:
            text += f" for {money.priced_requests:,} of {plural(misses.requests, 'request')}"
        saved = Decimal(0) if money.without_cache is None else Decimal(money.without_cache) - paid
        if saved > 0:
            text += f", {shown_money(saved, money.currency)} saved by caching"
        elif saved < 0:
            text += f", {shown_money(-saved, money.currency)} more than without caching"
    return text


def reported_loss(report: Report, misses: CacheMisses, mended: Collection[MissCause] = ()) -> str:
    """Say which cached tokens were not read, by cause; or that there were none. The next step mends one of `mended`."""
    if not is_noticeable(misses):
        return ""
    missed = misses.promised - misses.read
    costs = [Decimal(total.cost) for total in misses.by_cause.values() if total.cost is not None]
    currency = "USD" if report.money is None else report.money.currency
    cost = f", {shown_money(sum(costs, Decimal(0)), currency)}" if costs else ""
    return (
        f"{plural(missed, 'token')} repeat an earlier prompt but were not read{cost}: {causes_in_short(report, mended)}"
    )


def verdict_of_healthy(report: Report, misses: CacheMisses) -> str:
    """Say that nothing is to be changed: reports and rules agree, and every cause is one that no request can mend.

    Empty where anything is known to cost less, a finding is open, or the log does not show enough for the verdict.
    """
    agreement, money = misses.calibration, report.money
    known = misses.predictable and agreement.requests and not misses.unjudged
    mended = [] if money is None else [money.with_fixes, money.with_marks]
    cheaper = money is not None and any(
        each is not None and Decimal(each) < Decimal(money.paid or 0) * (1 - WORTH) for each in mended
    )
    open_findings = any(finding.severity != "info" for finding in report.findings)
    broken = report.steps is not None and report.steps.broken
    if not known or cheaper or open_findings or broken or not UNMENDABLE.issuperset(misses.by_cause):
        return ""
    if not agreement.advises:
        return "Nothing to change in the requests: the cache does not keep answers" if keeps_no_answers(misses) else ""
    return "Nothing to change: reports and rules agree, and no request loses text that it can reuse"
