"""Memory that a model leaves on accelerators for its KV cache: the document of `kvtool size`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

from kvtool.engine.groups.capacity import PlannedPool
from kvtool.engine.groups.kv_group import CachePlan
from kvtool.engine.groups.model_plan import ServeOptions, plan_model
from kvtool.engine.kv_dtype import AUTO, find_kv_dtype
from kvtool.engine.model.configs.served_model import ServedModel
from kvtool.engine.prediction.accelerators import Accelerator
from kvtool.engine.prediction.sizing import size_cache
from kvtool.results.documents.size import AcceleratorRoom, SizedGroup, SizeDocument

_COMPARED_LEN = 8192
"""Default length, in tokens, of the compared requests."""


def model_room(
    name: str, model: ServedModel, options: ServeOptions, accelerators: Iterable[Accelerator], *, utilization: float
) -> SizeDocument:
    """Return the KV blocks on each accelerator, and how many requests of `options.max_model_len` tokens fit at once.

    `name` is the user's. A step has vLLM's size on each accelerator.
    """
    accelerators = list(accelerators)
    options = replace(
        options, max_num_batched_tokens=max(each.batch_limits.max_num_batched_tokens for each in accelerators)
    )
    planned, longest = plan_model(model, options), options.max_model_len
    plan = planned.plan
    native = plan_model(model, replace(options, kv_cache_dtype=AUTO)).plan
    rooms = [_room(model, options, accelerator, utilization) for accelerator in accelerators]
    return SizeDocument(
        schema="kvtool.size/1",
        model=name,
        max_model_len=longest,
        kv_cache_dtype=find_kv_dtype(options.kv_cache_dtype, model.dtype).name,
        native_dtype=find_kv_dtype(AUTO, model.dtype).name,
        capacity_gain=_bytes_of_request(native, longest) / _bytes_of_request(plan, longest) if plan.groups else 1.0,
        tensor_parallel=options.tensor_parallel,
        block_size=planned.block_size,
        block_reason=planned.block_reason,
        hit_unit=plan.hit_alignment,
        prefix_caching=planned.caching,
        caching_off=planned.caching_off,
        one_group_reason=planned.one_group,
        keeps_prompt_ends_only=planned.caching and any(group.kind in ("sliding", "mamba") for group in plan.groups),
        groups=_groups(plan, longest),
        weights_note=None if model.geometry.counted is None else model.geometry.counted.note,
        gpu_memory_utilization=utilization,
        accelerators=rooms,
    )


def _bytes_of_request(plan: CachePlan, longest: int | None) -> int:
    """Return one request's bytes of the pool; with one group, a block's."""
    if len(plan.groups) == 1:
        return plan.bytes_per_block
    return plan.bytes_per_block * sum(PlannedPool(plan, 1).blocks_per_request(longest or _COMPARED_LEN))


def _groups(plan: CachePlan, longest: int | None) -> list[SizedGroup]:
    """Join adjacent equal groups of layers."""
    blocks = PlannedPool(plan, 1).blocks_per_request(longest) if longest is not None else [None] * len(plan.groups)
    found = []
    for _, pairs in groupby(zip(plan.groups, blocks, strict=True), key=lambda pair: pair[0].spec_id):
        same = list(pairs)
        first, held = same[0]
        found.append(
            SizedGroup(
                kind=first.kind,
                count=len(same),
                layers=[group.layers for group, _ in same],
                block_size=first.block_size,
                page_bytes=list(first.page_bytes),
                window=first.window,
                chunk=first.chunk,
                blocks_per_request=held,
            )
        )
    return found


def _room(model: ServedModel, options: ServeOptions, accelerator: Accelerator, utilization: float) -> AcceleratorRoom:
    limits, longest = accelerator.batch_limits, options.max_model_len
    planned = plan_model(model, replace(options, max_num_batched_tokens=limits.max_num_batched_tokens))
    plan = planned.plan
    sizing = size_cache(
        model.geometry,
        accelerator.memory,
        utilization=utilization,
        block_size=planned.block_size,
        kv_cache_dtype=options.kv_cache_dtype,
        tensor_parallel=options.tensor_parallel,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        max_num_seqs=limits.max_num_seqs,
        plan=plan,
    )
    fits = sizing.fits
    pool = PlannedPool(plan, sizing.pool.num_blocks)
    concurrency = tokens = None
    if longest is not None and plan.groups:
        concurrency = round(pool.max_concurrency(longest), 4)
    if len(plan.groups) == 1:
        tokens = sizing.pool.num_blocks * plan.scheduler_block_size
    elif longest is not None and plan.groups:
        tokens = pool.tokens(longest)
    return AcceleratorRoom(
        name=accelerator.name,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        max_num_seqs=limits.max_num_seqs,
        memory_bytes=sizing.memory,
        usable_bytes=sizing.usable,
        weight_bytes=sizing.weights,
        activation_bytes_estimate=sizing.activations,
        graph_bytes_estimate=sizing.graphs,
        bytes_per_block=plan.bytes_per_block,
        fits=fits,
        lacking_bytes=sizing.lacking,
        available_bytes=sizing.available if fits else None,
        num_blocks=pool.num_blocks if fits else None,
        usable_blocks=pool.usable_blocks if fits else None,
        tokens=tokens if fits else None,
        longest_request=pool.longest_request() if fits else None,
        max_concurrency=concurrency if fits else None,
        fits_max_model_len=None if longest is None else fits and pool.holds(longest),
    )
