"""The gates of `kvtool profile`: what flags, the workload file and a baseline demand of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.config.options.judged_options import DEFAULT_DROP, Limits
from kvtool.errors import KvtoolError
from kvtool.gate.collect import flag_demands, workload_demands
from kvtool.gate.demand import held
from kvtool.gate.evaluate import evaluate
from kvtool.gate.facts import facts_of
from kvtool.gate.flag_values import parsed_flag
from kvtool.results.verdict_of import judged, limits_that_cannot_fail
from kvtool.text.quantities import parse_limit

if TYPE_CHECKING:
    from kvtool.gate.baseline import Baseline
    from kvtool.profiler.opening import Opened
    from kvtool.results.report import Report


def chosen_baseline(limits: Limits) -> tuple[Baseline | None, float]:
    """Return the baseline to compare with, and how far hit rates may fall below it; KvtoolError, before any work, for a bad one."""
    drop = parsed_flag(parse_limit, limits.max_drop, "--max-drop")
    if limits.baseline is None:
        if drop is not None:
            raise KvtoolError("--max-drop needs a baseline", hint="add --baseline FILE")
        return None, DEFAULT_DROP
    from kvtool.gate.baseline import load_baseline

    baseline = load_baseline(limits.baseline)
    if baseline is None:
        raise KvtoolError(
            f"there is no baseline {limits.baseline}", hint="write one with kvtool check --update-baseline"
        )
    return baseline, DEFAULT_DROP if drop is None else drop


def judge(report: Report, opened: Opened, limits: Limits, baseline: Baseline | None, max_drop: float) -> Report:
    """Return the report of a run with the checks and notices of all that is demanded of it."""
    options = opened.options
    asked = [*flag_demands(options.inputs[0], min_hit_rate=limits.min_hit_rate), *workload_demands(opened.source)]
    path, named = options.inputs[0], opened.group_names or ()
    facts = facts_of(report, opened.name, path=path, limit=options.reading.requests, groups=named)
    gates = evaluate(facts, held(asked))
    if baseline is None or limits.baseline is None:
        return judged(report, gates, limits_that_cannot_fail(gates, [report]))
    from kvtool.gate.comparing import compare
    from kvtool.gate.recording import entry_of

    path = limits.baseline
    name, now = entry_of(facts, options.inputs, report.config, path, groups=options.reading.groups)
    found = compare(facts, now, baseline.workloads.get(name), path=path, max_drop=max_drop)
    notices = [*([found.problem] if found.problem else []), *found.notices, *limits_that_cannot_fail(gates, [report])]
    return judged(report, [*gates, *found.checks], notices)
