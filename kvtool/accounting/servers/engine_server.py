"""The embedded engine, step by step on a virtual clock: requests run together, or as they arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.alone_server import engine_counts, served_by_engine
from kvtool.accounting.servers.server import ByNumber, Requests, RunCounts, ServerTraits
from kvtool.engine.blocks.chain_numbers import ChainNumbers
from kvtool.engine.clock import VirtualClock
from kvtool.engine.engine import Engine
from kvtool.engine.events import Event
from kvtool.engine.step import Runner
from kvtool.workload.drive import Arrivals, first_turns, side_by_side
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Conversation


class EngineServer:
    """Feed the engine with conversations as they arrive, and record each request's waiting time."""

    traits = ServerTraits(follows_engine=True, has_clock=True)
    by_number: ByNumber | None = None

    def __init__(self, plan: Plan, runner: Runner, *, record_events: bool, numbers: ChainNumbers | None) -> None:
        self._plan = plan
        clock = VirtualClock(plan.latency)
        self._engine = Engine(plan.engine, runner, clock, record_events=record_events, numbers=numbers)

    def admit(self, job: Job) -> None:
        """Raise EngineError for a request that would never run."""
        self._engine.scheduler.check_fits(job.request)

    def predicts(self, job: Job) -> bool:
        """Return True: there are rules for each request."""
        del job
        return True

    def drive(self, conversations: Iterator[Conversation], requests: Requests) -> None:
        """Take requests as they arrive, at most `concurrency` at once."""
        plan = self._plan

        def end(job: Job) -> None:
            request = job.request
            waited = None if request.first_token_at is None else request.first_token_at - request.arrival
            requests.end(job, served_by_engine(plan, max(request.num_cached_tokens, 0), waited=waited))

        Arrivals(
            first_turns(side_by_side(conversations), plan.limit),
            requests.begin,
            end,
            concurrency=plan.concurrency,
            use_arrivals=plan.use_arrivals,
            first_alone=plan.first_alone,
        ).run(self._engine)

    def take_events(self) -> Sequence[Event]:
        """Return the recorded events of the cache since the last call."""
        return self._engine.cache.take_events()

    def counts(self) -> RunCounts:
        """Return the counts so far."""
        return engine_counts(self._engine.scheduler, self._engine.cache)
