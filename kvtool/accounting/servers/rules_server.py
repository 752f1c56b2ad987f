"""Caches by other rules than the embedded engine's: replicas, a time to live, a provider, another engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kvtool.accounting.caches.cache_rules import CacheRules, Outcome, RuleCache
from kvtool.accounting.caches.provider_cache import ProviderCache
from kvtool.accounting.caches.replicas import ReplicaCaches
from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.server import (
    Admit,
    ByNumber,
    Requests,
    RunCounts,
    ServedRequest,
    ServerTraits,
    one_by_one,
)
from kvtool.engine.events import Event
from kvtool.errors import KvtoolError
from kvtool.workload.drive import first_turns, in_order_of_arrival, in_waves, side_by_side
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Conversation

if TYPE_CHECKING:
    from kvtool.accounting.caches.engine_caches import EngineCaches
    from kvtool.accounting.ledger.ledger import LedgerEntry


class RulesServer:
    """Take requests by `CacheRules`."""

    by_number: ByNumber | None = None

    def __init__(
        self, plan: Plan, rules: CacheRules, admit: Admit, *, whole_prompt_may_hit: bool, ladder: bool, lays_out: int
    ) -> None:
        """Create the server. `admit` refuses requests that the rules' engine would never run. Without `ladder` relaxed rules are
        not needed. `lays_out`: other marks of the same requests will be priced, chosen by so many of each scope."""
        self._plan = plan
        self._rules = rules
        self._engines: EngineCaches | None = None
        self._cache: RuleCache
        self.admit = admit
        other = rules.engine.rules if rules.engine is not None else None
        self.traits = ServerTraits(
            whole_prompt_may_hit=whole_prompt_may_hit,
            salted=other is None or other.scopes,
            moves=other is not None and other.moves,
            hosted=rules.hosted,
        )
        if rules.engine is not None:
            from kvtool.accounting.caches.engine_caches import EngineCaches

            self._cache = self._engines = EngineCaches(rules.engine, ladder=ladder)
            self.admit = self._engines.admit
        elif rules.hosted:
            self._cache = ProviderCache(rules, lays_out=lays_out)
        else:
            self._cache = ReplicaCaches(
                rules,
                block_size=plan.engine.block_size,
                capacity=None if plan.engine.num_blocks is None else plan.engine.num_blocks - 1,
                seed=plan.seed,
                whole_prompt_may_hit=whole_prompt_may_hit,
            )

    def predicts(self, job: Job) -> bool:
        """Return whether there are rules for a request that is about to be served."""
        cache = self._cache
        return not isinstance(cache, ProviderCache) or cache.rules_for(job, job.turn.arrival or 0.0) is not None

    def drive(self, conversations: Iterator[Conversation], requests: Requests) -> None:
        """Serve requests as they arrive, as many at one moment as the rules set, else in the order of the workload."""
        limit = self._plan.limit
        if self._plan.use_arrivals:
            self._by_arrival(first_turns(side_by_side(conversations), limit), requests)
        elif self._engines is not None and self._rules.engine is not None and self._rules.engine.together > 1:
            self._in_waves(self._engines, first_turns(side_by_side(conversations), limit), requests)
        else:
            one_by_one(self, first_turns(conversations, limit), requests)

    def serve(self, job: Job, entry: LedgerEntry | None) -> ServedRequest:
        """Look a request up and use its given answer."""
        if self._rules.hosted and job.is_trace:
            raise KvtoolError(
                "--provider counts tokens, but a trace of block hashes has none",
                hint="remove --provider, or pass a log with text",
            )
        outcome = Outcome(0, ())
        if self._plan.engine.enable_prefix_caching:
            outcome = self._cache.request(job, job.request.arrival, 0 if entry is None else entry.reachable)
            if isinstance(self._cache, ReplicaCaches) and job.request.skip_reading_cache:  # it only writes
                outcome = Outcome(0, ())
        job.request.num_cached_tokens = outcome.hit
        job.request.outputs = list(job.request.output_ids or [])
        return ServedRequest(outcome.hit, outcome.rungs, prediction=outcome.prediction)

    def _by_arrival(self, conversations: Iterator[Conversation], requests: Requests) -> None:
        done: list[ServedRequest] = []
        in_order_of_arrival(
            conversations,
            requests.begin,
            lambda job: done.append(self.serve(job, requests.entry(job))),
            lambda job: requests.end(job, done.pop()),
            seconds=self._seconds,
            required=self._rules.ttl is not None,
            lateness=requests.lateness,
        )

    def _in_waves(self, engines: EngineCaches, conversations: Iterator[Conversation], requests: Requests) -> None:
        assert self._rules.engine is not None
        done: dict[int, ServedRequest] = {}

        def serve_together(jobs: Sequence[Job]) -> None:
            engines.run_together(jobs)
            for job in jobs:
                done[id(job)] = self.serve(job, requests.entry(job))

        in_waves(
            conversations,
            self._rules.engine.together,
            requests.begin,
            serve_together,
            lambda job: requests.end(job, done.pop(id(job))),
            first_alone=self._plan.first_alone > 0,
        )

    def _seconds(self, job: Job) -> float:
        """Return the time of a request alone, by the latency model: the next turn of its conversation comes no sooner."""
        request, latency = job.request, self._plan.latency
        count = request.num_prompt_tokens
        cached = min(request.num_cached_tokens, count - 1)
        prefill = latency.prefill_seconds(count, cached, self._plan.engine.max_num_batched_tokens)
        return prefill + max(request.max_tokens - 1, 0) * latency.step_seconds([(count, 1)])

    def take_events(self) -> Sequence[Event]:
        """Give nothing: rules record no events."""
        return ()

    def counts(self) -> RunCounts:
        """Return the counts so far."""
        cache = self._cache
        router = cache.router if isinstance(cache, ReplicaCaches) else None
        return RunCounts(
            evictions=cache.num_evictions,
            filled_blocks=cache.num_filled,
            routed=0 if router is None else router.routed,
            keyless=0 if router is None else router.keyless,
            hosted=cache if isinstance(cache, ProviderCache) else None,
        )
