"""What a model leaves of accelerators' memory for its KV cache: the document of `kvtool size`."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.engine.kv_dtype import AUTO, find_kv_dtype
from kvtool.engine.model.geometry import Geometry
from kvtool.engine.prediction.accelerators import Accelerator
from kvtool.engine.prediction.sizing import Sizing, block_bytes, size_cache
from kvtool.results.documents.size import AcceleratorRoom, SizeDocument


def model_room(
    model: str,
    geometry: Geometry,
    accelerators: Iterable[Accelerator],
    *,
    max_model_len: int | None,
    kv_cache_dtype: str,
    tensor_parallel: int,
    block_size: int,
    utilization: float,
) -> SizeDocument:
    """The KV blocks on each accelerator, and how many requests of `max_model_len` tokens they hold at once."""
    kept = find_kv_dtype(kv_cache_dtype).name
    rooms = [
        _room(
            accelerator.name,
            size_cache(
                geometry,
                accelerator.memory,
                utilization=utilization,
                block_size=block_size,
                kv_cache_dtype=kept,
                tensor_parallel=tensor_parallel,
            ),
            max_model_len,
        )
        for accelerator in accelerators
    ]
    return SizeDocument(
        schema="kvtool.size/1",
        model=model,
        max_model_len=max_model_len,
        kv_cache_dtype=kept,
        native_dtype=find_kv_dtype(AUTO).name,
        capacity_gain=block_bytes(geometry, block_size) / block_bytes(geometry, block_size, kept),
        tensor_parallel=tensor_parallel,
        block_size=block_size,
        gpu_memory_utilization=utilization,
        accelerators=rooms,
    )


def _room(name: str, sizing: Sizing, max_model_len: int | None) -> AcceleratorRoom:
    pool, fits = sizing.pool, sizing.fits
    concurrency = None if max_model_len is None else round(pool.max_concurrency(max_model_len), 4)
    return AcceleratorRoom(
        name=name,
        memory_bytes=sizing.memory,
        usable_bytes=sizing.usable,
        weight_bytes=sizing.weights,
        activation_bytes_estimate=sizing.activations,
        graph_bytes_estimate=sizing.graphs,
        bytes_per_block=pool.bytes_per_block,
        fits=fits,
        available_bytes=sizing.available if fits else None,
        num_blocks=pool.num_blocks if fits else None,
        usable_blocks=pool.usable_blocks if fits else None,
        tokens=pool.tokens if fits else None,
        longest_request=pool.longest_request if fits else None,
        max_concurrency=concurrency if fits else None,
        fits_max_model_len=None if max_model_len is None else fits and pool.holds(max_model_len),
    )
