"""The same attention in other libraries, on a GPU.

They get what suits them best: K and V of each sequence contiguous, so that only FlashInfer looks up blocks. Each answers with a
`Timing`, or with a sentence that says why there is none.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.device.decode import DecodePoint
from benchmarks.device.prefill import PrefillPoint
from benchmarks.device.sequences import Sequences
from kvtool.measure.bench.attention import AttentionShape, BenchLayer
from kvtool.measure.bench.timing import Call, Timing, free_memory, layers_to_rotate, measure, release

Answer = Timing | str

_BACKENDS = {"SDPA flash": SDPBackend.FLASH_ATTENTION, "SDPA cuDNN": SDPBackend.CUDNN_ATTENTION}
_WORKSPACE = 256 << 20
_PREFILL_LAYERS = 4

QKV = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def sdpa_decode(
    point: DecodePoint, shape: AttentionShape, device: torch.device, *, seconds: float = 0.05
) -> dict[str, Answer]:
    """torch's flash attention and cuDNN's, each the faster of two ways to say that heads share K and V."""
    layers = _decode_layers(point, shape, device)
    group = shape.heads // shape.kv_heads
    answers: dict[str, Answer] = {}
    for name, backend in _BACKENDS.items():
        with sdpa_kernel(backend):
            answers[name] = _fastest(
                # The heads of a group as so many queries of one head, and as they are.
                [
                    [
                        partial(scaled_dot_product_attention, q.view(-1, shape.kv_heads, group, shape.head_dim), k, v)
                        for q, k, v in layers
                    ],
                    [partial(scaled_dot_product_attention, q, k, v, enable_gqa=group > 1) for q, k, v in layers],
                ],
                device,
                seconds,
            )
    return answers


def sdpa_prefill(
    point: PrefillPoint, shape: AttentionShape, device: torch.device, *, seconds: float = 0.1
) -> dict[str, Answer]:
    """Of one sequence. cuDNN is left out behind cached tokens: torch has no way to ask it for that mask without writing it down."""
    layers = _prefill_layers(point, shape, device)
    gqa = shape.heads != shape.kv_heads
    answers: dict[str, Answer] = {}
    for name, backend in _BACKENDS.items():
        if point.cached and backend != SDPBackend.FLASH_ATTENTION:
            continue
        ways: list[list[Call]] = []
        for wide in (
            (False, True) if gqa else (False,)
        ):  # as they are, and with K and V repeated for each head beforehand
            repeated = [(q, *(_repeated(x, q.shape[1]) if wide else x for x in (k, v))) for q, k, v in layers]
            mask: dict[str, Any] = {"is_causal": True}
            if point.cached:
                mask = {"attn_mask": causal_lower_right(point.new, point.new + point.cached)}
            ways.append(
                [
                    partial(scaled_dot_product_attention, q, k, v, enable_gqa=gqa and not wide, **mask)
                    for q, k, v in repeated
                ]
            )
        with sdpa_kernel(backend):
            answers[name] = _fastest(ways, device, seconds)
    return answers


def flex_decode(point: DecodePoint, shape: AttentionShape, device: torch.device, *, seconds: float = 0.05) -> Answer:
    """torch's flex_attention, compiled for this shape, which takes a while."""
    attention = _compiled_flex()
    layers = _decode_layers(point, shape, device)
    gqa = shape.heads != shape.kv_heads
    return _fastest([[partial(attention, q, k, v, enable_gqa=gqa) for q, k, v in layers]], device, seconds)


def flex_prefill(point: PrefillPoint, shape: AttentionShape, device: torch.device, *, seconds: float = 0.1) -> Answer:
    """Likewise, with a causal block mask made beforehand."""
    from torch.nn.attention.flex_attention import create_block_mask

    attention = _compiled_flex()
    layers = _prefill_layers(point, shape, device)
    before = point.cached

    def causal(_batch: torch.Tensor, _head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return query + before >= key

    mask = create_block_mask(causal, None, None, point.new, point.new + before, device=device)
    gqa = shape.heads != shape.kv_heads
    calls: list[Call] = [partial(attention, q, k, v, block_mask=mask, enable_gqa=gqa) for q, k, v in layers]
    return _fastest([calls], device, seconds)


def flashinfer_decode(
    point: DecodePoint, shape: AttentionShape, device: torch.device, *, seconds: float = 0.05
) -> Answer:
    """FlashInfer on the same paged cache, if it is installed."""
    try:
        flashinfer: Any = importlib.import_module("flashinfer")
    except ImportError:
        return "not installed"
    sequences = Sequences.sharing(
        [1] * point.batch, [point.context] * point.batch, point.shared_tokens, shape.block_size
    )
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
        torch.empty(_WORKSPACE, dtype=torch.uint8, device=device), "HND", use_tensor_cores=shape.heads > shape.kv_heads
    )
    indptr, indices, last = _paged(sequences, shape.block_size, device)
    wrapper.plan(
        indptr, indices, last, shape.heads, shape.kv_heads, shape.head_dim, shape.block_size,
        q_data_type=shape.dtype, kv_data_type=shape.kept,
    )  # fmt: skip
    layers = _paged_layers(sequences, shape, device)
    return _fastest([[partial(wrapper.run, x.q, (x.k_cache, x.v_cache)) for x in layers]], device, seconds)


def flashinfer_prefill(
    point: PrefillPoint, shape: AttentionShape, device: torch.device, *, seconds: float = 0.1
) -> Answer:
    """FlashInfer on the same paged cache, if it is installed."""
    try:
        flashinfer: Any = importlib.import_module("flashinfer")
    except ImportError:
        return "not installed"
    length = point.new + point.cached
    sequences = Sequences.sharing([point.new] * point.sequences, [length] * point.sequences, 0, shape.block_size)
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
        torch.empty(_WORKSPACE, dtype=torch.uint8, device=device), "HND"
    )
    indptr, indices, last = _paged(sequences, shape.block_size, device)
    query_start = sequences.batch().query_start.to(device)
    wrapper.plan(
        query_start, indptr, indices, last, shape.heads, shape.kv_heads, shape.head_dim, shape.block_size,
        causal=True, q_data_type=shape.dtype, kv_data_type=shape.kept,
    )  # fmt: skip
    layers = _paged_layers(sequences, shape, device)
    return _fastest([[partial(wrapper.run, x.q, (x.k_cache, x.v_cache)) for x in layers]], device, seconds)


DECODE: Mapping[str, Callable[..., Answer]] = {"flex_attention": flex_decode, "FlashInfer": flashinfer_decode}
PREFILL: Mapping[str, Callable[..., Answer]] = {"flex_attention": flex_prefill, "FlashInfer": flashinfer_prefill}
"""Those that compile for minutes, and are therefore asked about a few points only."""


def answered(peer: Callable[[], Answer]) -> Answer:
    """What the peer answers, or what it raised, in a line."""
    try:
        return peer()
    except Exception as error:
        return _short(error)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0]}"[:200]


def _fastest(ways: Sequence[Sequence[Call]], device: torch.device, seconds: float) -> Answer:
    """Of the ways that work."""
    timings, problem = [], ""
    for calls in ways:
        try:
            timings.append(measure(calls, device, seconds=seconds))
        except RuntimeError as error:  # also torch's way to say that no backend takes the inputs
            problem = problem or _short(error)
    return min(timings, key=lambda timing: timing.seconds) if timings else problem


def _compiled_flex() -> Callable[..., torch.Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    compiled: Callable[..., torch.Tensor] = torch.compile(flex_attention, dynamic=False)
    return compiled


def _repeated(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def _decode_layers(point: DecodePoint, shape: AttentionShape, device: torch.device) -> list[QKV]:
    """q [B, Hq, 1, D]; K and V [B, Hkv, context, D]: peers read what is shared once for each sequence."""
    release(device)
    size = point.batch * point.context * shape.kv_bytes_per_token
    count = layers_to_rotate(size, device, int(free_memory(device) * 0.8))
    kv_shape = (point.batch, shape.kv_heads, point.context, shape.head_dim)
    q_shape = (point.batch, shape.heads, 1, shape.head_dim)
    return [_random(q_shape, kv_shape, shape, device) for _ in range(count)]


def _prefill_layers(point: PrefillPoint, shape: AttentionShape, device: torch.device) -> list[QKV]:
    """q [sequences, Hq, new, D]; K and V [sequences, Hkv, cached + new, D]"""
    release(device)
    kv_shape = (point.sequences, shape.kv_heads, point.new + point.cached, shape.head_dim)
    q_shape = (point.sequences, shape.heads, point.new, shape.head_dim)
    return [_random(q_shape, kv_shape, shape, device) for _ in range(_PREFILL_LAYERS)]


def _random(q_shape: tuple[int, ...], kv_shape: tuple[int, ...], shape: AttentionShape, device: torch.device) -> QKV:
    q, k, v = (torch.empty(x, dtype=shape.dtype, device=device).normal_() for x in (q_shape, kv_shape, kv_shape))
    return q, k, v


def _paged(
    sequences: Sequences, block_size: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Block tables as CSR: int32[n + 1], int32[blocks] and how much of each last block is used, int32[n]."""
    blocks = -(-sequences.lengths // block_size)
    indptr = np.concatenate([[0], np.cumsum(blocks)]).astype(np.int32)
    indices = np.concatenate([row[:count] for row, count in zip(sequences.block_table, blocks, strict=True)])
    last = (sequences.lengths - (blocks - 1) * block_size).astype(np.int32)
    a, b, c = (torch.from_numpy(x).to(device) for x in (indptr, indices, last))
    return a, b, c


def _paged_layers(sequences: Sequences, shape: AttentionShape, device: torch.device) -> list[BenchLayer]:
    release(device)
    size = sequences.num_blocks * shape.block_size * shape.kv_bytes_per_token
    count = layers_to_rotate(size, device, int(free_memory(device) * 0.8))
    return [BenchLayer.random(shape, sequences.num_blocks, sequences.num_queries, device) for _ in range(min(count, 8))]
