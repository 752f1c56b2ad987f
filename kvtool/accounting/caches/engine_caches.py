"""Another engine's cache by its own rules, and beside it those with one limit after the other lifted."""

from __future__ import annotations

import numpy as np

from kvtool.accounting.caches.cache_rules import Outcome, traced_error
from kvtool.engine.rules.rule_set import Asked, EngineCache, RuleChoice
from kvtool.workload.jobs import Job


class EngineCaches:
    """Runs each request through the rules as chosen and, where fates are asked for, through the kinder ones."""

    def __init__(self, choice: RuleChoice, *, ladder: bool) -> None:
        self.choice = choice
        self._cache = choice.make()
        self._kinder: list[tuple[str, EngineCache]] = []
        if ladder:
            self._kinder = [(fate, kinder.make()) for fate, kinder in choice.rungs()]
        self._evicted = 0
        self._served: dict[int, tuple[int, tuple[tuple[str, int], ...]]] = {}

    @property
    def num_evictions(self) -> int:
        """Units that made room for others."""
        return self._evicted // self.choice.unit

    @property
    def num_filled(self) -> int:
        """Units that hold something."""
        return self._cache.num_tokens // self.choice.unit

    def admit(self, job: Job) -> None:
        """Run a request that is about to be executed; EngineError where it could never run."""
        if job.unit != 1:
            raise traced_error(self.choice.rules.engine)
        request = job.request
        answer = np.asarray(request.output_ids or [], dtype=np.int32)
        scope = None if request.cache_salt is None and request.lora is None else (request.cache_salt, request.lora)
        asked = Asked(job.ids, answer, scope, request.priority, job.turn.session)
        served = self._cache.serve(asked)
        self._evicted += served.evicted
        self._served[id(job)] = served.cached, tuple((fate, cache.serve(asked).cached) for fate, cache in self._kinder)

    def request(self, job: Job, now: float, reachable: int) -> Outcome:
        """What became of a request that was admitted."""
        del now
        cached, rungs = self._served.pop(id(job))
        return Outcome(cached, (*rungs, (self.choice.rules.rest, reachable)))
