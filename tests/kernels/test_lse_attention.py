"""Attention over parts of the keys, put together again, beside attention over all of them in float64."""

from __future__ import annotations

import pytest
import torch

from kvtool.kernels.lse_attention import attend_lse, merge_lse


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, hidden: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    scores = q.double() @ k.double().mT / q.shape[-1] ** 0.5
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ v.double(), scores.logsumexp(-1)


def inputs(queries: int, keys: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(queries + keys)
    shapes = ((2, 3, queries, 16), (2, 3, keys, 16), (2, 3, keys, 16))
    q, k, v = (torch.randn(shape, generator=random).to(dtype) for shape in shapes)
    return q, k, v


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 3e-3)])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 700), (5, 40), (300, 300)])
def test_output_and_log_sum_exp(queries: int, keys: int, dtype: torch.dtype, tolerance: float) -> None:
    q, k, v = inputs(queries, keys, dtype)
    out, lse = attend_lse(q, k, v)
    expected, expected_lse = reference(q, k, v)
    assert lse.dtype == torch.float32
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=tolerance)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=0, atol=1e-2 if tolerance > 1e-3 else 1e-4)


def test_what_a_mask_hides() -> None:
    q, k, v = inputs(6, 20, torch.float32)
    hidden = torch.arange(20) > 14 + torch.arange(6)[:, None]
    out, lse = attend_lse(q, k, v, mask=torch.zeros(6, 20).masked_fill_(hidden, -torch.inf)[None, None])
    expected, expected_lse = reference(q, k, v, hidden)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=0, atol=1e-5)


def test_causal() -> None:
    q, k, v = inputs(20, 20, torch.float32)
    out, _ = attend_lse(q, k, v, causal=True)
    expected, _ = reference(q, k, v, torch.ones(20, 20, dtype=torch.bool).triu(1))
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=1e-5)


def test_parts_are_merged() -> None:
    """Also where one of them has next to all of the weight."""
    for apart in [0.0, 60.0, -60.0, 300.0]:
        q, k, v = inputs(4, 50, torch.float32)
        k[:, :, 30:] += apart * q.mean(2, keepdim=True)
        out, lse = attend_lse(q, k[:, :, :30], v[:, :, :30])
        merge_lse(out, lse, *attend_lse(q, k[:, :, 30:], v[:, :, 30:]))
        expected, expected_lse = reference(q, k, v)
        torch.testing.assert_close(out.double(), expected, rtol=0, atol=1e-4)
        torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-5, atol=1e-4)
