"""Host memory below each replica's GPU, as a row of the table: one size of those that `--sweep tier` goes through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvtool.engine.fleet.tier_plan import TierPlan
from kvtool.errors import KvtoolError
from kvtool.profiler.what_if.cache_changes import NO_CAPACITY
from kvtool.profiler.what_if.fleet_rows import FleetPlan, fleet_requests
from kvtool.profiler.what_if.planned_change import Flags, PlannedChange
from kvtool.profiler.what_if.tier_rows import counted_tier_row, gpu_blocks, one_at_a_time
from kvtool.results.documents.what_if import MissingRow
from kvtool.text.terminal.numbers import per_second, size

HOST_TIER = "host tier"
_TIMES = 2
"""Its size as a multiple of the GPU's blocks: SGLang's HiCache has it so (--hicache-ratio), and vLLM has no default."""


def host_tier(
    today: PlannedChange, missing: list[MissingRow], flags: Flags | None, *, clock: bool = True
) -> Iterator[PlannedChange]:
    """The row, by vLLM's rules at the bandwidth that is taken where nobody says one; or in `missing` why there is none.

    `flags` are those of the sweep that gives it again beside its own; None: no sweep does.
    """
    if today.capacity is None:
        missing.append(MissingRow(change=HOST_TIER, why=NO_CAPACITY))
        return
    try:
        blocks = gpu_blocks(today.plan.engine)
    except KvtoolError as error:
        missing.append(MissingRow(change=HOST_TIER, why=error.message))
        return
    tiers = TierPlan(block_bytes=today.plan.bytes_per_block, host_blocks=_TIMES * blocks)
    memory = size(tiers.host_blocks * tiers.block_bytes)
    at = f" at {per_second(tiers.host_bandwidth)}" if clock else ""
    yield replace(
        today,
        kind="tier",
        name=f"+ {HOST_TIER} {memory}{at}",
        does=f"keep what leaves the GPU in {memory} of host memory for each replica{at}: {tiers.host_blocks:,} blocks "
        f"below {blocks:,}",
        tiers=tiers,
        flags=None if flags is None else {"sweep": "tier", "host_memory": f"{_TIMES}x", **flags},
        more_hardware=True,
    )


def counted_with_tier(change: PlannedChange) -> dict[str, object]:
    """The fields of its row without a clock: hits of the GPU, one request at a time, and what of the rest can be loaded."""
    tiers, trace = change.tiers, change.trace
    assert tiers is not None
    requests = fleet_requests(one_at_a_time(trace))
    row = counted_tier_row(FleetPlan(requests, change.plan.engine, change.plan.latency), tiers)
    prompts = int(trace.prompt_tokens.sum())
    return {
        "hit_blocks": row.hit_blocks,
        "references": row.references,
        "hit_rate": row.hit_blocks * trace.block_size / prompts if prompts else 0.0,
        "computed_tokens": row.computed_tokens,
        "host_blocks": row.host_blocks,
        "disk_blocks": row.disk_blocks,
        "loaded_rate": row.loaded_rate,
    }
