"""What tests/kernels/interpreter.py promises, with kernels of a few lines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

pytest.importorskip("triton", reason="Triton has no wheel for this machine")

import triton
import triton.language as tl
from triton.runtime import interpreter

from tests.kernels.interpreter import KernelError, corrected, sanitize

SMALL_FLOATS = [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
LARGEST = {torch.bfloat16: None, torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57_344.0}


@pytest.fixture(autouse=True)
def _corrected_interpreter() -> Iterator[None]:
    with corrected():
        yield


def rounded(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """torch's own cast, which the kernels' is compared with; 8-bit floats saturate."""
    largest = LARGEST[dtype]
    return (x if largest is None else x.clamp(-largest, largest)).to(dtype)


@triton.jit
def _cast(x, y, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(y + at, tl.load(x + at).to(y.dtype.element_ty))


@triton.jit
def _arithmetic(x, y, out, n: tl.constexpr):
    at = tl.arange(0, n)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(out + at, a + b)
    tl.store(out + n + at, a - b)
    tl.store(out + 2 * n + at, a * b)
    tl.store(out + 3 * n + at, tl.where(a < b, a, b))
    tl.store(out + 4 * n + at, -a)
    tl.store(out + 5 * n + at, tl.maximum(a, b))
    tl.store(out + 6 * n + at, tl.full([n], 0.3, out.dtype.element_ty))


@triton.jit
def _dot(a, b, out, n: tl.constexpr, precision: tl.constexpr):
    at = tl.arange(0, n)[:, None] * n + tl.arange(0, n)
    product = tl.dot(tl.load(a + at), tl.load(b + at), input_precision=precision)
    tl.store(out + at, product.to(out.dtype.element_ty))


@triton.jit
def _sum(x, y, n: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, n)), 0))


def test_every_small_float_is_widened_exactly() -> None:
    for dtype in SMALL_FLOATS:
        bits = torch.arange(1 << (8 * dtype.itemsize)).to(torch.uint16 if dtype.itemsize == 2 else torch.uint8)
        x = bits.view(dtype)
        wide = torch.empty(x.shape)
        _cast[(1,)](x, wide, n=x.numel())
        assert torch.equal(wide.nan_to_num(nan=-1.25), x.float().nan_to_num(nan=-1.25))


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
@pytest.mark.parametrize("source", [torch.float32, torch.float16, torch.bfloat16])
def test_casts_round_to_nearest_even_and_8_bits_saturate(dtype: torch.dtype, source: torch.dtype) -> None:
    magnitude = torch.exp2(torch.empty(4090).uniform_(-20, 15))
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.0 + 2.0**-8])
    x = torch.cat((magnitude * torch.randn(4090), special)).to(source)
    y = torch.empty(4096, dtype=dtype)
    _cast[(1,)](x, y, n=4096)
    want = rounded(x.float(), dtype).float()
    assert torch.equal(y.float().nan_to_num(nan=-1.25), want.nan_to_num(nan=-1.25))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32])
def test_integers_become_bf16_and_come_back(dtype: torch.dtype) -> None:
    x = torch.randint(-128, 128, (256,)).to(dtype)
    narrow, back = torch.empty(256, dtype=torch.bfloat16), torch.empty(256, dtype=dtype)
    _cast[(1,)](x, narrow, n=256)
    _cast[(1,)](narrow, back, n=256)
    assert torch.equal(narrow, x.bfloat16())
    assert torch.equal(back, x)


def test_bf16_arithmetic_is_by_value() -> None:
    x, y = torch.randn(2, 64).bfloat16()
    out = torch.empty(7, 64, dtype=torch.bfloat16)
    _arithmetic[(1,)](x, y, out, n=64)
    constant = torch.full((64,), 0.3, dtype=torch.bfloat16)
    want = [x + y, x - y, x * y, torch.minimum(x, y), -x, torch.maximum(x, y), constant]
    assert torch.equal(out, torch.stack(want))


def test_dot_of_small_floats() -> None:
    for dtype in SMALL_FLOATS:
        a, b = torch.randn(2, 32, 32).to(dtype)
        out = torch.empty(32, 32)
        _dot[(1,)](a, b, out, n=32, precision="tf32")
        torch.testing.assert_close(out.double(), a.double() @ b.double(), rtol=1e-5, atol=1e-5)


def test_dot_of_float32_is_exact_only_if_the_kernel_asks_for_it() -> None:
    a, b = torch.randn(2, 32, 32)
    ieee, tf32 = torch.empty(2, 32, 32)
    _dot[(1,)](a, b, ieee, n=32, precision="ieee")
    _dot[(1,)](a, b, tf32, n=32, precision="tf32")
    exact = a.double() @ b.double()
    assert (ieee - exact).abs().max() < 1e-5
    assert 1e-4 < (tf32 - exact).abs().max() < 1e-1


def test_reductions_that_would_add_up_bits_are_refused() -> None:
    with pytest.raises(Exception, match=r"a reduction of bf16: make it .to\(tl.float32\) first"):
        _sum[(1,)](torch.ones(8, dtype=torch.bfloat16), torch.zeros(1), n=8)


@triton.jit
def _twice(x):
    return 2 * x


@triton.jit
def _loop(counts, x, y):
    total = 0.0
    for _ in range(tl.load(counts + tl.program_id(0))):
        total += _twice(tl.load(x))
    for _ in tl.range(0, tl.load(counts), 1):
        total += tl.max(tl.load(x + tl.arange(0, 1)), 0)
    tl.store(y + tl.program_id(0), total)


def test_loops_may_end_at_a_loaded_number() -> None:
    y = torch.empty(2)
    _loop[(2,)](torch.tensor([3, 0], dtype=torch.int32), torch.tensor([1.5]), y)
    assert y.tolist() == [13.5, 4.5]


@triton.jit
def _divide(x, y):
    tl.store(y, tl.load(x) / 0.0)
    tl.store(y + 1, (tl.load(x) * 1e30 * 1e30).to(tl.float16).to(tl.float32))


def test_float_errors_are_silent_as_on_a_gpu() -> None:
    y = torch.empty(2)
    _divide[(1,)](torch.tensor([0.5]), y)
    assert y.tolist() == [float("inf")] * 2


def test_triton_is_as_it_was_afterwards() -> None:
    changed = [interpreter, interpreter.InterpreterBuilder, interpreter.GridExecutor, tl.tensor, tl, tl.core]
    before = [dict(vars(x)) for x in changed]
    with corrected(), sanitize():
        assert vars(interpreter.InterpreterBuilder) != before[1]
        _cast[(1,)](torch.zeros(1), torch.zeros(1, dtype=torch.bfloat16), n=1)
    assert [dict(vars(x)) for x in changed] == before


@triton.jit
def _copy(source, target, offset, count, block: tl.constexpr):
    """Program i copies `block` numbers from source + i * block, less those from `count` on, to target + offset + the same."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(target + offset + at, tl.load(source + at, mask=at < count), mask=at < count)


def test_bytes_are_counted_by_parameter() -> None:
    source, target = torch.randn(20).half(), torch.zeros(20)
    with sanitize() as traffic:
        _copy[(3,)](source, target, 0, 18, block=8)
    assert torch.equal(target[:18], source[:18].float())
    assert traffic.loaded == {"source": 18 * 2}
    assert traffic.stored == {"target": 18 * 4}
    assert (traffic.bytes_loaded, traffic.bytes_stored) == (36, 72)
    with sanitize() as traffic:
        for _ in range(2):
            _copy[(1,)](source, target, 0, 0, block=8)
    assert traffic.bytes_loaded == traffic.bytes_stored == 0


def test_accesses_out_of_bounds_fail() -> None:
    for count, offset, where in [
        (24, 0, "program (2, 0, 0) loads source[20] (an offset in elements; 4 of 8 lanes)"),
        (16, 5, "program (1, 0, 0) stores target[20] (an offset in elements; 1 of 8 lanes)"),
        (16, -1, "program (0, 0, 0) stores target[-1] (an offset in elements; 1 of 8 lanes)"),
    ]:
        memory = torch.zeros(64)  # both lie in one allocation: what is outside of the one is well inside of the process
        source, target = memory[:20], memory[32:52]
        source.fill_(1.0)
        with sanitize(), pytest.raises(KernelError) as error:
            _copy[(3,)](source, target, offset, count, block=8)
        assert str(error.value) == f"out of bounds: {where}, and the tensor's elements span 20"
        assert not memory[20:32].any()
        assert not memory[52:].any()


def test_elements_between_those_of_a_slice_are_out_of_bounds() -> None:
    rows = torch.randn(4, 8)
    with sanitize() as traffic:
        _copy[(1,)](rows[:, 2:4], torch.empty(2), 0, 2, block=2)
    assert traffic.loaded == {"source": 8}
    with sanitize(), pytest.raises(KernelError, match=r"loads source\[2\] .* span 26"):
        _copy[(1,)](rows[:, 2:4], torch.empty(4), 0, 4, block=4)


def test_two_programs_that_store_to_one_element_fail() -> None:
    with (
        sanitize(),
        pytest.raises(KernelError, match=r"race: program \(1, 0, 0\) stores target\[7\], .* \(0, 0, 0\) stored"),
    ):
        _overlapping[(2,)](torch.zeros(16), block=8)


@triton.jit
def _overlapping(target, block: tl.constexpr):
    at = tl.program_id(0) * (block - 1) + tl.arange(0, block)
    tl.store(target + at, at.to(tl.float32))


@triton.jit
def _hand_over(x, step):
    """Each program reads the element before or behind its own, which another writes."""
    own = tl.program_id(0) + 1
    tl.store(x + own, tl.load(x + own + step) + 1.0)


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (-1, r"program \(1, 0, 0\) loads x\[1\], which program \(0, 0, 0\) stored"),
        (1, r"program \(1, 0, 0\) stores x\[2\], which program \(0, 0, 0\) loaded"),
    ],
)
def test_what_one_program_writes_no_other_may_read_in_whichever_order(step: int, what: str) -> None:
    with sanitize(), pytest.raises(KernelError, match=f"race: {what} in the same launch"):
        _hand_over[(3,)](torch.zeros(5), step)


def test_races_are_found_between_views_of_one_storage_and_not_between_launches() -> None:
    x = torch.zeros(16)
    with sanitize() as traffic:
        _copy[(2,)](x, x, 0, 16, block=8)  # in place: each program reads what it writes itself
        _copy[(1,)](x, x[8:], 0, 8, block=8)
    assert traffic.loaded == {"source": 96}
    with sanitize(), pytest.raises(KernelError, match=r"race: program .* loads source"):
        _copy[(2,)](x, x[8:], 0, 16, block=8)


@triton.jit
def _count(counters, x, y):
    ticket = tl.atomic_add(counters, 1)
    tl.store(y + ticket, tl.load(x))
    tl.atomic_max(counters + 1, tl.program_id(0))


def test_atomics_are_counted_and_kept_in_bounds_but_do_not_race() -> None:
    counters, y = torch.zeros(2, dtype=torch.int32), torch.zeros(4)
    with sanitize() as traffic:
        _count[(4,)](counters, torch.ones(1), y)
    assert counters.tolist() == [4, 3]
    assert traffic.loaded == {"counters": 32, "x": 16}
    assert traffic.stored == {"counters": 32, "y": 16}
    counters.zero_()
    with sanitize(), pytest.raises(KernelError, match=r"program \(0, 0, 0\) updates counters\[1\]"):
        _count[(4,)](counters[:1], torch.ones(1), y)


@triton.jit
def _by_descriptor(x, y, rows, claimed, columns: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [claimed, columns], [columns, 1], [4, columns])
    target = tl.make_tensor_descriptor(y, [rows, columns], [columns, 1], [4, columns])
    first = tl.program_id(0) * 4
    target.store([first, 0], source.load([first, 0]))


def test_descriptors_are_watched_too() -> None:
    x, y = torch.randn(6, 8), torch.zeros(6, 8)
    with sanitize() as traffic:
        _by_descriptor[(2,)](x, y, 6, 6, columns=8)
    assert torch.equal(x, y)
    assert traffic.loaded == {"x": 6 * 8 * 4}
    assert traffic.stored == {"y": 6 * 8 * 4}
    with sanitize(), pytest.raises(KernelError, match=r"program \(1, 0, 0\) loads x\[48\]"):
        _by_descriptor[(2,)](x, y, 6, 7, columns=8)
