"""Sticky routing needs to know what a request belongs to: what is said, or refused, where that is not known."""

from __future__ import annotations

from kvtool.accounting.plan import Plan
from kvtool.errors import KvtoolError
from kvtool.profiler.run.run import PassResult
from kvtool.text.terminal.numbers import plural


def sticky_told(result: PassResult, plan: Plan, path: str) -> list[str]:
    """How many requests could not stay anywhere; KvtoolError where that is all of them."""
    if plan.cache is None or plan.cache.replicas == 1 or plan.cache.routing != "sticky" or not result.keyless:
        return []
    if result.keyless == result.routed and not result.partial:
        raise KvtoolError(
            f"{path}: sticky routing needs sessions or tenants, and none of {plural(result.routed, 'request')} names one",
            hint="name them: --map session=FIELD or --tenant FIELD of a log, `sessions` of a workload; or --routing prefix-aware",
        )
    without = f"{result.keyless:,} of {plural(result.routed, 'request')} name no session and no tenant"
    return [f"{without}: sticky routing gave them to replicas in turn"]
