"""Fields of requests that decide which cache of a provider they reach, and for how long it keeps them: changes that can be run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvtool.diagnose.codes.run.kv305 import KV305
from kvtool.fixes.fix import Fix
from kvtool.profiler.run.run_result import RunResult
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


def retention_fix(name: str) -> Fix:
    """Return the fix that asks for a time of `prompt_cache_retention`, where the model offers it."""

    def retained(call: Call) -> Call:
        if name not in longer_retentions(call):
            return call
        return replace(call, settings=replace(call.settings, retention=name))

    return fix_of_calls(f"retention-{name}", KV305.code, f'set "prompt_cache_retention": "{name}"', retained)


def longer_retentions(call: Call) -> list[str]:
    """Return the names of times that a request's model offers and that are longer than the request's own."""
    from kvtool.accounting.caches.dated_rules import find_rule

    row = None if call.model is None else find_rule(call.model, call.provider, None)
    if row is None:
        return []
    own = row.rules.kept_for(call.settings)
    return [name for name, seconds in row.rules.retentions if own is not None and seconds > own]


def fix_of_calls(key: str, code: str, what: str, change: Callable[[Call], Call]) -> Fix:
    """Return a fix that changes what requests say beside their prompts."""

    def changed(turn: Turn) -> Turn:
        call = change(turn.call)
        return turn if call == turn.call else replace(turn, call=call)

    return Fix(f"run:{key}", code, "P0", None, what, make=lambda: changed)
