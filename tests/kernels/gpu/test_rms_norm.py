from __future__ import annotations

import pytest
import torch

from kvtool.kernels.gpu.rms_norm import add_rms_norm, rms_norm
from kvtool.kernels.rms_norm import add_rms_norm as add_twin
from kvtool.kernels.rms_norm import rms_norm as twin
from tests.kernels.interpreter import sanitize
from tests.kernels.small_cases import FLOATS, normed, random


def assert_near(actual: torch.Tensor, expected: torch.Tensor, roundings: float) -> None:
    eps = torch.finfo(actual.dtype).eps
    torch.testing.assert_close(actual.double(), expected.double(), rtol=roundings * eps, atol=roundings * eps)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (37, 64), (3, 896), (2, 4096), (1, 16_384)])
def test_norms_and_sums(dtype: torch.dtype, rows: int, columns: int) -> None:
    """Of slices of wider rows; each number is read once."""
    x, delta = (random(rows, columns + 16, dtype=dtype, seed=seed)[:, 16:] for seed in (0, 1))
    weight = random(columns, dtype=dtype, seed=2)
    with sanitize() as traffic:
        out = rms_norm(x, weight, 1e-3)
        total, of_total = add_rms_norm(x, delta, weight, 1e-3)
    assert_near(out, normed(x, weight, 1e-3), 2)
    assert_near(out, twin(x, weight, 1e-3), 2)
    expected = add_twin(x, delta, weight, 1e-3)
    assert torch.equal(total, expected[0])
    assert_near(of_total, expected[1], 2)
    if dtype != torch.float32:  # many numbers would differ if the sum were normed before it is rounded
        assert (of_total == expected[1]).double().mean() > 0.99
    size = rows * columns * x.element_size()
    assert (traffic.loaded["x"], traffic.loaded["delta"]) == (2 * size, size)
    assert (traffic.stored["out"], traffic.stored["total"]) == (2 * size, size)


def test_heads() -> None:
    """With a weight for each, and with one for all."""
    for dtype in FLOATS:
        x = random(6, 5, 24, dtype=dtype)[:, 1:4]
        for weight in (random(3, 24, dtype=dtype, seed=1), random(24, dtype=dtype, seed=1)):
            with sanitize():
                out = rms_norm(x, weight, 1e-6)
            assert out.is_contiguous()
            assert_near(out, twin(x, weight, 1e-6), 2)


def test_any_number_of_dimensions() -> None:
    weight = random(8, seed=1)
    assert_near(rms_norm(random(8), weight, 0.0), twin(random(8), weight, 0.0), 2)
    x = random(2, 3, 4, 8).transpose(0, 1)
    assert_near(rms_norm(x, weight, 0.0), twin(x, weight, 0.0), 2)


def test_no_rows() -> None:
    x, weight = torch.zeros(0, 8), torch.ones(8)
    assert [out.shape for out in (rms_norm(x, weight, 0.0), *add_rms_norm(x, x, weight, 0.0))] == [x.shape] * 3


def test_rows_can_be_too_long() -> None:
    x, weight = torch.zeros(1, 16_385), torch.zeros(16_385)
    with pytest.raises(ValueError, match=r"rows of 16385 elements .* 16384"):
        rms_norm(x, weight, 1e-6)
    with pytest.raises(ValueError, match="rows of 16385 elements"):
        add_rms_norm(x, x, weight, 1e-6)
