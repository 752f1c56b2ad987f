"""Host memory and disk below the GPU's cache: each size and bandwidth on the same requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf

import numpy as np

from kvtool.engine.config import EngineConfig
from kvtool.engine.fleet.break_even import break_even_tokens, load_seconds, recompute_seconds
from kvtool.engine.fleet.fleet_run import FleetRun
from kvtool.engine.fleet.routers.named_router import NamedRouter, asked_router
from kvtool.engine.fleet.tier_plan import TierPlan
from kvtool.engine.fleet.tier_rules import DISK_BANDWIDTH, HOST_BANDWIDTH, TIER_RULES, TierRules, TierTakes
from kvtool.engine.prediction.latency import PrefillTimes
from kvtool.errors import KvtoolError
from kvtool.profiler.what_if.cache_changes import NO_CAPACITY, NO_MODEL
from kvtool.profiler.what_if.fleet_rows import FleetPlan, fleet_requests
from kvtool.profiler.what_if.planned_change import Flags, PlannedChange
from kvtool.results.documents.what_if import MissingRow, SweepRow
from kvtool.text.terminal.numbers import per_second, size
from kvtool.workload.block_trace import BlockTrace

HOST_TIER = "host tier"
_HOST_TIMES = 2
"""Its size as a multiple of the GPU's blocks: SGLang's HiCache has it so (--hicache-ratio), and vLLM has no default."""
_TIMES = (1, 2, 4)
"""Sizes of the host's tier that are tried, as multiples of the GPU's."""
_APART = 1e5
"""Seconds between requests that are to run one at a time: longer than any of them takes."""
_OF_CLOCK = (
    "imbalance",
    "request_imbalance",
    "ttft_p50",
    "ttft_p99",
    "tpot_p50",
    "tpot_p99",
    "bandwidth",
    "disk_bandwidth",
    "break_even_tokens",
)
"""What a row has of the clock."""


@dataclass(frozen=True, slots=True)
class TierOptions:
    """Options of tiers: sizes in blocks, bytes per second, seconds before a load's first byte. Empty: what suits."""

    host_blocks: Sequence[int] = ()
    disk_blocks: Sequence[int] = ()
    host_bandwidths: Sequence[float] = (HOST_BANDWIDTH,)
    disk_bandwidth: float = DISK_BANDWIDTH
    latency: float = 0.0
    takes: TierTakes = "always"
    rules: TierRules = TIER_RULES["vllm"]

    def plans(self, gpu_blocks: int, block_bytes: float) -> Iterator[TierPlan]:
        """Yield no tier at all, then each size at each bandwidth."""
        yield TierPlan(block_bytes=block_bytes, rules=self.rules)
        sizes = product(self._hosts(gpu_blocks), self.disk_blocks or (0,), self.host_bandwidths)
        for host, disk, bandwidth in sizes:
            yield TierPlan(
                block_bytes=block_bytes,
                host_blocks=host,
                disk_blocks=disk,
                host_bandwidth=bandwidth,
                disk_bandwidth=self.disk_bandwidth,
                host_latency=self.latency,
                disk_latency=self.latency,
                takes=self.takes,
                rules=self.rules,
            )

    def _hosts(self, gpu_blocks: int) -> list[int]:
        rules = self.rules
        if self.host_blocks:
            return list(self.host_blocks)
        if rules.host_blocks is not None:
            return [rules.host_blocks]
        if rules.host_times_gpu is not None:
            return [int(rules.host_times_gpu * gpu_blocks)]
        return [times * gpu_blocks for times in _TIMES]


def tier_rows(
    plan: FleetPlan, asked: TierOptions, block_bytes: float, router: NamedRouter, replicas: int, seed: int
) -> list[SweepRow]:
    """Return the rows with the clock. Raise KvtoolError where nothing ever falls out of the GPU's cache, as that is unlimited."""
    return [_row(plan, tiers, router, replicas, seed) for tiers in asked.plans(gpu_blocks(plan.config), block_bytes)]


def one_at_a_time(trace: BlockTrace) -> BlockTrace:
    """Return the same requests, each long after the one before it: who says nothing of their times can
    still count what they hit.
    """
    return replace(trace, arrivals=np.arange(len(trace), dtype=np.float64) * _APART)


def counted_tier_rows(plan: FleetPlan, asked: TierOptions, block_bytes: float) -> list[SweepRow]:
    """Return the rows without the clock: what requests hit that come one at a time, and what of the rest can be loaded.
    KvtoolError as with it.
    """
    return [counted_tier_row(plan, tiers) for tiers in asked.plans(gpu_blocks(plan.config), block_bytes)]


def counted_tier_row(plan: FleetPlan, tiers: TierPlan) -> SweepRow:
    """Return one of them, whatever its bandwidths are."""
    at_once = replace(tiers, host_bandwidth=inf, disk_bandwidth=inf, host_latency=0.0, disk_latency=0.0, takes="always")
    row = _row(plan, at_once, asked_router("round-robin"), 1, 0)
    return row.model_copy(update=dict.fromkeys(_OF_CLOCK) | {"sure": "exact"})


def gpu_blocks(config: EngineConfig) -> int:
    """Return usable blocks of a GPU below which a tier makes sense; KvtoolError where none does."""
    blocks = config.num_blocks
    if blocks is None:
        raise KvtoolError(
            "the cache of the GPU is unlimited, so nothing falls out of it that a tier below could keep",
            hint="say how large it is: --capacity 20000, or --gpu-memory 80GiB with a --model",
        )
    if not config.enable_prefix_caching:
        raise KvtoolError("prefix caching is off, so no block is looked up in a tier either")
    return blocks - 1


def _row(plan: FleetPlan, tiers: TierPlan, router: NamedRouter, replicas: int, seed: int) -> SweepRow:
    with_tiers = replace(plan, tiers=tiers)
    run = with_tiers.serve_by(router, replicas, seed)
    computed = int(run.computed_tokens.sum())
    return plan.row("tier", run).model_copy(update=tier_fields(with_tiers, tiers, run) | {"computed_tokens": computed})


def tier_fields(plan: FleetPlan, tiers: TierPlan, run: FleetRun) -> dict[str, object]:
    """Return what a row says of tiers and of what was loaded from them."""
    size, looked_up = plan.config.block_size, run.references
    return {
        "host_blocks": tiers.host_blocks,
        "disk_blocks": tiers.disk_blocks,
        "bandwidth": _finite(tiers.host_bandwidth) if tiers.host else None,
        "disk_bandwidth": _finite(tiers.disk_bandwidth) if tiers.disk else None,
        "loaded_rate": int(run.loaded_tokens.sum()) / size / looked_up if looked_up else 0.0,
        "break_even_tokens": break_even(plan, tiers, run) if tiers.host or tiers.disk else None,
    }


def _finite(bandwidth: float) -> float | None:
    """Return None for infinity: JSON has no infinite numbers."""
    return None if bandwidth == inf else bandwidth


def break_even(plan: FleetPlan, tiers: TierPlan, run: FleetRun) -> int | None:
    """Return tokens, in whole blocks, from which on a prefix of the first level below is loaded in less time than it is computed.

    The prompt goes on after it for as many tokens as half of the requests compute at least. None: up to the longest prompt
    there is no such length.
    """
    served = run.served
    if not served.any():
        return None
    rest = max(int(np.median(run.computed_tokens[served])), 1)
    bandwidth, latency = (
        (tiers.host_bandwidth, tiers.host_latency) if tiers.host else (tiers.disk_bandwidth, tiers.disk_latency)
    )
    size = plan.config.block_size
    times = PrefillTimes(plan.latency, plan.config.max_num_batched_tokens)
    return break_even_tokens(
        lambda tokens: load_seconds(tokens, tiers.block_bytes / size, bandwidth, latency),
        lambda tokens: recompute_seconds(times.seconds, 0, tokens, rest),
        step=size,
        most=max(int(run.prompt_tokens.max()), size),
    )


def host_tier(
    today: PlannedChange, missing: list[MissingRow], flags: Flags | None, *, clock: bool = True
) -> Iterator[PlannedChange]:
    """Yield the row, by vLLM's rules at the bandwidth that is taken where nobody says one; or in `missing` why there is none.

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
    if today.plan.bytes_per_block is None:
        missing.append(MissingRow(change=HOST_TIER, why=NO_MODEL))
        return
    tiers = TierPlan(block_bytes=today.plan.bytes_per_block, host_blocks=_HOST_TIMES * blocks)
    memory = size(tiers.host_blocks * tiers.block_bytes)
    at = f" at {per_second(tiers.host_bandwidth)}" if clock else ""
    yield replace(
        today,
        kind="tier",
        name=f"+ {HOST_TIER} {memory}{at}",
        does=f"keep what leaves the GPU in {memory} of host memory for each replica{at}: {tiers.host_blocks:,} blocks "
        f"below {blocks:,}",
        tiers=tiers,
        flags=None if flags is None else {"sweep": "tier", "host_memory": f"{_HOST_TIMES}x", **flags},
        more_hardware=True,
    )


def counted_with_tier(change: PlannedChange) -> dict[str, object]:
    """Return the fields of its row without a clock: hits of the GPU, one request at a time, and what of the rest can be loaded."""
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
