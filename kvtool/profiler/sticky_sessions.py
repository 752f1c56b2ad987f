"""Check sticky routing, which needs requests' sessions: report or refuse requests without one."""

from __future__ import annotations

from kvtool.accounting.plan import Plan
from kvtool.errors import KvtoolError
from kvtool.profiler.run.run_result import RunResult
from kvtool.text.terminal.numbers import plural


def note_sessionless_requests(result: RunResult, plan: Plan, path: str) -> list[str]:
    """Return a note on the number of requests without a session; KvtoolError if that is all of them."""
    counts = result.counts
    if plan.cache is None or plan.cache.replicas == 1 or plan.cache.routing != "sticky" or not counts.keyless:
        return []
    if counts.keyless == counts.routed and not result.partial:
        raise KvtoolError(
            f"{path}: sticky routing needs sessions or tenants, and no request has one",
            hint="set them: --map session=FIELD or --tenant FIELD of a log, `sessions` of a workload; or --routing prefix-aware",
        )
    without = f"{counts.keyless:,} of {plural(counts.routed, 'request')} have no session and no tenant"
    return [f"{without}: sticky routing sent them to replicas in turn"]
