"""The same engine with one limit after the other lifted, beside the one as configured: what then hits had that limit in the way.

Of a model with several KV cache groups, in the order of the ladder:

- ``evicted``: a pool that never runs out;
- ``not_kept``, and of a session's last answer ``answer_not_kept``: windows and states are kept wherever they can be;
- ``drafts``: nothing is drafted;
- ``no_state``: all layers have full attention, with blocks as long as before;
- ``long_block``: these blocks are as long as attention alone has them.

The last two take no engine where requests run one after the other: an unlimited cache of full attention hits what was sent before,
in whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvtool.engine.config import EngineConfig
from kvtool.engine.groups.kv_group import CachePlan
from kvtool.engine.make_cache import is_plain, make_cache
from kvtool.engine.request import Request
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account
from kvtool.workload.jobs import Job

Rungs = list[tuple[str, int]]


def kinder_configs(config: EngineConfig) -> list[tuple[str, EngineConfig]]:
    """The engines that a configured one with several groups is compared with, each kinder than the one before, by fate."""
    found: list[tuple[str, EngineConfig]] = []
    kind = config
    if kind.num_blocks is not None:
        kind = replace(kind, num_blocks=None)
        found.append(("evicted", kind))
    plan = kind.plan
    if plan is None or is_plain(plan):
        return found
    if kind.prefix_cache_retention_interval is not None and any(g.kind in ("sliding", "mamba") for g in plan.groups):
        kind = replace(kind, prefix_cache_retention_interval=None)
        found.append(("not_kept", kind))
    if plan.num_spec_tokens:
        kind = replace(kind, plan=_without_drafts(plan))
        found.append(("drafts", kind))
    return found


def full_attention(config: EngineConfig, block: int) -> list[tuple[str, EngineConfig]]:
    """What stands above the kinder engines, where requests run together: an unlimited cache of full attention alone.

    `block` are the tokens of a block without states.
    """
    if config.plan is None or is_plain(config.plan):
        return []
    wide = replace(
        config,
        num_blocks=None,
        plan=None,
        block_size=config.plan.hit_alignment,
        prefix_cache_retention_interval=EngineConfig.prefix_cache_retention_interval,
    )
    found = [("no_state", wide)]
    if block < wide.block_size:
        found.append(("long_block", replace(wide, block_size=block)))
    return found


def _without_drafts(plan: CachePlan) -> CachePlan:
    groups = tuple(replace(group, eagle=False, spec_blocks=0, extra_retained=0) for group in plan.groups)
    return replace(
        plan,
        groups=groups,
        num_spec_tokens=0,
        num_lookahead_tokens=0,
        num_prefill_lookahead=0,
        num_hash_lookahead=0,
        eagle_drop=False,
    )


class KinderEngines:
    """Runs each request, one at a time, in the kinder engines, too."""

    def __init__(self, config: EngineConfig) -> None:
        self._block = 1 if config.plan is None else config.plan.hit_alignment
        self._engines = [(fate, Scheduler(kind, make_cache(kind))) for fate, kind in kinder_configs(config)]
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
        """What a request hit on each rung; `own` of its tokens were computed before it, for its salt. Asked for once."""
        rungs = self._hits.pop(id(job))
        before = self._last_prompt(job)
        found: Rungs = []
        for fate, hits in rungs:
            if fate == "not_kept" and before is not None:
                found.append((fate, min(hits, before)))
                fate = "answer_not_kept"
            found.append((fate, hits))
        most = min(own, job.request.num_prompt_tokens - 1) // self._block * self._block
        return [*found, ("no_state", most), ("long_block", own)]

    def _last_prompt(self, job: Job) -> int | None:
        """Tokens of the session's last prompt, before this one takes its place."""
        if job.turn.session is None:
            return None
        name = job.turn.group, job.turn.session
        before = self._last.get(name)
        self._last[name] = job.request.num_prompt_tokens
        return before


def _again(request: Request) -> Request:
    """The same request, as it was before it ran."""
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
