"""Another engine's cache by its own rules, and beside it those with one limit after the other lifted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvtool.accounting.caches.cache_rules import Outcome, traced_error
from kvtool.engine.rules.rule_set import EngineCache, EngineQueue, RuleChoice, RuleRequest
from kvtool.workload.jobs import Job


def asked_of(job: Job) -> RuleRequest:
    """Return a request as the rules of engines take it."""
    request = job.request
    answer = np.asarray(request.output_ids or [], dtype=np.int32)
    scope = None if request.cache_salt is None and request.lora is None else (request.cache_salt, request.lora)
    return RuleRequest(job.ids, answer, scope, request.priority, job.turn.session)


class EngineCaches:
    """Run each request through the configured rules and, if fates are needed, through the relaxed ones."""

    def __init__(self, choice: RuleChoice, *, ladder: bool) -> None:
        self.choice = choice
        rungs = choice.rungs() if ladder else []
        self._queues: list[tuple[str, EngineQueue]] = []
        """The configured queue and the relaxed ones, for concurrent requests."""
        self._waiting: dict[int, RuleRequest] = {}
        self._relaxed: list[tuple[str, EngineCache]] = []
        self._cache: EngineCache | None = None
        """The configured cache, for requests one at a time."""
        if choice.together > 1:
            queues = [("", choice), *rungs]
            self._queues = [(fate, each.make_queue()) for fate, each in queues]
        else:
            self._cache = choice.make()
            self._relaxed = [(fate, relaxed.make()) for fate, relaxed in rungs]
        self._evicted = 0
        self._served: dict[int, tuple[int, tuple[tuple[str, int], ...]]] = {}

    @property
    def num_evictions(self) -> int:
        """Units that made room for others."""
        return self._evicted // self.choice.unit

    @property
    def num_filled(self) -> int:
        """Units with content."""
        cache = self._queues[0][1] if self._cache is None else self._cache
        return cache.num_tokens // self.choice.unit

    def admit(self, job: Job) -> None:
        """Run a request that is about to be executed; EngineError where it could never run."""
        if job.is_trace:
            raise traced_error(self.choice.rules.engine)
        asked = asked_of(job)
        if self._cache is None:
            self._queues[0][1].check(asked)
            self._waiting[id(job)] = asked
            return
        served = self._cache.serve(asked)
        self._evicted += served.evicted
        self._served[id(job)] = served.cached, tuple((fate, cache.serve(asked).cached) for fate, cache in self._relaxed)

    def run_together(self, jobs: Sequence[Job]) -> None:
        """Run requests that were admitted, which come at one moment."""
        together = [self._waiting.pop(id(job)) for job in jobs]
        hits = [(fate, queue.serve_together(together)) for fate, queue in self._queues]
        self._evicted = self._queues[0][1].num_evicted
        for at, job in enumerate(jobs):
            (_, own), *rungs = [(fate, cached[at]) for fate, cached in hits]
            self._served[id(job)] = own, tuple(rungs)

    def request(self, job: Job, now: float, reachable: int) -> Outcome:
        """Return the result of an admitted request."""
        del now
        cached, rungs = self._served.pop(id(job))
        return Outcome(cached, (*rungs, (self.choice.rest, reachable)))
