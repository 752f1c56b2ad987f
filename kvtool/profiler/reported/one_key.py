"""As few cache keys as a provider's limit of requests a minute allows, in place of those of the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xxhash import xxh64_intdigest

from kvtool.accounting.caches.scopes import count_keys
from kvtool.accounting.prices.bill import shown_money
from kvtool.accounting.prices.money_book import MoneyBook
from kvtool.diagnose.codes.run.kv302 import KV302
from kvtool.fixes.fix import Fix
from kvtool.profiler.reported.request_settings import setting_fixes
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.results.finding import Finding
from kvtool.text.terminal.numbers import percent
from kvtool.workload.turn import Turn

Again = Callable[[Sequence[Fix]], RunResult]


def with_key_gain(findings: Sequence[Finding], result: RunResult, again: Again) -> list[Finding]:
    """Return the findings, that of the split prefix with what shared keys give; as they are if the run was interrupted."""
    if not any(found.code == KV302.code for found in findings):
        return list(findings)
    fewer = shared_keys(result, again)
    if fewer is None:
        return list(findings)
    fix, run = fewer
    money, what = money_of(result), fix.what
    for longer in setting_fixes(result):
        if run.partial or _saves(money, money_of(run)):
            break
        both = again([fix, longer])
        if both.partial or _saves(money, money_of(both)):
            run, what = both, f"{fix.what}, and {longer.what}"
    if run.partial:
        result.partial = True
        return list(findings)
    again_money = money_of(run)
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
        found
        if found.code != KV302.code
        else found.model_copy(update={"fix": f"{what}: {gain}", "gain": gain, **update})
        for found in findings
    ]


def _saves(before: MoneyBook | None, after: MoneyBook | None) -> bool:
    """Return whether the same requests cost less after a change."""
    if before is None or after is None:
        return False
    costs = [book.total[before.told].costs for book in (before, after)]
    return costs[0].requests == costs[1].requests and costs[1].predicted.total < costs[0].predicted.total


def shared_keys(result: RunResult, again: Again, fixes: Sequence[Fix] = ()) -> tuple[Fix, RunResult] | None:
    """Return the fix that sends one cache key, or as many as requests a minute with one prefix need, and its run on top of those of
    `result`; None where that are no fewer."""
    keys = 0 if result.counts.hosted is None else count_keys(result.counts.hosted.trees)
    if keys < 2:
        return None
    fix = keys_fix(1)
    run = again([*fixes, fix])
    book, hosted = money_of(run), run.counts.hosted
    limits = [] if hosted is None else [each.rules.most_a_minute for each in hosted.trees.values()]
    limit = min(filter(None, limits), default=0)
    if book is not None and limit and book.most_a_minute > limit:
        count = -(-book.most_a_minute // limit)
        fix = keys_fix(count)
        run = again([*fixes, fix]) if count < keys else run
        return (fix, run) if count < keys else None
    return fix, run


def keys_fix(count: int) -> Fix:
    """Return the fix that sends so many cache keys, requests of one key with the same one again."""
    what = "use one cache key (prompt_cache_key) for all requests that share a prefix"
    if count > 1:
        what = f"use {count} cache keys (prompt_cache_key), each session always the same one"

    def keyed(turn: Turn) -> Turn:
        scope = turn.call.scope
        if scope.key is None:
            return turn
        salt = None if turn.salt == scope.key else turn.salt
        number = xxh64_intdigest(scope.key.encode(errors="replace")) % count + 1
        key = f"shared-{number}" if count > 1 else "shared"
        return replace(turn, salt=salt, call=replace(turn.call, scope=replace(scope, key=key)))

    return Fix(f"run:cache-keys-{count}", KV302.code, "P0", None, what, make=lambda: keyed)
