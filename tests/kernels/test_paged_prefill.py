from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from kvtool.kernels.paged_attention import paged_attention
from kvtool.kernels.paged_prefill import paged_prefill
from tests.kernels.attention_cases import BF16, E4M3, E5M2, FP16, FP32, INT8, check_prefill, paged, queries


@pytest.mark.parametrize("q_dtype", [FP32, FP16, BF16])
@pytest.mark.parametrize("cache", [FP32, FP16, BF16, E4M3, E5M2, INT8])
def test_every_cache_is_read_as_it_was_meant(q_dtype: torch.dtype, cache: torch.dtype) -> None:
    check_prefill(paged_prefill, [40, 70], [9, 20], q_dtype=q_dtype, cache=cache, scaled=cache == INT8)


def test_shapes_and_parts() -> None:
    for case in [
        {"page": 4, "dim": 80, "group": 3},
        {"page": 64, "dim": 128, "group": 1},
        {"page": 1, "group": 8, "tile_queries": 3, "scale": 0.3},
        {"parts": (16, 48)},
        {"parts": (64,), "page": 64, "q_dtype": BF16, "cache": E5M2, "scaled": True},
    ]:
        check_prefill(paged_prefill, [5, 70, 33], [5, 20, 1], **case)


def test_it_agrees_with_attention_of_whole_batches() -> None:
    lengths, counts = [33, 64, 7], [33, 10, 1]
    kv = paged(lengths)
    query_start = torch.tensor([0, *counts]).cumsum(0).int()
    q = queries(sum(counts), 4, 64, FP32)
    batch = kv.block_table, query_start, torch.tensor(lengths, dtype=torch.int32)
    tiles = torch.tensor([[i, first, 0, lengths[i], -1] for i in range(3) for first in range(0, counts[i], 8)])
    out = torch.empty_like(q)
    partials = torch.empty(0, 4, 64), torch.empty(0, 4)
    paged_prefill(q, kv.k_cache, kv.v_cache, *batch, tiles.int(), 8, out, *partials)
    torch.testing.assert_close(out, paged_attention(q, kv.k_cache, kv.v_cache, *batch), rtol=1e-5, atol=1e-5)


def _arguments() -> dict[str, Any]:
    kv = paged([40, 20], page=16)
    return {
        "q": queries(25, 4, 64, FP32),
        "k_cache": kv.k_cache,
        "v_cache": kv.v_cache,
        "block_table": kv.block_table,
        "query_start": torch.tensor([0, 5, 25], dtype=torch.int32),
        "seq_lens": torch.tensor([40, 20], dtype=torch.int32),
        "tiles": torch.tensor([[1, 8, 0, 20, -1], [0, 0, 16, 40, 2]], dtype=torch.int32),
        "tile_queries": 8,
        "out": torch.empty(25, 4, 64),
        "partial_out": torch.empty(7, 4, 64),
        "partial_lse": torch.empty(7, 4),
    }


def _tiles(*tile: int) -> torch.Tensor:
    return torch.tensor([tile], dtype=torch.int32)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"q": torch.empty(25, 5, 64), "out": torch.empty(25, 5, 64)}, "5 query heads cannot share 2"),
    ({"q": torch.empty(25, 4, 32)}, "q must be [any, any, 64]"),
    ({"q": torch.empty(25, 4, 64).double()}, "not float64"),
    ({"out": torch.empty(25, 4, 64).half()}, "out must be float32"),
    ({"out": torch.empty(24, 4, 64)}, "out must be [25, 4, 64]"),
    ({"out": torch.empty(25, 64, 4).mT}, "out must be contiguous in its last dimension"),
    ({"partial_out": torch.empty(7, 4, 64).half()}, "partial_out must be float32"),
    ({"partial_lse": torch.empty(6, 4)}, "partial_lse must be [7, 4]"),
    ({"v_cache": torch.empty(9, 2, 16, 64)}, "v_cache must be"),
    ({"query_start": torch.tensor([0, 25], dtype=torch.int32)}, "query_start must be [3]"),
    ({"query_start": torch.tensor([0, 5, 26], dtype=torch.int32)}, "query_start has 26"),
    ({"query_start": torch.tensor([0, 5, 25])}, "query_start must be int32, not int64"),
    ({"seq_lens": torch.tensor([40, 19], dtype=torch.int32)}, "a request's queries is 20, which is not in [0, 20)"),
    ({"block_table": torch.full((2, 3), 6, dtype=torch.int32)}, "block_table has 6, which is not in [0, 6)"),
    ({"block_table": torch.ones(2, 2, dtype=torch.int32)}, "number of blocks up to kv_to is 3, which is not in [0, 3)"),
    ({"tiles": torch.zeros(1, 4, dtype=torch.int32)}, "tiles must be [any, 5]"),
    ({"tiles": _tiles(2, 0, 0, 8, -1)}, "request of tiles has 2"),
    ({"tiles": _tiles(0, 5, 0, 8, -1)}, "first query of a tile is 5, which is not in [0, 5)"),
    ({"tiles": _tiles(0, 0, 8, 16, -1)}, "kv_from of a tile is 8"),
    ({"tiles": _tiles(0, 0, 0, 41, -1)}, "kv_to of a tile is 41, which is not in [0, 41)"),
    ({"tiles": _tiles(0, 0, 32, 16, -1)}, "kv_from of a tile is 32, which is not in [0, 17)"),
    ({"tiles": _tiles(0, 0, 0, 16, 3)}, "part + number of queries of a tile has 8, which is not in [0, 8)"),
    ({"tiles": _tiles(0, 0, 0, 16, -2)}, "part of tiles has -2"),
    ({"tile_queries": 0}, "tile_queries must be at least 1, not 0"),
    ({"scale": 0.0}, "scale must be above 0"),
    ({"k_scale": torch.ones(6, 2, 15)}, "k_scale must be [6, 2, 16]"),
    ({"v_scale": torch.ones(6, 16, 2).mT}, "v_scale must be contiguous in its last dimension"),
]


def test_what_does_not_go_together_is_refused() -> None:
    for change, message in BAD:
        with pytest.raises(ValueError, match=re.escape(message)):
            paged_prefill(**{**_arguments(), **change})


def test_the_arguments_that_are_spoilt_above_are_good() -> None:
    arguments = _arguments()
    arguments["out"].fill_(torch.nan)
    paged_prefill(**arguments)
    assert bool(arguments["out"][13:21].isfinite().all())
