"""The cheapest request settings of a log of hosted models: cache keys, and times to live by name."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.accounting.prices.bill import shown_money
from kvtool.diagnose.codes.run.kv302 import KV302
from kvtool.fixes.fix import Fix
from kvtool.profiler.reported.cheapest_marks import MarkTrial
from kvtool.profiler.reported.one_key import Again, shared_keys
from kvtool.profiler.reported.request_settings import setting_fixes
from kvtool.profiler.run.run_result import RunResult, money_of
from kvtool.results.finding import Finding
from kvtool.text.terminal.numbers import percent


def with_key_gain(findings: Sequence[Finding], result: RunResult, again: Again) -> list[Finding]:
    """Return the findings, that of the split prefix with what shared keys give, and with a longer time to live where the keys save
    most with it; as they are if the run was interrupted. Keys that the cheapest settings leave as they are need no fix.
    """
    keyed = shared_keys(result, again) if any(found.code == KV302.code for found in findings) else None
    if keyed is None:
        return list(findings)
    fix, run = keyed
    trial = None if run.partial else MarkTrial.of(result, again, marks=False)
    best = trial if trial is None else trial.cheapest_with([[each] for each in (fix, *setting_fixes(result))])
    result.partial = result.partial or run.partial
    kept = [] if best is None else best.added
    needs_keys = fix in kept
    run = best.result if best is not None and needs_keys else run
    book, after = money_of(result), money_of(run)
    if result.partial or book is None or after is None:
        return list(findings)
    rates = [percent(each.total[each.told].predicted.rate) for each in (after, book)]
    gain = f"a rerun then has a hit rate of {rates[0]} instead of {rates[1]}"
    update: dict[str, object] = {}
    if best is not None:
        currency = next(iter(book.currencies), "USD")
        costs = [each.total[each.told].costs.predicted.total for each in (after, book)]
        shown = [shown_money(cost, currency) for cost in (*costs, best.cost)]
        gain += f" and costs {shown[0]} instead of {shown[1]}"
        if not needs_keys:
            update = {"severity": "info"}
            gain += f"; the present keys cost {shown[2]} where you {kept[0].what}" if kept else ""
    what = ", and ".join(each.what for each in kept) if needs_keys else fix.what
    update |= {"fix": f"{what}: {gain}", "gain": gain}
    return [found.model_copy(update=update) if found.code == KV302.code else found for found in findings]


def cheapest_trial(trial: MarkTrial, idle: Sequence[Sequence[Fix]] = ()) -> MarkTrial:
    """Return the trial with what lowers the cost most: request settings, fixes that win nothing alone, and marks, all together.

    `idle` has the fixes of each cause, of which one is made.
    """
    if trial.again is None:
        return trial
    settings = possible_settings(trial.result, trial.again, trial.fixes)
    return trial.cheapest_with([*([each] for each in settings), *idle])


def possible_settings(result: RunResult, again: Again, fixes: Sequence[Fix] = ()) -> list[Fix]:
    """Return all settings that may lower the cost of a run with `fixes` once others are made. A partial run has none."""
    keyed = shared_keys(result, again, fixes)
    return [*([] if keyed is None else [keyed[0]]), *setting_fixes(result)]
