"""The same engine with one limit after the other lifted, beside the configured one: new hits were lost to that limit.

For a model with several KV cache groups, in the order of the ladder:

- ``evicted``: an unlimited pool;
- ``not_kept``, and of a session's last answer ``answer_not_kept``: windows and states are kept at all possible places;
- ``drafts``: nothing is drafted;
- ``no_state``: all layers have full attention, with blocks as long as before;
- ``long_block``: these blocks are as long as with attention alone.

The last two take no engine where requests run one after the other: an unlimited cache of full attention hits all tokens sent
before, in whole blocks.
"""

from __future__ import annotations

from dataclasses import replace

from kvtool.engine.blocks.make_cache import is_plain
from kvtool.engine.config import EngineConfig
from kvtool.engine.groups.kv_group import CachePlan


def relax_configs(config: EngineConfig) -> list[tuple[str, EngineConfig]]:
    """Return the engines to compare with a configured one with several groups, each more relaxed than the one before, by fate."""
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
    """Return the engine above the relaxed ones for concurrent requests: an unlimited cache of full attention alone.

    `block` is the number of tokens of a block without states.
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
