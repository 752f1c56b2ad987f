"""Fields of requests that decide which cache of a provider they reach, and for how long it keeps them: changes that can be run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kvtool.diagnose.codes.run.kv305 import KV305
from kvtool.fixes.fix import Fix
from kvtool.profiler.reported.cheapest_marks import saves_enough
from kvtool.profiler.reported.one_key import Again, shared_keys
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.workload.call import Call
from kvtool.workload.turn import Turn

_LONGEST = "24h"


def setting_fixes(result: RunResult) -> list[Fix]:
    """Return what could win back prefixes that expired in a run by providers' rules."""
    hosted = result.counts.hosted
    if hosted is None or not hosted.rules.dated:
        return []
    offered = any(_LONGEST in dict(scope.rules.retentions) for scope in hosted.trees.values())
    return [retention_fix(_LONGEST)] if offered else []


def cheaper_settings(result: RunResult, again: Again, fixes: Sequence[Fix] = ()) -> tuple[list[Fix], RunResult]:
    """Return the settings that lower the cost of a run with `fixes`, and the run with them: fewer cache keys, then a longer time to
    live where prefixes expire. A partial run ends the search.
    """
    kept: list[Fix] = []
    best = result
    tries: list[Callable[[], tuple[Fix, RunResult] | None]] = [partial(shared_keys, result, again, fixes)]
    tries += [partial(_tried, fix, again, fixes, kept) for fix in setting_fixes(result) if _may_expire(result)]
    for tried in tries:
        found = tried()
        if found is None:
            continue
        fix, run = found
        if run.partial:
            return kept, run
        before, after = (
            None if book is None else book.total[book.told].costs for book in (money_of(best), money_of(run))
        )
        if before is None or after is None or before.requests != after.requests or not before.requests:
            continue
        if saves_enough(before.predicted.total, after.predicted.total):
            kept.append(fix)
            best = run
    return kept, best


def _tried(fix: Fix, again: Again, fixes: Sequence[Fix], kept: Sequence[Fix]) -> tuple[Fix, RunResult]:
    return fix, again([*fixes, *kept, fix])


def _may_expire(result: RunResult) -> bool:
    """Return whether prefixes expire; true of a run that does not count why tokens are lost."""
    book = money_of(result)
    lost = None if book is None else book.total[book.told].lost
    return not lost or bool(lost["expired"])


def retention_fix(name: str) -> Fix:
    """Return the fix that asks for a time of `prompt_cache_retention`, where the model offers it."""

    def retained(call: Call) -> Call:
        if name not in offered_retentions(call) or call.settings.retention == name:
            return call
        return replace(call, settings=replace(call.settings, retention=name))

    return fix_of_calls(f"retention-{name}", KV305.code, f'set "prompt_cache_retention": "{name}"', retained)


def offered_retentions(call: Call) -> list[str]:
    """Return the times that a request's model offers by name."""
    from kvtool.accounting.caches.dated_rules import find_rule

    row = None if call.model is None else find_rule(call.model, call.provider, None)
    return [] if row is None else [name for name, _ in row.rules.retentions]


def fix_of_calls(key: str, code: str, what: str, change: Callable[[Call], Call]) -> Fix:
    """Return a fix that changes what requests say beside their prompts."""

    def changed(turn: Turn) -> Turn:
        call = change(turn.call)
        return turn if call == turn.call else replace(turn, call=call)

    return Fix(f"run:{key}", code, "P0", None, what, make=lambda: changed)
