from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from kvtool.kernels.gpu.merge_states import merge_states
from tests.kernels.interpreter import sanitize
from tests.kernels.merge_cases import UNTOUCHED, parts


def test_rows_are_merged_and_the_others_left_alone() -> None:
    """Two parts, none, one, more than are read at once, and as many as that; nothing else is touched."""
    for dtype, dim in [(torch.float32, 16), (torch.float16, 80), (torch.bfloat16, 128), (torch.float32, 256)]:
        case = parts([2, 0, 1, 11, 8], heads=2, dtype=dtype, dim=dim)
        with sanitize() as traffic:
            merge_states(*case.arguments())
        tolerance = 2 * torch.finfo(dtype).eps
        torch.testing.assert_close(case.out.double(), case.expected(), rtol=tolerance, atol=tolerance)
        assert traffic.loaded["partial_out"] == 22 * 2 * dim * 4
        assert traffic.stored == {"out": 4 * 2 * dim * case.out.element_size()}


def test_parts_that_saw_nothing_do_not_count() -> None:
    """Once first, once last, once all, and once all of those that are read at once."""
    case = parts([3, 2, 2, 10], empty=[0, 4, 5, 6, *range(7, 15)])
    merge_states(*case.arguments())
    torch.testing.assert_close(case.out.double(), case.expected(), rtol=1e-6, atol=1e-6)
    assert not case.out[case.out_rows[2]].any()


def test_rows_without_parts_are_not_written() -> None:
    case = parts([0, 0])
    with sanitize() as traffic:
        merge_states(*case.arguments())
    assert (case.out == UNTOUCHED).all()
    assert traffic.bytes_stored == 0


@examples(max_examples=8)
@given(st.lists(st.integers(0, 12), max_size=4), st.floats(0, 1_000), st.integers(0, 1_000))
def test_a_merge_is_the_mean_of_its_parts(counts: list[int], spread: float, seed: int) -> None:
    case = parts(counts, heads=2, spread=spread, seed=seed)
    merge_states(*case.arguments())
    torch.testing.assert_close(case.out.double(), case.expected(), rtol=1e-5, atol=1e-5)
