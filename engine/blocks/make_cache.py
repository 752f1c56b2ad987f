"""Make the block manager of a configuration."""

from __future__ import annotations

from kvtool.engine.blocks.block_pool import BlockPool
from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.blocks.chain_numbers import ChainNumbers
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.kv_group import CachePlan


def make_cache(config: EngineConfig, *, record_events: bool = False, numbers: ChainNumbers | None = None) -> BlockPool:
    """Return the manager: one group with full attention has its own, faster one; only that one takes `numbers`."""
    if config.plan is None or is_plain(config.plan):
        return BlockManager(config, record_events=record_events, numbers=numbers)
    if numbers is not None:
        raise EngineError("a trace of block ids needs a model with one group of layers")
    from kvtool.engine.groups.grouped_manager import GroupedManager

    return GroupedManager(config, record_events=record_events)


def is_plain(plan: CachePlan) -> bool:
    """Return whether a plan equals an engine without one: one group with full attention, and no drafts."""
    group, *others = plan.groups
    return (
        not others
        and group.kind in ("full", "mla")
        and group.block_size == plan.hash_block_size
        and not plan.num_spec_tokens
        and not plan.num_hash_lookahead
        and not plan.eagle_drop
    )
