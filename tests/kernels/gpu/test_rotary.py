from __future__ import annotations

import pytest
import torch

from kvtool.kernels.gpu.rotary import rotary
from kvtool.kernels.gpu.rotary_store_kv import rotary_store_kv
from kvtool.kernels.rotary import rotary as rotary_twin
from kvtool.kernels.rotary_store_kv import rotary_store_kv as store_twin
from tests.kernels.interpreter import sanitize
from tests.kernels.small_cases import CACHES, FLOATS, angles, fill, normed, random, rotated


def assert_near(actual: torch.Tensor, expected: torch.Tensor, roundings: float) -> None:
    eps = torch.finfo(actual.dtype).eps
    torch.testing.assert_close(actual.double(), expected.double(), rtol=roundings * eps, atol=roundings * eps)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("tokens", "heads", "dim"), [(1, 1, 2), (9, 3, 80), (5, 14, 64)])
def test_rotary(dtype: torch.dtype, tokens: int, heads: int, dim: int) -> None:
    x = random(tokens, heads + 2, dim, dtype=dtype)[:, 1:-1]
    factors = angles(tokens, dim, dtype)
    with sanitize() as traffic:
        out = rotary(x, *factors)
    assert out.is_contiguous()
    assert_near(out, rotated(x, *factors), 4)
    assert_near(out, rotary_twin(x, *factors), 1)
    assert traffic.loaded["x"] == traffic.stored["out"] == x.numel() * x.element_size()


def test_factors_need_not_be_those_of_a_rotation() -> None:
    """All of cos and sin count; and what is not fp32 is rounded where the twin rounds it."""
    for dtype in FLOATS:
        x, cos, sin = (random(9, heads, 80, dtype=dtype, seed=seed) for seed, heads in enumerate((5, 1, 1)))
        out, expected = rotary(x, cos, sin), rotary_twin(x, cos, sin)
        assert_near(out, expected, 4)
        if dtype != torch.float32:
            assert (out == expected).double().mean() > 0.99


@pytest.mark.parametrize(("dtype", "cache_dtype", "dynamic"), CACHES)
@pytest.mark.parametrize("qk_norm", [False, True])
def test_heads_are_normed_rotated_and_stored(
    dtype: torch.dtype, cache_dtype: torch.dtype, dynamic: bool, qk_norm: bool
) -> None:
    case = fill(dtype, cache_dtype, dynamic=dynamic)
    cos, sin = angles(7, 16, dtype)
    weight = random(6, 16, dtype=dtype, seed=1) if qk_norm else None
    with sanitize():
        q = rotary_store_kv(
            case.qkv, cos, sin, case.k_cache, case.v_cache, case.slots, case.k_scale, case.v_scale,
            qk_norm=weight, eps=1e-6,
        )  # fmt: skip
    qk = case.qkv[:, :6] if weight is None else normed(case.qkv[:, :6], weight, 1e-6)
    expected = rotated(qk, cos, sin)
    assert_near(q, expected[:, :4], 6)
    case.check_stored(expected[:, 4:], case.v.double(), 6 * torch.finfo(dtype).eps)


@pytest.mark.parametrize(
    ("tokens", "q_heads", "kv_heads", "dim", "page"),
    [(1, 14, 2, 64, 16), (12, 4, 4, 80, 16), (17, 8, 1, 128, 64), (3, 7, 7, 6, 1)],
)
@pytest.mark.parametrize("qk_norm", [False, True])
def test_shapes(tokens: int, q_heads: int, kv_heads: int, dim: int, page: int, qk_norm: bool) -> None:
    """As the twin does it, in one pass: each number of the projection is read once."""
    shape = {"tokens": tokens, "q_heads": q_heads, "kv_heads": kv_heads, "dim": dim, "page": page}
    case = fill(torch.bfloat16, torch.bfloat16, **shape)
    cos, sin = angles(tokens, dim, torch.bfloat16)
    weight = random(q_heads + kv_heads, dim, dtype=torch.bfloat16, seed=1) if qk_norm else None
    expected = case.again()
    with sanitize() as traffic:
        q = rotary_store_kv(case.qkv, cos, sin, case.k_cache, case.v_cache, case.slots, qk_norm=weight, eps=1e-5)
    twin_q = store_twin(case.qkv, cos, sin, expected.k_cache, expected.v_cache, case.slots, qk_norm=weight, eps=1e-5)
    assert_near(q, twin_q, 2)
    assert_near(case.k_cache, expected.k_cache, 2)
    assert torch.equal(case.v_cache, expected.v_cache)
    assert traffic.loaded["qkv"] == case.qkv.numel() * 2
    assert traffic.stored["q"] == q.numel() * 2


def test_no_tokens() -> None:
    case = fill(torch.float16, torch.int8, tokens=0, dynamic=True)
    untouched = case.again()
    factors = angles(0, 16, torch.float16)
    q = rotary_store_kv(case.qkv, *factors, case.k_cache, case.v_cache, case.slots, case.k_scale, case.v_scale)
    assert q.shape == (0, 4, 16)
    assert rotary(case.qkv, *factors).shape == (0, 8, 16)
    assert case.same(untouched)
