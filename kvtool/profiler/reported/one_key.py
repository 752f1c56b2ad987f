"""As few cache keys as a provider's limit of requests a minute allows, in place of those of the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xxhash import xxh64_intdigest

from kvtool.accounting.caches.scopes import count_keys
from kvtool.diagnose.codes.run.kv302 import KV302
from kvtool.fixes.fix import Fix
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.workload.turn import Turn

Again = Callable[[Sequence[Fix]], RunResult]


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
