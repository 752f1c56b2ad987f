"""The cheapest request settings of a log of hosted models: cache keys, and times to live by name."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import combinations

from kvtool.accounting.prices.bill import shown_money
from kvtool.diagnose.codes.run.kv302 import KV302
from kvtool.fixes.fix import Fix
from kvtool.profiler.reported.cheapest_marks import MarkTrial, saves_enough
from kvtool.profiler.reported.one_key import Again, shared_keys
from kvtool.profiler.reported.request_settings import setting_fixes
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.results.finding import Finding
from kvtool.text.terminal.numbers import percent


def cheaper_settings(result: RunResult, again: Again, fixes: Sequence[Fix] = ()) -> tuple[list[Fix], RunResult]:
    """Return the settings that lower the cost of a run with `fixes`, and the run with them; a partial run ends the search.

    Each alone is tried, and all together: what one key shares is lost where it expires, and what expires has to be shared first.
    """
    return _cheaper_settings(result, again, fixes, shared_keys(result, again, fixes))


def with_key_gain(findings: Sequence[Finding], result: RunResult, again: Again) -> list[Finding]:
    """Return the findings, that of the split prefix with what shared keys give, and with a longer time to live where the keys save
    most with it; as they are if the run was interrupted. Keys that the cheapest settings leave as they are need no fix.
    """
    keyed = shared_keys(result, again) if any(found.code == KV302.code for found in findings) else None
    if keyed is None:
        return list(findings)
    fix, run = keyed
    kept, best = _cheaper_settings(result, again, (), keyed)
    if run.partial or best.partial:
        result.partial = True
        return list(findings)
    needs_keys = fix in kept
    run = best if needs_keys else run
    book, after = money_of(result), money_of(run)
    if book is None or after is None:
        return list(findings)
    rates = [percent(each.total[each.told].predicted.rate) for each in (after, book)]
    gain = f"a rerun then has a hit rate of {rates[0]} instead of {rates[1]}"
    costs = [cost_of(each) for each in (run, result, best)]
    update: dict[str, object] = {}
    if None not in costs:
        currency = next(iter(book.currencies), "USD")
        shown = [shown_money(cost, currency) for cost in costs if cost is not None]
        gain += f" and costs {shown[0]} instead of {shown[1]}"
        if not needs_keys:
            update = {"severity": "info"}
            gain += f"; the present keys cost {shown[2]} where you {kept[0].what}" if kept else ""
    what = ", and ".join(each.what for each in kept) if needs_keys else fix.what
    update |= {"fix": f"{what}: {gain}", "gain": gain}
    return [found.model_copy(update=update) if found.code == KV302.code else found for found in findings]


def _cheaper_settings(
    result: RunResult, again: Again, fixes: Sequence[Fix], keyed: tuple[Fix, RunResult] | None
) -> tuple[list[Fix], RunResult]:
    if keyed is not None and keyed[1].partial:
        return [], keyed[1]
    longer = setting_fixes(result) if keyed is not None or _may_expire(result) else []
    offered = longer if keyed is None else [keyed[0], *longer]
    kept: list[Fix] = []
    best = result
    for count in range(1, len(offered) + 1):
        for chosen in combinations(offered, count):
            known = keyed is not None and chosen == (keyed[0],)
            run = keyed[1] if keyed is not None and known else again([*fixes, *chosen])
            if run.partial:
                return kept, run
            before, after = cost_of(best), cost_of(run)
            if before is not None and after is not None and saves_enough(before, after):
                kept, best = list(chosen), run
    return kept, best


def settled_marks(trial: MarkTrial, again: Again, fixes: Sequence[Fix] = ()) -> MarkTrial:
    """Return the trial of marks on a run with `fixes`, or that with all request settings where its marks cost less: requests of
    several keys read nothing of each other wherever a mark is, and one key shares nothing that no mark ends.
    """
    hosted, known = trial.result.counts.hosted, {fix.key for fix in trial.settings}
    if hosted is None or not hosted.layouts:
        return trial
    more = [fix for fix in possible_settings(trial.result, again, fixes) if fix.key not in known]
    other = trial.after(more) if more else None
    if other is None or other.cheaper is None:
        trial.result.partial = trial.result.partial or (other is not None and other.result.partial)
        return trial
    other.settings = [*trial.settings, *more]
    least = trial.cost if trial.cheaper is None else trial.cheaper.cost
    return other if saves_enough(least, other.cheaper.cost) else trial


def possible_settings(result: RunResult, again: Again, fixes: Sequence[Fix] = ()) -> list[Fix]:
    """Return all settings that may lower the cost of a run with `fixes` once others are made. A partial run has none."""
    keyed = shared_keys(result, again, fixes)
    return [*([] if keyed is None else [keyed[0]]), *setting_fixes(result)]


def cost_of(run: RunResult) -> Decimal | None:
    """Return what all requests of a run cost by the rules; None where that of some is unknown."""
    book = money_of(run)
    if book is None or not book.known:
        return None
    costs = book.total[book.told].costs
    return costs.predicted.total if costs.requests else None


def _may_expire(result: RunResult) -> bool:
    """Return whether prefixes expire; true of a run that does not count why tokens are lost."""
    book = money_of(result)
    lost = None if book is None else book.total[book.told].lost
    return not lost or bool(lost["expired"])
