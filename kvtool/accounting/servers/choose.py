"""The server of a run: the one place that reads by which rules, and how many at a time, requests are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.accounting.caches.unlimited import UnlimitedCache
from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.alone_server import AloneServer
from kvtool.accounting.servers.server import Server
from kvtool.engine.blocks.chain_numbers import TraceNumbers
from kvtool.engine.step import Runner
from kvtool.workload.jobs import Job

if TYPE_CHECKING:
    from kvtool.accounting.servers.pool_server import PoolServer


def choose_server(
    plan: Plan,
    runner: Runner,
    *,
    numbers: TraceNumbers | None,
    record_events: bool,
    ladder: bool,
    lays_out: int = 0,
) -> Server:
    """Make the server of a run. `runner` computes concurrent requests, `numbers` are for the blocks of a trace.

    `ladder`: the fates of tokens are needed, so relaxed rules give the cost of each limit. `lays_out`: other marks of the same
    requests will be priced, chosen by so many of each scope.
    """
    if plan.cache is not None:
        from kvtool.accounting.servers.rules_server import RulesServer

        trace_study = plan.rules == "block-lru"
        admit = AloneServer(plan).admit if plan.rules == "vllm" else _admit_all
        return RulesServer(plan, plan.cache, admit, whole_prompt_may_hit=trace_study, ladder=ladder, lays_out=lays_out)
    if plan.rules == "block-lru":
        from kvtool.accounting.servers.lru_server import LruServer

        return LruServer(plan, by_number=numbers is not None and not record_events and plan.one_at_a_time)
    if not plan.one_at_a_time:
        from kvtool.accounting.servers.engine_server import EngineServer

        tenants = None if numbers is None else numbers.tenants
        return EngineServer(plan, runner, record_events=record_events, numbers=tenants)
    if record_events:
        return AloneServer(plan, record_events=True, ladder=ladder)
    engine: AloneServer | PoolServer
    if numbers is not None:
        from kvtool.accounting.servers.pool_server import PoolServer

        engine = PoolServer(plan, numbers)
    else:
        engine = AloneServer(plan, ladder=ladder)
    if UnlimitedCache.can_replace(plan.engine):
        from kvtool.accounting.servers.unlimited_server import UnlimitedServer

        return UnlimitedServer(plan, engine)
    return engine


def _admit_all(job: Job) -> None:
    """Take any request: trace studies know no limit that it could exceed."""
