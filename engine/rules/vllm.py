"""vLLM's rules with the common interface: the embedded engine itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvtool.engine.blocks.make_cache import make_cache
from kvtool.engine.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.rules.rule_set import OtherSetting, RuleRequest, RuleSet, Served
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """Options that affect reuse for requests one at a time, named as in vLLM."""

    block_size: int = EngineConfig.block_size
    num_gpu_blocks: int | None = None
    """Blocks with the empty null block; None is a pool that grows."""
    engine: EngineConfig | None = None
    """All of the engine in place of these, for models of several groups of layers."""


class VllmCache:
    """The embedded engine's scheduler, which runs each request alone."""

    def __init__(self, options: VllmOptions = VllmOptions()) -> None:
        config = options.engine or EngineConfig(block_size=options.block_size, num_blocks=options.num_gpu_blocks)
        self._scheduler = Scheduler(config, make_cache(config))

    @property
    def num_tokens(self) -> int:
        cache = self._scheduler.cache
        return cache.num_filled * cache.block_size

    def serve(self, asked: RuleRequest) -> Served:
        """Run a request alone; EngineError where it needs more than the pool has."""
        cache = self._scheduler.cache
        request = Request(
            id="",
            num_prompt_tokens=len(asked.prompt),
            prompt_ids=asked.prompt,
            output_ids=asked.answer.tolist(),
            cache_salt=None if asked.scope is None else str(asked.scope),
            priority=asked.priority,
        )
        before = cache.num_evictions
        account(self._scheduler, request)
        return Served(request.num_cached_tokens, (cache.num_evictions - before) * cache.block_size)


def _remedies(options: VllmOptions) -> tuple[OtherSetting[VllmOptions], ...]:
    found = []
    if options.num_gpu_blocks is not None:
        blocks = 2 * options.num_gpu_blocks - 1
        what = f"double the cache: --num-gpu-blocks {blocks}"
        found.append(OtherSetting("evicted", what, replace(options, num_gpu_blocks=blocks)))
    if options.block_size > EngineConfig.block_size:
        what = f"use smaller blocks: --block-size {EngineConfig.block_size}"
        found.append(OtherSetting("partial_block", what, replace(options, block_size=EngineConfig.block_size)))
    return tuple(found)


def _limited(options: VllmOptions, tokens: int) -> VllmOptions:
    return replace(options, num_gpu_blocks=max(tokens // options.block_size, 1) + 1)


VLLM = RuleSet(
    name="vllm",
    engine="vLLM 0.33",
    status="driven",
    evidence="compared with every decision of vLLM's own scheduler in recorded cases, block for block",
    not_modelled=("concurrent requests, in this comparison",),
    options=VllmOptions(),
    make=VllmCache,
    unit=lambda options: options.block_size,
    remedies=_remedies,
    limited=_limited,
)
