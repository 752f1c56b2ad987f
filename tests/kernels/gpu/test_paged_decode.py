from __future__ import annotations

from typing import Any

import pytest
import torch

from kvtool.kernels.gpu.attention_launch import AttentionLaunch
from kvtool.kernels.gpu.paged_decode import paged_decode
from kvtool.kernels.gpu.tiles import Target, decode_tile, prefill_rows, prefill_tile
from tests.kernels.attention_cases import BF16, E4M3, E5M2, FP16, FP32, INT8, check_decode
from tests.kernels.interpreter import sanitize

ITEMS = [([2], 1, 0, 70), ([0, 2, 1], 0, 0, 32), ([1], 0, 2, 8), ([0], 1, 0, 0), ([0], 1, 4, 1)]

CASES: list[dict[str, Any]] = [
    {},
    {"q_dtype": BF16, "page": 4, "group": 4},
    {"q_dtype": FP16, "dim": 80, "group": 3},
    {"q_dtype": BF16, "dim": 128, "group": 8, "kv_heads": 1},
    {"page": 1, "group": 1, "scale": 0.3},
    {"page": 12, "q_dtype": FP16},
    {"group": 13},  # 39 rows of a tile that holds 32
]


def test_shared_and_own_tokens() -> None:
    """Nothing is read or written out of place either, and an item of no tokens does nothing."""
    for case in CASES:
        page = case.get("page", 16)
        items = [(own, sequence, block * 16 // page, kv_len) for own, sequence, block, kv_len in ITEMS]
        with sanitize():
            check_decode(paged_decode, [40, 70], items, **case)


@pytest.mark.parametrize("q_dtype", [BF16, FP32])
def test_blocks_of_several_tiles(q_dtype: torch.dtype) -> None:
    items = [([0, 1], 0, 0, 64), ([0], 0, 1, 26), ([1], 1, 0, 70)]
    check_decode(paged_decode, [90, 70], items, q_dtype=q_dtype, page=64)


@pytest.mark.parametrize("q_dtype", [FP32, FP16, BF16])
@pytest.mark.parametrize("cache", [FP32, FP16, BF16, E4M3, E5M2, INT8])
def test_every_cache_is_read_as_it_was_meant(q_dtype: torch.dtype, cache: torch.dtype) -> None:
    if q_dtype != cache:
        check_decode(paged_decode, [37], [([0, 1], 0, 0, 37)], q_dtype=q_dtype, cache=cache, kv_heads=1)


@pytest.mark.parametrize("cache", [E4M3, E5M2, INT8])
@pytest.mark.parametrize("scaled", [False, True])
def test_values_of_all_sizes(cache: torch.dtype, scaled: bool) -> None:
    """In fp16, 127 * 1e-5 / 127 would be nothing."""
    for sizes in ((1e-5,), (1e3,), (1.0, 1e-5, 1e3) if scaled else (1.0,)):
        case: dict[str, Any] = {"cache": cache, "scaled": scaled, "sizes": sizes, "size": max(sizes)}
        check_decode(paged_decode, [37], [([0], 0, 0, 37)], q_dtype=BF16, kv_heads=1, **case)


def test_what_does_not_go_together_is_refused_before_anything_runs() -> None:
    def spoilt(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, items: torch.Tensor, *rest: Any, **scales: Any
    ) -> None:
        with pytest.raises(ValueError, match=r"q_len of items has 1\d\d\d"):
            paged_decode(q, k, v, items + 1000, *rest, **scales)
        paged_decode(q, k, v, items, *rest, **scales)

    check_decode(spoilt, [9], [([0], 0, 0, 9)], kv_heads=1)


def test_no_items_are_no_launch() -> None:
    def without(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, items: torch.Tensor, *rest: Any, **scales: Any
    ) -> None:
        paged_decode(q, k, v, items[:0], *rest, **scales)

    check_decode(without, [9], [([0], 0, 0, 0)], kv_heads=1)


def test_caches_that_a_gpu_cannot_read_are_refused() -> None:
    q, cache = torch.zeros(1, 2, 64), torch.zeros(2, 1, 16, 64).to(E4M3)
    with pytest.raises(ValueError, match="sm_80 has no float8_e4m3fn caches, sm_89"):
        AttentionLaunch.of(Target("cuda", 80), q, cache, cache, None, 1.0, 1.0)
    for target in (Target("cuda", 89), Target("hip", "gfx942")):
        AttentionLaunch.of(target, q, cache, cache, None, 1.0, 1.0)


TARGETS = [Target("cuda", 80), Target("cuda", 86), Target("cuda", 90), Target("cuda", 120), Target("hip", "gfx942")]


def test_tiles_are_what_a_matrix_product_takes_and_no_larger_than_they_need_be() -> None:
    for target in TARGETS:
        for head_dim, cache_bytes, query_bytes in ((64, 2, 2), (128, 1, 2), (256, 2, 2), (128, 4, 4)):
            most = prefill_rows(target, head_dim, cache_bytes, query_bytes)
            for rows, fits in ((1, 16), (16, 16), (17, 32), (128, 128), (1000, 1024)):
                for pick in (decode_tile, prefill_tile):
                    tile = pick(target, rows, head_dim, cache_bytes, query_bytes)
                    assert tile.rows == min(fits, most)
                    assert tile.tokens in (16, 32, 64)
                    assert tile.warps * (64 if target.backend == "hip" else 32) <= 1024


def test_one_scale_for_a_cache_may_be_a_whole_number() -> None:
    cache = torch.ones(2, 1, 16, 16, dtype=torch.int8)
    items = torch.tensor([[0, 1, 0, 16]], dtype=torch.int32)
    lists = torch.tensor([0], dtype=torch.int32), torch.tensor([1], dtype=torch.int32)
    out, lse = torch.zeros(1, 1, 16), torch.zeros(1, 1)
    paged_decode(torch.ones(1, 1, 16), cache, cache, items, *lists, 1, out, lse, k_scale=2, v_scale=3)
    assert torch.equal(out, torch.full_like(out, 3.0))
