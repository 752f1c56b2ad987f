from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from kvtool.kernels.gpu.merge_states import merge_states
from kvtool.kernels.gpu.rms_norm import add_rms_norm, rms_norm
from kvtool.kernels.gpu.rotary import rotary
from kvtool.kernels.gpu.rotary_store_kv import rotary_store_kv
from kvtool.kernels.gpu.store_kv import store_kv
from kvtool.kernels.gpu.swiglu import swiglu
from kvtool.kernels.gpu.tiles import Target
from kvtool.kernels.kv_quantization import MAXIMA
from kvtool.kernels.store_kv import store_kv as twin
from tests.kernels.interpreter import sanitize
from tests.kernels.small_cases import CACHES, bad_calls, fill

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


def test_stores_what_the_twin_does() -> None:
    """Bit for bit, scales and untouched slots as well; with numbers too large for an 8-bit cache, and a row of zeros."""
    for dtype, cache_dtype, dynamic in CACHES:
        case = fill(dtype, cache_dtype, dynamic=dynamic, tokens=11, dim=24)
        case.v[0, 0] *= 30_000
        case.k[0, 0] = 0.0
        expected = case.again()
        with sanitize():
            store_kv(case.k, case.v, case.k_cache, case.v_cache, case.slots, case.k_scale, case.v_scale)
        twin(
            expected.k,
            expected.v,
            expected.k_cache,
            expected.v_cache,
            expected.slots,
            expected.k_scale,
            expected.v_scale,
        )
        assert case.same(expected)


def test_shapes() -> None:
    for tokens, kv_heads, dim, page in [(1, 1, 64, 16), (70, 3, 80, 16), (33, 8, 128, 1), (5, 2, 7, 5)]:
        case = fill(torch.bfloat16, torch.bfloat16, tokens=tokens, kv_heads=kv_heads, dim=dim, page=page)
        with sanitize() as traffic:
            store_kv(case.k, case.v, case.k_cache, case.v_cache, case.slots)
        case.check_stored(case.k.double(), case.v.double(), 0.0)
        kept = int((case.slots >= 0).sum())
        assert traffic.stored == dict.fromkeys(("k_cache", "v_cache"), kept * kv_heads * dim * 2)


def test_one_scale_can_be_a_number_and_the_other_dynamic() -> None:
    case = fill(torch.float32, torch.int8, dynamic=True)
    expected = case.again()
    store_kv(case.k, case.v, case.k_cache, case.v_cache, case.slots, case.k_scale, 0.5)
    twin(case.k, case.v, expected.k_cache, expected.v_cache, case.slots, expected.k_scale, 0.5)
    assert case.same(expected)


def test_ties_go_to_the_even_neighbour() -> None:
    for cache_dtype in MAXIMA:
        case = fill(torch.float32, cache_dtype, tokens=2, dim=16)
        ties = torch.cat([torch.arange(-4, 4) + 0.5, torch.arange(8, 16) * 17.0])
        case.k[0, 0], case.k[0, 1] = ties, -ties
        expected = case.again()
        store_kv(case.k, case.v, case.k_cache, case.v_cache, case.slots)
        twin(case.k, case.v, expected.k_cache, expected.v_cache, case.slots)
        assert case.same(expected)


def test_e4m3_needs_a_target_that_has_it() -> None:
    with pytest.raises(ValueError, match=r"sm_80 .* float8_e5m2 and int8 work"):
        Target("cuda", 80).check_cache(torch.float8_e4m3fn)
    for target in (Target("cuda", 89), Target("cuda", 90), Target("hip", "gfx942")):
        target.check_cache(torch.float8_e4m3fn)
    Target("cuda", 80).check_cache(torch.float8_e5m2)


def test_what_does_not_go_together_is_an_error_before_any_launch() -> None:
    for index in range(len(BAD)):
        message, call = BAD[index]
        with sanitize() as traffic, pytest.raises(ValueError, match=message):
            call()
        assert traffic.bytes_loaded == 0
