"""The cheapest request settings of a log of hosted models: cache keys, and times to live by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kvtool.fixes.fix import Fix
from kvtool.profiler.reported.cheapest_marks import saves_enough
from kvtool.profiler.reported.one_key import Again, shared_keys
from kvtool.profiler.reported.request_settings import setting_fixes
from kvtool.profiler.run.run_result import RunResult, money_of


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
