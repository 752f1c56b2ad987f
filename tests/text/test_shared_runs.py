from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.text import shared_runs as module
from kvtool.text.shared_runs import may_share_run

tokens = st.lists(st.integers(0, 2), max_size=40)


@pytest.mark.parametrize("length", [1, 4, 8])
@given(tokens, tokens, st.sampled_from([0, 256]))
def test_a_run_in_common_is_seen_and_no_other(length: int, a: list[int], b: list[int], few: int) -> None:
    def runs(ids: list[int]) -> set[tuple[int, ...]]:
        return {tuple(ids[at : at + length]) for at in range(len(ids) - length + 1)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW", few)  # short ones are looked at run by run, long ones by hashes
        found = may_share_run(np.array(a, np.int32), np.array(b, np.int32), length)
    assert found == (not runs(a).isdisjoint(runs(b)))


def test_text_of_its_own_has_none() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 130_000, 20_000).astype(np.int32) for _ in range(2))
    assert not may_share_run(a, b, 8)
    assert may_share_run(a, np.concatenate([b, a[777:785], b]), 8)
