"""What no kernel takes, whichever it is."""

from __future__ import annotations

import pytest
import torch

from kvtool.kernels.checks import check_caches, check_devices, check_heads
from kvtool.kernels.kv_quantization import dequantized, quantized
from kvtool.kernels.paged_attention import paged_attention


def test_heads_beyond_the_reach_of_an_int32() -> None:
    """A cache whose heads, not whose blocks, come first: memory that is never touched."""
    cache = torch.empty(3, 1 << 20, 16, 64, dtype=torch.int8, device="meta").permute(1, 0, 2, 3)
    with pytest.raises(ValueError, match=r"k_cache has strides .*: its heads lie more than"):
        check_caches(cache, cache, 1.0, 1.0)
    near = torch.empty(2, 1 << 20, 16, 64, dtype=torch.int8, device="meta").permute(1, 0, 2, 3)
    check_caches(near, near, 1.0, 1.0)


def test_outputs_that_share_memory() -> None:
    x = torch.zeros(1, 2, 4).expand(3, 2, 4)
    check_heads("q", x)
    with pytest.raises(ValueError, match=r"out is written, but elements share memory by its strides \[0, 4, 1\]"):
        check_heads("out", x, written=True)


def test_tensors_on_two_devices() -> None:
    with pytest.raises(ValueError, match="one device, not q on cpu, items on meta"):
        check_devices(q=torch.zeros(1), items=torch.zeros(1, device="meta"), scale=1.0)


def test_scales_may_be_whole_numbers() -> None:
    x = torch.tensor([2.0, 4.0])
    assert quantized(x, 2, torch.int8).tolist() == [1, 2]
    assert dequantized(quantized(x, 2, torch.int8), 2, torch.float32).tolist() == [2.0, 4.0]


def test_what_the_attention_of_a_cpu_refuses() -> None:
    for change, message in [
        ({"block_table": [[1, 99]]}, r"block_table has 99, which is not in \[0, 4\)"),
        ({"block_table": [[-1, 1]]}, "block_table has -1"),
        ({"seq_lens": [33]}, r"seq_lens has 33, which is not in \[0, 33\)"),
        ({"query_start": [0, 3], "seq_lens": [2]}, r"requests have \[3\] queries, and no more than \[2\] tokens"),
    ]:
        lists = {"block_table": [[1, 2]], "query_start": [0, 1], "seq_lens": [20]} | change
        cache = torch.zeros(4, 1, 16, 8)
        with pytest.raises(ValueError, match=message):
            paged_attention(
                torch.zeros(3, 2, 8),
                cache,
                cache,
                **{name: torch.tensor(x, dtype=torch.int32) for name, x in lists.items()},
            )
