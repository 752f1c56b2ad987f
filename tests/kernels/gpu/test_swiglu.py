from __future__ import annotations

import pytest
import torch

from kvtool.kernels.gpu.swiglu import swiglu
from kvtool.kernels.swiglu import swiglu as twin
from tests.kernels.interpreter import sanitize
from tests.kernels.small_cases import FLOATS, random


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("rows", "inner"), [(1, 1), (5, 63), (3, 2100)])
def test_swiglu(dtype: torch.dtype, rows: int, inner: int) -> None:
    """Of rows of any length, apart from each other, with gates beyond where exp overflows."""
    gate_up = random(rows, 2 * inner + 8, dtype=dtype)[:, 8:]
    gate_up[0, 0] = -200.0
    with sanitize() as traffic:
        out = swiglu(gate_up)
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(out, twin(gate_up), rtol=2 * eps, atol=2 * eps)
    assert traffic.loaded["gate_up"] == 2 * traffic.stored["out"] == gate_up.numel() * gate_up.element_size()


def test_no_rows() -> None:
    assert swiglu(torch.zeros(0, 8)).shape == (0, 4)
    assert swiglu(torch.zeros(3, 0)).shape == (3, 0)
