"""Alignment of two token sequences."""

from __future__ import annotations

import random
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.text import align as module
from kvtool.text.align import EqualRun, align, align_items, common_prefix

NEWLINE = 0
MASK = np.array([True, False, False])


def ids(values):
    return np.array(values, dtype=np.int32)


def check(a, b, runs, min_run):
    for run in runs:
        assert run.length > 0
        assert (a[run.a_start : run.a_start + run.length] == b[run.b_start : run.b_start + run.length]).all()
        assert run.length >= min_run or (run.a_start, run.b_start) == (0, 0)
    for left, right in pairwise(runs):
        assert left.a_start + left.length <= right.a_start
        assert left.b_start + left.length <= right.b_start
        assert (left.a_start + left.length, left.b_start + left.length) != (right.a_start, right.b_start)


small = st.lists(st.integers(0, 5), max_size=60)


@given(small, small, st.sampled_from([None, MASK, frozenset({0}), [0, 3]]), st.integers(1, 5), st.booleans())
def test_runs_are_equal_increasing_and_apart(a, b, newline, min_run, tight):
    a, b = ids(a), ids(b)
    with pytest.MonkeyPatch.context() as patch:
        if tight:  # every bound exceeded: chunks and anchors
            patch.setattr(module, "_MAX_CELLS", 16)
            patch.setattr(module, "_MAX_TOKEN_CELLS", 16)
        runs = align(a, b, newline=newline, min_run=min_run)
    check(a, b, runs, min_run)
    common = common_prefix(a, b)
    if common:
        assert runs[0][:2] == (0, 0)
        assert runs[0].length >= common


@given(small)
def test_identical_sequences_give_one_run(a):
    assert align(ids(a), ids(a)) == ([EqualRun(0, 0, len(a))] if a else [])


@given(
    st.integers(0, 2000),
    st.integers(0, 40),
    st.integers(0, 40),
    st.sampled_from([None, frozenset({0})]),
    st.randoms(use_true_random=False),
)
def test_replacing_a_span_keeps_the_rest(at, removed, added, newline, rng):
    a = [rng.randrange(1000) if i % 12 else NEWLINE for i in range(2000)]
    b = a[:at] + [5000 + i for i in range(added)] + a[at + removed :]
    runs = align(ids(a), ids(b), newline=newline)
    check(ids(a), ids(b), runs, 4)
    kept = at + max(len(a) - at - removed, 0)
    assert sum(run.length for run in runs) >= kept - 3  # a rest shorter than min_run counts as coincidence


@pytest.mark.parametrize("newline", [None, frozenset({NEWLINE})])
def test_two_far_edits_in_a_long_sequence_keep_the_middle(newline):
    rng = random.Random(3)
    a = [rng.randrange(1, 50) if i % 15 else NEWLINE for i in range(60_000)]  # few words: no four of them are rare
    b = list(a)
    b[100:103] = [900, 901, 902, 903, 904]
    b[59_000] = 905
    runs = align(ids(a), ids(b), newline=newline)
    check(ids(a), ids(b), runs, 4)
    assert sum(run.length for run in runs) >= len(a) - 3 - 1 - 64


def test_moved_lines_are_matched_once_and_in_order():
    rng = random.Random(5)
    lines = [[rng.randrange(1, 30_000) for _ in range(14)] + [NEWLINE] for _ in range(400)]
    moved = lines[200:] + lines[:200]
    a, b = ids(list(chain.from_iterable(lines))), ids(list(chain.from_iterable(moved)))
    runs = align(a, b, newline=frozenset({NEWLINE}))
    check(a, b, runs, 4)
    assert sum(run.length for run in runs) == 200 * 15


def test_short_coincidences_are_dropped_but_not_the_prefix():
    a, b = ids([1, 2, 50, 9, 9, 60, 7]), ids([1, 2, 51, 9, 9, 61, 7])
    assert align(a, b) == [EqualRun(0, 0, 2)]
    assert align(a, b, min_run=2) == [EqualRun(0, 0, 2), EqualRun(3, 3, 2)]


def test_wide_ids_and_ids_beyond_the_mask():
    a = np.array([2**40, 2**40 + 1, 7, 8, 9, 10], dtype=np.int64)
    b = np.array([2**40, 2**40 + 2, 7, 8, 9, 10], dtype=np.int64)
    assert align(a, b, newline=MASK) == [EqualRun(0, 0, 1), EqualRun(2, 2, 4)]
    assert align(a, a[:0]) == []


@given(small, small, st.sampled_from([None, MASK]), st.integers(2, 5), st.booleans())
def test_runs_that_are_too_short_would_be_parts_of_no_longer_one(a, b, newline, min_run, tight):
    with pytest.MonkeyPatch.context() as patch:
        if tight:
            patch.setattr(module, "_MAX_TOKEN_CELLS", 40)
        found = align(ids(a), ids(b), newline=newline, min_run=min_run)
        every = module._sequence
        patch.setattr(module, "_sequence", lambda a, b, *_: every(a, b))
        assert align(ids(a), ids(b), newline=newline, min_run=min_run) == found


@given(small, small, st.sampled_from([None, MASK]), st.integers(1, 9))
def test_what_is_not_looked_through_has_no_run(a, b, newline, min_run):
    quick = align(ids(a), ids(b), newline=newline, min_run=min_run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_may_share", lambda *_: True)
        assert align(ids(a), ids(b), newline=newline, min_run=min_run) == quick


@given(small, small)
def test_lists_are_aligned_like_arrays(a, b):
    assert align_items(a, b) == align(ids(a), ids(b), min_run=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW", 0)
        assert align_items(a, b) == align(ids(a), ids(b), min_run=1)
