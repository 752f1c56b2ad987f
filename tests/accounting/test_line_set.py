from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.ledger import line_set
from kvtool.accounting.ledger.line_set import LineSet


@given(st.lists(st.sets(st.integers(1, 200), max_size=30), max_size=40), st.integers(1, 40), st.integers(1, 100))
def test_it_has_what_was_added(groups: list[set[int]], most_recent: int, in_memory: int) -> None:
    lines, added = LineSet(in_memory=in_memory), set[int]()
    everything = np.arange(1, 202, dtype=np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_set, "_MOST_RECENT", most_recent)
        for group in groups:
            new = list(group - added)
            lines.add(np.array(new + new[:3], np.uint64))
            lines.check()
            added |= group
            assert set(everything[lines.has(everything)].tolist()) == added
            assert len(lines) == len(added)
    there = pickle.loads(pickle.dumps(lines))
    assert set(everything[there.has(everything)].tolist()) == added


def test_most_of_it_is_eight_bytes_a_line() -> None:
    lines = LineSet()
    for first in range(0, 100_000, 100):
        lines.add(np.arange(first, first + 100, dtype=np.uint64))
    assert len(lines._levels) < 8
    assert sum(level.nbytes for level in lines._levels) == 8 * (len(lines) - len(lines._recent))
    assert len(lines._recent) < 4_096


def test_large_arrays_are_in_files_and_not_in_memory() -> None:
    lines = LineSet(in_memory=10_000)
    for first in range(0, 100_000, 5_000):
        lines.add(np.arange(first, first + 5_000, dtype=np.uint64))
    assert sum(map(len, lines._levels)) < 10_000
    assert len(lines._filed) > 3
    assert all(file is not None for _, file in lines._filed)
