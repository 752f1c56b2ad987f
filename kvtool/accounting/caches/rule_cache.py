"""The cache that follows given rules, and what it says of each request between its lookup and its end."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.accounting.caches.cache_rules import CacheRules, Outcome, RuleCache
from kvtool.accounting.caches.provider_cache import ProviderCache
from kvtool.accounting.caches.replicas import ReplicaCaches, Router
from kvtool.engine.config import EngineConfig
from kvtool.errors import KvtoolError
from kvtool.workload.jobs import Job


class RuleRun:
    """Executes requests by `CacheRules` instead of by an engine."""

    def __init__(
        self, rules: CacheRules, engine: EngineConfig, *, seed: int, whole_prompt_may_hit: bool, fates: bool = True
    ) -> None:
        """Without `fates` nobody asks what kinder rules would have hit."""
        self.rules = rules
        self.cache: RuleCache
        if rules.engine is not None:
            from kvtool.accounting.caches.engine_caches import EngineCaches

            self.cache = EngineCaches(rules.engine, ladder=fates)
        elif rules.hosted:
            self.cache = ProviderCache(rules)
        else:
            self.cache = ReplicaCaches(
                rules,
                block_size=engine.block_size,
                capacity=None if engine.num_blocks is None else engine.num_blocks - 1,
                seed=seed,
                whole_prompt_may_hit=whole_prompt_may_hit,
            )
        self._caching = engine.enable_prefix_caching
        self._outcomes: dict[int, Outcome] = {}

    @property
    def hosted(self) -> ProviderCache | None:
        """The cache of a provider as requests left it; None for replicas of one's own."""
        return self.cache if isinstance(self.cache, ProviderCache) else None

    @property
    def router(self) -> Router | None:
        """What gives requests to replicas of one's own."""
        return self.cache.router if isinstance(self.cache, ReplicaCaches) else None

    def admit(self, job: Job) -> None:
        """Before a request is entered anywhere: EngineError where the engine would never run it."""
        if self.rules.engine is not None:
            from kvtool.accounting.caches.engine_caches import EngineCaches

            assert isinstance(self.cache, EngineCaches), "another engine's cache"
            self.cache.admit(job)

    @property
    def together(self) -> int:
        """Requests that come at one moment."""
        return 1 if self.rules.engine is None else self.rules.engine.together

    def run_together(self, jobs: Sequence[Job]) -> None:
        """Run requests that come at one moment, before they are executed one by one."""
        from kvtool.accounting.caches.engine_caches import EngineCaches

        assert isinstance(self.cache, EngineCaches), "another engine's cache"
        self.cache.run_together(jobs)

    def execute(self, job: Job, reachable: int) -> None:
        """Look the request up and take its answer as it was given; `reachable` is what one unlimited cache would hit."""
        if self.rules.hosted and job.unit != 1:
            raise KvtoolError(
                "the rules of a provider count tokens; a trace of block hashes has none",
                hint="leave --provider out, or give a log with text",
            )
        outcome = Outcome(0, ())
        if self._caching:
            outcome = self.cache.request(job, job.request.arrival, reachable)
            if isinstance(self.cache, ReplicaCaches) and job.request.skip_reading_cache:  # it only writes
                outcome = Outcome(0, ())
        self._outcomes[id(job)] = outcome
        job.request.num_cached_tokens = outcome.hit
        job.request.outputs = list(job.request.output_ids or [])

    def outcome(self, job: Job) -> Outcome:
        """Of a request that was executed, with its hits under kinder rules; asked for once."""
        return self._outcomes.pop(id(job))

    def predicts(self, job: Job) -> bool:
        """Whether there are rules for a request that is about to be executed."""
        return (
            not isinstance(self.cache, ProviderCache) or self.cache.rules_for(job, job.turn.arrival or 0.0) is not None
        )
