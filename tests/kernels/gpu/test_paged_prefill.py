from __future__ import annotations

from typing import Any

import pytest
import torch

from kvtool.kernels.gpu.paged_prefill import paged_prefill, prefill_queries
from tests.kernels.attention_cases import BF16, E4M3, E5M2, FP16, FP32, INT8, check_prefill
from tests.kernels.interpreter import sanitize

CASES: list[dict[str, Any]] = [
    {},
    {"q_dtype": BF16, "page": 4, "group": 4},
    {"q_dtype": FP16, "page": 64, "dim": 80, "group": 3},
    {"q_dtype": BF16, "dim": 128, "group": 8, "kv_heads": 1, "tile_queries": 4},
    {"page": 1, "group": 1, "tile_queries": 16, "scale": 0.3},
    {"page": 12, "group": 1, "tile_queries": 20},
    {"group": 5, "tile_queries": 11},  # 55 rows of a tile that holds 32
    {"q_dtype": FP16, "parts": (16, 48)},
    {"q_dtype": BF16, "parts": (64,), "page": 64},
]


def test_chunks_behind_cached_prefixes() -> None:
    """A whole prompt, a chunk at the end of a longer one, and a single token; nothing is read or written out of place."""
    for case in CASES:
        with sanitize():
            check_prefill(paged_prefill, [5, 70, 33], [5, 20, 1], **case)


@pytest.mark.parametrize("q_dtype", [FP32, FP16, BF16])
@pytest.mark.parametrize("cache", [FP32, FP16, BF16, E4M3, E5M2, INT8])
def test_every_cache_is_read_as_it_was_meant(q_dtype: torch.dtype, cache: torch.dtype) -> None:
    if q_dtype != cache:
        check_prefill(paged_prefill, [37], [10], q_dtype=q_dtype, cache=cache, kv_heads=1)


@pytest.mark.parametrize("cache", [E4M3, INT8])
def test_values_of_all_sizes_with_scales_of_their_own(cache: torch.dtype) -> None:
    for sizes in ((1e-5,), (1e3,), (1.0, 1e-5, 1e3)):
        case: dict[str, Any] = {"cache": cache, "sizes": sizes, "size": max(sizes), "page": 4, "kv_heads": 1}
        check_prefill(paged_prefill, [37], [6], q_dtype=BF16, scaled=True, parts=(16,), **case)


def test_a_tile_has_as_many_queries_as_it_has_rows_for() -> None:
    assert prefill_queries(BF16, 4, 128, BF16) == 8
    assert prefill_queries(BF16, 3, 128, BF16) == 10
    assert prefill_queries(BF16, 71, 64, BF16) == 1


def test_what_does_not_go_together_is_refused_before_anything_runs() -> None:
    def spoilt(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, *rest: Any, **scales: Any
    ) -> None:
        with pytest.raises(ValueError, match=r"block_table has 1\d\d\d"):
            paged_prefill(q, k, v, table + 1000, *rest, **scales)
        paged_prefill(q, k, v, table, *rest, **scales)

    check_prefill(spoilt, [9], [3], tile_queries=4, kv_heads=1)


def test_no_tiles_are_no_launch() -> None:
    check_prefill(paged_prefill, [9], [0], kv_heads=1)
    empty = torch.empty(0, 5, dtype=torch.int32)

    def without(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any, **scales: Any) -> None:
        paged_prefill(q, k, v, *rest[:3], empty, *rest[4:], **scales)

    check_prefill(without, [9], [0], kv_heads=1)
