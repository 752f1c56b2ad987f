"""The worst prompts: which ones they are, and that every token of theirs has the fate that the ledger gave it."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.ledger.sums import Booked
from kvtool.accounting.views.worst import MOST_OF_GROUP, MOST_PROMPTS, WorstBook
from kvtool.profiler.run.run_books import RowBook
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn
from tests.accounting.view_runs import hashed, traces, turn, watched, workloads
from tests.conftest import some


@pytest.mark.parametrize("seed", some(range(40), 5))
def test_the_worst_few_of_each_group_first(seed: int) -> None:
    rng = random.Random(seed)
    some = [(rng.choice("aaab" if seed % 2 else "aaabbcd"), rng.randrange(30)) for _ in range(rng.randrange(60))]
    book = WorstBook()
    for owner, (group, lost) in enumerate(some):
        booked = [Booked(0, 5, "hit"), *([Booked(5, 5 + lost, "unique")] if lost else [])]
        book.add(owner, f"r{owner}", group, owner, None, 5 + lost, 5, booked)
    ranked = sorted((-lost, owner, group) for owner, (group, lost) in enumerate(some) if lost)
    of_group: Counter[str] = Counter()
    first, others = [], []
    for entry in ranked:
        of_group[entry[2]] += 1
        (first if of_group[entry[2]] <= MOST_OF_GROUP else others).append(entry)
    want = sorted([*first, *others][:MOST_PROMPTS])
    found = [(worst.hit_tokens - worst.prompt_tokens, worst.turn - 1, worst.group) for worst in book.worst()]
    assert found == want
    assert [worst.id for worst in book.worst()] == [f"r{owner}" for _, owner, _ in want]


def test_only_few_prompts_are_kept() -> None:
    book = WorstBook()
    for owner in range(1_000):
        book.add(owner, "", f"g{owner}", 0, None, owner + 1, 0, [Booked(0, owner, "blocked")])
    for owner in range(1_000):
        book.close(owner, Booked(owner, owner + 1, "unique"))
    assert [worst.group for worst in book.worst()] == [f"g{999 - at}" for at in range(MOST_PROMPTS)]
    assert len(book._by_owner) <= 4 * MOST_PROMPTS


@given(turns=st.one_of(workloads, traces()))
def test_the_runs_are_the_fates(byte_renderer: Renderer, turns: list[Turn]) -> None:
    """Of at most so many requests all are told, so their fates are those of the workload."""
    turns = turns[:MOST_PROMPTS]
    result, views = watched(byte_renderer, turns)
    fates: Counter[str] = Counter()
    for worst in views.worst:
        at = 0
        for number, run in enumerate(worst.runs):
            assert run.start == at < run.stop
            assert not number or worst.runs[number - 1].fate != run.fate
            assert (run.path, run.line) == ("", 0)
            fates[run.fate] += run.stop - run.start
            at = run.stop
        assert at == worst.prompt_tokens
        assert sum(run.stop - run.start for run in worst.runs if run.fate == "hit") == worst.hit_tokens
    assert {name: count for name, count in fates.items() if count} == {
        name: count for name, count in result.ledger.fates().items() if count
    }
    lost = [worst.prompt_tokens - worst.hit_tokens for worst in views.worst]
    assert lost == sorted(lost, reverse=True)


@given(turns=workloads, capacity=st.integers(8, 12))
def test_in_a_small_cache_with_several_at_once(byte_renderer: Renderer, turns: list[Turn], capacity: int) -> None:
    result, views = watched(byte_renderer, turns, concurrency=3, num_blocks=capacity)
    rows = {(row.id, row.group, row.prompt_tokens, row.hit_tokens) for row in result.book(RowBook).rows}
    assert all((worst.id, worst.group, worst.prompt_tokens, worst.hit_tokens) in rows for worst in views.worst)
    assert len(views.worst) == min(len(turns), MOST_PROMPTS)


def test_counted_by_hand(byte_renderer: Renderer) -> None:
    """Ten tokens that the second request shares, two of them in a block that is not full."""
    front = list(range(10))
    views = watched(byte_renderer, [turn([*front, 50]), turn([*front, 60, 61], group="h")])[1]
    assert [(worst.id, worst.group, worst.turn) for worst in views.worst] == [("r1", "g", 1), ("r2", "h", 1)]
    assert [[(run.start, run.stop, run.fate) for run in worst.runs] for worst in views.worst] == [
        [(0, 10, "first_use"), (10, 11, "unique")],
        [(0, 8, "hit"), (8, 10, "partial_block"), (10, 12, "unique")],
    ]


def test_a_trace_that_leaves_the_partial_last_block_out(byte_renderer: Renderer) -> None:
    result, views = watched(byte_renderer, [hashed([1], 6), hashed([1], 6)])
    assert result.ledger.fates() == {"hit": 4, "first_use": 4, "unique": 4}
    assert [(run.start, run.stop, run.fate) for run in views.worst[1].runs] == [(0, 4, "hit"), (4, 6, "unique")]
