"""The gain of one cache key: the run again with the same key in all requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kvtool.accounting.prices.bill import shown_money
from kvtool.diagnose.codes.run.kv302 import KV302
from kvtool.fixes.fix import Fix
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.results.finding import Finding
from kvtool.text.terminal.numbers import percent
from kvtool.workload.turn import Turn

_KEY = "run:one-cache-key"


def with_key_gain(
    findings: Sequence[Finding], result: RunResult, again: Callable[[Sequence[Fix]], RunResult]
) -> list[Finding]:
    """Return the findings, that of the split prefix with what one key gives; as they are if the run was interrupted."""
    if not any(found.code == KV302.code for found in findings):
        return list(findings)
    run = again([Fix(_KEY, KV302.code, "P0", None, "use one cache key", make=lambda: _with_one_key)])
    if run.partial:
        result.partial = True
        return list(findings)
    money, again_money = money_of(result), money_of(run)
    if money is None or again_money is None:
        return list(findings)
    before, after = (each.total[each.told] for each in (money, again_money))
    gain = f"a rerun then has a hit rate of {percent(after.predicted.rate)} instead of {percent(before.predicted.rate)}"
    update: dict[str, object] = {}
    if before.costs.requests and before.costs.requests == after.costs.requests:
        costs = [side.costs.predicted.total for side in (before, after)]
        shown = [shown_money(cost, next(iter(money.currencies), "USD")) for cost in costs]
        gain += f" and costs {shown[1]} instead of {shown[0]}"
        update = {"severity": "info"} if costs[1] >= costs[0] else {}
    return [
        found if found.code != KV302.code else found.model_copy(update={"fix": f"{found.fix}: {gain}", **update})
        for found in findings
    ]


def _with_one_key(turn: Turn) -> Turn:
    """Return the request with the same cache key as all others."""
    scope = turn.call.scope
    if scope.key is None:
        return turn
    salt = None if turn.salt == scope.key else turn.salt
    return replace(turn, salt=salt, call=replace(turn.call, scope=replace(scope, key="one")))
