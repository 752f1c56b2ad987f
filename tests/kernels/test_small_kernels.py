"""The small kernels' torch twins: what a decoder does between its matrix products and its attention."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import silu

from kvtool.kernels.merge_states import merge_states
from kvtool.kernels.rms_norm import add_rms_norm, rms_norm
from kvtool.kernels.rotary import rotary
from kvtool.kernels.rotary_store_kv import rotary_store_kv
from kvtool.kernels.store_kv import store_kv
from kvtool.kernels.swiglu import swiglu
from tests.kernels.small_cases import CACHES, FLOATS, angles, bad_calls, fill, normed, random, rotated

KERNELS = SimpleNamespace(
    add_rms_norm=add_rms_norm,
    merge_states=merge_states,
    rms_norm=rms_norm,
    rotary=rotary,
    rotary_store_kv=rotary_store_kv,
    store_kv=store_kv,
    swiglu=swiglu,
)
BAD = bad_calls(KERNELS)


def assert_near(actual: torch.Tensor, expected: torch.Tensor, roundings: float = 2) -> None:
    """Within that many times the distance of the type's neighbouring numbers, of numbers around one."""
    eps = torch.finfo(actual.dtype).eps
    torch.testing.assert_close(actual.double(), expected, rtol=roundings * eps, atol=roundings * eps)


def test_norms() -> None:
    for dtype in FLOATS:
        x, weight = random(5, 24, dtype=dtype), random(24, dtype=dtype, seed=1)
        assert_near(rms_norm(x, weight, 1e-3), normed(x, weight, 1e-3))
        delta = random(5, 24, dtype=dtype, seed=2)
        total, out = add_rms_norm(x, delta, weight, 1e-3)
        assert torch.equal(total, x + delta)
        assert_near(out, normed(total, weight, 1e-3))


def test_a_norm_for_each_head_is_rounded_before_its_weight() -> None:
    x, weight = random(5, 3, 8, dtype=torch.bfloat16), random(3, 8, dtype=torch.bfloat16, seed=1)
    expected = normed(x, torch.ones(8), 1e-6).bfloat16().double() * weight.double()
    assert torch.equal(rms_norm(x, weight, 1e-6), expected.bfloat16())


def test_rotary_turns_pairs() -> None:
    for dtype in FLOATS:
        x = random(5, 4, 10, dtype=dtype)[:, 1:]
        factors = angles(5, 10, dtype)
        assert_near(rotary(x, *factors), rotated(x, *factors), 4)


def test_swiglu() -> None:
    for dtype in FLOATS:
        gate_up = random(5, 14, dtype=dtype)
        gate, up = gate_up.double().chunk(2, dim=-1)
        assert_near(swiglu(gate_up), silu(gate) * up)


@pytest.mark.parametrize(("dtype", "cache_dtype", "dynamic"), CACHES)
@pytest.mark.parametrize("qk_norm", [False, True])
def test_heads_are_normed_rotated_and_stored(
    dtype: torch.dtype, cache_dtype: torch.dtype, dynamic: bool, qk_norm: bool
) -> None:
    case = fill(dtype, cache_dtype, dynamic=dynamic)
    cos, sin = angles(7, 16, dtype)
    weight = random(6, 16, dtype=dtype, seed=1) if qk_norm else None
    q = rotary_store_kv(
        case.qkv, cos, sin, case.k_cache, case.v_cache, case.slots, case.k_scale, case.v_scale, qk_norm=weight, eps=1e-6
    )
    qk = case.qkv[:, :6] if weight is None else normed(case.qkv[:, :6], weight, 1e-6)
    expected = rotated(qk, cos, sin)
    assert_near(q, expected[:, :4], 6)
    case.check_stored(expected[:, 4:], case.v.double(), 6 * torch.finfo(dtype).eps)


def test_rows_of_nothing() -> None:
    nothing = torch.zeros(0, 8)
    assert rms_norm(nothing, torch.ones(8), 1e-6).shape == (0, 8)
    assert swiglu(nothing).shape == (0, 4)
    case = fill(torch.float32, torch.int8, dynamic=True, tokens=0, dim=8)
    untouched = case.again()
    q = rotary_store_kv(case.qkv, *angles(0, 8), case.k_cache, case.v_cache, case.slots, case.k_scale, case.v_scale)
    assert q.shape == (0, 4, 8)
    assert case.same(untouched)


def test_what_does_not_go_together_is_an_error() -> None:
    for index in range(len(BAD)):
        message, call = BAD[index]
        with pytest.raises(ValueError, match=message):
            call()
