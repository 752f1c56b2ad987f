from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch

from kvtool.kernels.merge_states import merge_states
from kvtool.kernels.paged_decode import paged_decode
from tests.kernels.attention_cases import BF16, E4M3, E5M2, FP16, FP32, INT8, attention64, check_decode, paged, queries

ITEMS = [([0, 2, 1], 0, 0, 32), ([1], 0, 2, 8), ([2], 1, 0, 70), ([0], 1, 0, 0)]


@pytest.mark.parametrize("q_dtype", [FP32, FP16, BF16])
@pytest.mark.parametrize("cache", [FP32, FP16, BF16, E4M3, E5M2, INT8])
def test_every_cache_is_read_as_it_was_meant(q_dtype: torch.dtype, cache: torch.dtype) -> None:
    check_decode(paged_decode, [40, 70], ITEMS, q_dtype=q_dtype, cache=cache, scaled=cache == INT8)


def test_shapes() -> None:
    for case in [
        {"page": 4, "dim": 80, "group": 3},
        {"page": 1, "dim": 128, "group": 1, "scale": 0.3},
        {"kv_heads": 1, "group": 8, "cache": E5M2, "scaled": True},
    ]:
        check_decode(paged_decode, [40, 70], ITEMS, **case)


def test_parts_make_up_a_whole() -> None:
    """The tokens of two queries, a shared prefix of both and the rest of each, read as three items."""
    kv = paged([48, 41])
    kv.block_table[1, :2] = kv.block_table[0, :2]
    shared, rest = kv.block_table[0, :2], kv.block_table[:, 2]
    q = queries(2, 4, 64, FP32)
    items = torch.tensor([[0, 2, 0, 32], [2, 1, 2, 16], [3, 1, 3, 9]], dtype=torch.int32)
    index = torch.tensor([0, 1, 0, 1], dtype=torch.int32)
    parts = torch.empty(4, 4, 64), torch.empty(4, 4)
    paged_decode(q, kv.k_cache, kv.v_cache, items, index, torch.cat([shared, rest]), 2, *parts)
    out = torch.empty(2, 4, 64)
    csr = torch.tensor([0, 2, 4], dtype=torch.int32), torch.tensor([0, 2, 1, 3], dtype=torch.int32)
    merge_states(*parts, *csr, torch.tensor([0, 1], dtype=torch.int32), out)
    for query, length in enumerate((48, 41)):
        tokens = [kv.keys[0][:, :32], kv.keys[query][:, 32:]], [kv.values[0][:, :32], kv.values[query][:, 32:]]
        everything = torch.ones(1, length, dtype=torch.bool)
        want, _ = attention64(q[query : query + 1], *(torch.cat(x, dim=1) for x in tokens), everything)
        torch.testing.assert_close(out[query].double(), want[0], rtol=1e-5, atol=1e-5)


def test_the_logarithm_is_of_base_two() -> None:
    k = torch.zeros(2, 1, 4, 16)
    out, lse = torch.empty(1, 1, 16), torch.empty(1, 1)
    items, zero = torch.tensor([[0, 1, 0, 3]], dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    paged_decode(torch.ones(1, 1, 16), k, k, items, zero, zero, 1, out, lse)
    assert lse.item() == pytest.approx(math.log2(3))


def _arguments() -> dict[str, Any]:
    kv = paged([40, 70], page=16)
    return {
        "q": queries(3, 4, 64, FP32),
        "k_cache": kv.k_cache,
        "v_cache": kv.v_cache,
        "items": _items(0, 2, 0, 33),
        "query_index": torch.tensor([2, 0, 1], dtype=torch.int32),
        "block_index": kv.block_table.flatten()[:4],
        "most_queries": 2,
        "partial_out": torch.full((3, 4, 64), math.nan),
        "partial_lse": torch.full((3, 4), math.nan),
    }


def _items(*item: int) -> torch.Tensor:
    return torch.tensor([item], dtype=torch.int32)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"items": torch.zeros(1, 5, dtype=torch.int32)}, "items must be [any, 4]"),
    ({"items": torch.zeros(1, 4)}, "items must be int32, not float32"),
    ({"items": torch.zeros(4, 2, dtype=torch.int32).T}, "items must be contiguous"),
    ({"items": _items(0, 1, 0, -1)}, "kv_len of items has -1"),
    ({"items": _items(0, 3, 0, 8)}, "q_len of items has 3, which is not in [0, 3)"),
    ({"items": _items(-1, 1, 0, 8)}, "q_off of items has -1"),
    ({"items": _items(2, 2, 0, 8)}, "q_off + q_len of items has 4, which is not in [0, 4)"),
    ({"items": _items(0, 1, -1, 8)}, "blk_off of items has -1"),
    ({"items": _items(0, 1, 3, 17)}, "blk_off + ceil(kv_len / P) of items has 5, which is not in [0, 5)"),
    ({"query_index": torch.tensor([0, 3, 1], dtype=torch.int32)}, "query_index has 3, which is not in [0, 3)"),
    ({"block_index": torch.tensor([1, 2, 9], dtype=torch.int32)}, "block_index has 9, which is not in [0, 9)"),
    ({"most_queries": 0}, "most_queries must be from 1 to the 3 of query_index, not 0"),
    (
        {"partial_out": torch.empty(1, 4, 64), "partial_lse": torch.empty(1, 4)},
        "q_off + q_len of items has 2, which is not in [0, 2)",
    ),
    ({"partial_lse": torch.empty(3, 5)}, "partial_lse must be [3, 4]"),
    ({"v_scale": -1.0}, "v_scale must be above 0 and finite, not -1.0"),
    ({"scale": math.inf}, "scale must be above 0 and finite, not inf"),
]


def test_what_does_not_go_together_is_refused() -> None:
    for change, message in BAD:
        arguments = {**_arguments(), **change}
        with pytest.raises(ValueError, match=re.escape(message)):
            paged_decode(**arguments)


def test_only_what_items_use_is_looked_at() -> None:
    """Buffers of a fixed size hold anything behind what is in use."""
    arguments = _arguments()
    arguments["query_index"][2] = -7
    arguments["block_index"][3] = 1000
    arguments["items"] = torch.tensor([[0, 2, 0, 33], [-5, 9, 77, 0]], dtype=torch.int32)
    paged_decode(**arguments)
    assert bool(arguments["partial_out"][:2].isfinite().all())
    assert bool(arguments["partial_out"][2].isnan().all())
