"""The price of isolation: the run again with a salt for each tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from kvtool.accounting.ledger.totals import TokenTotals
from kvtool.accounting.observable import ObservableBook, by_pair
from kvtool.accounting.quantiles import quantiles
from kvtool.diagnose.findings import Locate
from kvtool.fixes.fix import Fix
from kvtool.profiler.run.run_books import TimeBook
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.results.isolation import Isolation, ObservedLine, ObservedPair
from kvtool.results.money import known_amount_text
from kvtool.workload.turn import Turn

_MOST = 20
"""Pairs and lines in a report; the table stays readable."""
_KEY = "run:isolate-tenants"


def isolation_of(result: RunResult, again: Callable[[Sequence[Fix]], RunResult], *, locate: Locate) -> Isolation | None:
    """Return the costs for a run with several tenants; None if the run was interrupted."""
    book = result.book(ObservableBook)
    apart = again([Fix(_KEY, "", "P0", None, "give each tenant a salt", make=lambda: _salted)])
    if apart.partial:
        result.partial = True
        return None
    observed = book.observed()
    tokens = sum(one.tokens for one in observed)
    lines: Counter[tuple[str, int]] = Counter()
    for one in observed:
        if one.origin is not None:
            lines[one.origin.path, locate(one.origin, one.offset)[0]] += one.tokens
    shared, isolated = (TokenTotals.of(list(run.ledger.totals())).hit_tokens for run in (result, apart))
    pairs = by_pair(observed).most_common(_MOST)
    cost = None
    money, apart_money = money_of(result), money_of(apart)
    if money is not None and apart_money is not None:
        before, after = (each.total[each.told].costs for each in (money, apart_money))
        if before.requests and before.requests == after.requests:
            cost = after.predicted.total - before.predicted.total
    median = quantiles(result.book(TimeBook).on)
    later = quantiles(apart.book(TimeBook).on)
    return Isolation(
        tenants=len(book.tenants),
        observable_tokens=tokens,
        pairs=[ObservedPair(owner=pair[0], reader=pair[1], tokens=count) for pair, count in pairs],
        lines=[ObservedLine(path=path, line=line, tokens=count) for (path, line), count in lines.most_common(_MOST)],
        shared_hit_tokens=shared,
        isolated_hit_tokens=isolated,
        behind_public_hit_tokens=min(max(shared - tokens, isolated), shared) if isolated <= shared else isolated,
        lost_tokens=shared - isolated,
        predicted_ttft=None if median is None else median.p50,
        isolated_ttft=None if later is None else later.p50,
        cost=known_amount_text(cost),
    )


def _salted(turn: Turn) -> Turn:
    """Return the request with its tenant as a part of its salt."""
    tenant = turn.call.tenant
    if tenant is None:
        return turn
    mark = f"\x1etenant {tenant}"
    if (turn.salt or "").endswith(mark):
        return turn
    return replace(turn, salt=f"{turn.salt or ''}{mark}")
