from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.ledger.line_set import LineSet


@given(st.lists(st.sets(st.integers(1, 200), max_size=30), max_size=40))
def test_it_has_what_was_added(groups: list[set[int]]) -> None:
    lines, added = LineSet(), set[int]()
    everything = np.arange(1, 202, dtype=np.uint64)
    for group in groups:
        new = sorted(group - added)
        lines.add(np.array(new, np.uint64))
        lines.check()
        added |= group
        assert set(everything[lines.has(everything)].tolist()) == added
        assert len(lines) == len(added)


def test_most_of_it_is_eight_bytes_a_line() -> None:
    lines = LineSet()
    for first in range(0, 100_000, 100):
        lines.add(np.arange(first, first + 100, dtype=np.uint64))
    assert len(lines._levels) < 8
    assert sum(level.nbytes for level in lines._levels) == 8 * len(lines)
