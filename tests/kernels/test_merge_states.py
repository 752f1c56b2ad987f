from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from kvtool.kernels.merge_states import merge_states
from tests.kernels.merge_cases import UNTOUCHED, parts


def test_rows_are_merged_and_the_others_left_alone() -> None:
    for dtype in [torch.float32, torch.float16, torch.bfloat16]:
        case = parts([2, 0, 1, 11, 3], dtype=dtype)
        merge_states(*case.arguments())
        tolerance = 2 * torch.finfo(dtype).eps
        torch.testing.assert_close(case.out.double(), case.expected(), rtol=tolerance, atol=tolerance)


def test_parts_that_saw_nothing_do_not_count() -> None:
    """In the second row, all of them."""
    case = parts([3, 2], empty=[1, 3, 4])
    merge_states(*case.arguments())
    torch.testing.assert_close(case.out.double(), case.expected(), rtol=1e-6, atol=1e-6)
    assert not case.out[case.out_rows[1]].any()


def test_rows_without_parts_are_not_written() -> None:
    case = parts([0, 0])
    merge_states(*case.arguments())
    assert (case.out == UNTOUCHED).all()


@examples(max_examples=20)
@given(st.lists(st.integers(0, 5), max_size=6), st.floats(0, 1_000), st.integers(0, 1_000))
def test_a_merge_is_the_mean_of_its_parts(counts: list[int], spread: float, seed: int) -> None:
    case = parts(counts, spread=spread, seed=seed)
    merge_states(*case.arguments())
    torch.testing.assert_close(case.out.double(), case.expected(), rtol=1e-5, atol=1e-5)
