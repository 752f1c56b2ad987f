"""Kinder engines beside the configured one, where requests run one after the other: each takes every request, too."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.accounting.caches.relaxed_configs import relax_configs
from kvtool.engine.blocks.make_cache import make_cache
from kvtool.engine.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account
from kvtool.workload.jobs import Job

Rungs = list[tuple[str, int]]


class RelaxedEngines:
    """Run each request, one at a time, in the relaxed engines, too."""

    def __init__(self, config: EngineConfig) -> None:
        self._block = 1 if config.plan is None else config.plan.hit_alignment
        self._engines = [(fate, Scheduler(kind, make_cache(kind))) for fate, kind in relax_configs(config)]
        self._hits: dict[int, Rungs] = {}
        self._last: dict[tuple[str, str], int] = {}
        """Tokens of the prompt that a session sent last."""

    def execute(self, job: Job) -> None:
        """Take a request that the configured engine ran through all others."""
        rungs: Rungs = []
        for fate, scheduler in self._engines:
            request = _again(job.request)
            account(scheduler, request)
            rungs.append((fate, max(request.num_cached_tokens, 0)))
        self._hits[id(job)] = rungs

    def rungs(self, job: Job, own: int) -> Sequence[tuple[str, int]]:
        """Return a request's hits on each rung; `own` of its tokens were computed before it, for its salt. Call once a request."""
        rungs = self._hits.pop(id(job))
        before = self._last_prompt(job)
        found: Rungs = []
        for fate, hits in rungs:
            if fate == "not_kept" and before is not None:
                found.append((fate, min(hits, before // self._block * self._block)))
                fate = "answer_not_kept"
            found.append((fate, hits))
        most = min(own, job.request.num_prompt_tokens - 1) // self._block * self._block
        return [*found, ("no_state", most), ("long_block", own)]

    def _last_prompt(self, job: Job) -> int | None:
        """Return tokens of the session's last prompt, before this one takes its place."""
        if job.turn.session is None:
            return None
        name = job.turn.group, job.turn.session
        before = self._last.get(name)
        self._last[name] = job.request.num_prompt_tokens
        return before


def _again(request: Request) -> Request:
    """Return the same request, as it was before it ran."""
    return Request(
        id=request.id,
        num_prompt_tokens=request.num_prompt_tokens,
        prompt_ids=request.prompt_ids,
        prompt_hashes=request.prompt_hashes,
        output_ids=request.output_ids,
        max_tokens=request.max_tokens,
        cache_salt=request.cache_salt,
        lora=request.lora,
        skip_reading_cache=request.skip_reading_cache,
        priority=request.priority,
        arrival=request.arrival,
    )
