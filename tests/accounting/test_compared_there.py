"""Requests that another process compares: the same alignments and lines as here, and a state to go on from."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.ledger import donors
from kvtool.accounting.ledger.alignment import DonorAlignment, EarlierPrompt
from kvtool.accounting.ledger.comparer import Comparer
from kvtool.accounting.ledger.received_comparisons import ComparedHere, ReceivedComparisons
from kvtool.accounting.prefix_tree import Ids, RadixTree
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

LINES = [np.array([*(100 * line + at for at in range(12)), 0], np.int32) for line in range(6)]
MASK = np.arange(1_000) == 0

requests = st.tuples(
    st.lists(st.integers(0, 5), min_size=1, max_size=8),
    st.integers(1, 40),
    st.sampled_from([0, 3, 12]),
    st.sampled_from([None, "one", "two"]),
    st.booleans(),
)


def made(number: int, lines: list[int], own: int, session: str | None, text: bool) -> tuple[Turn, Prompt]:
    ids = np.concatenate([np.array([700 + own, 0], np.int32), *(LINES[line] for line in lines)])
    prompt = Prompt(ids, Traced("x") if text else None)
    return Turn("g", text=Traced("x"), session=session, id=str(number)), prompt


def plain(alignment: DonorAlignment | None) -> object:
    if alignment is None:
        return None
    donor = alignment.donor
    return alignment.known, alignment.gaps, alignment.donor_ids.tolist(), donor and (donor.turn.id, donor.ids.tolist())


@given(st.lists(requests, min_size=1, max_size=30), st.integers(0, 30), st.sampled_from([3_000, 4_000_000]))
def test_both_sides_find_what_one_does(
    workload: list[tuple[list[int], int, int, str | None, bool]], handed: int, most: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(donors, "_MOST_KEPT", most)
        patched.setattr(donors, "MOST_SLOTS", 64)
        one, tree, other_tree = Comparer(lambda: MASK), RadixTree(), RadixTree()
        here, there = ComparedHere(lambda: MASK), ReceivedComparisons(lambda: MASK)
        for number, (lines, own, answered, session, text) in enumerate(workload):
            turn, prompt = made(number, lines, own, session, text)
            output: Ids = np.arange(answered, dtype=np.int32) + 900
            sequence = np.concatenate([prompt.ids, output])
            match, other_match = tree.match(prompt.ids), other_tree.match(prompt.ids)
            expected = one.compare(tree, match, turn, prompt, sequence)
            if number == handed:
                there.take_over(here.state())
            elif number < handed:
                copied = made(number, lines, own, session, text)
                there.coming = pickle.loads(pickle.dumps(here.told(*copied, output)))
            found = there.compare(other_tree, other_match, turn, prompt, sequence)
            assert plain(found.alignment) == plain(expected.alignment)
            assert found.repeated == expected.repeated
            tree.insert(sequence, number, match)
            other_tree.insert(sequence, number, other_match)
            if number < handed:
                kept = {id(prompt) for prompt in one.examples()}
                assert {id(prompt) for prompt in there.examples()} == kept, "no more is kept than here"
        if len(workload) <= handed:
            there.take_over(here.state())
        assert [id(prompt) for prompt in there.examples()] == [id(prompt) for prompt in one.examples()]


def test_a_donor_is_the_request_that_came_here() -> None:
    here, there, tree = ComparedHere(None), ReceivedComparisons(None), RadixTree()
    turns: list[EarlierPrompt] = []
    for number in range(3):
        turn, prompt = made(number, [1, 2, 3], number, None, text=False)
        there.coming = here.told(*made(number, [1, 2, 3], number, None, text=False), np.empty(0, np.int32))
        found = there.compare(tree, tree.match(prompt.ids), turn, prompt, prompt.ids).alignment
        if number:
            assert found is not None
            assert found.donor is not None
            assert found.donor.prompt is turns[-1].prompt
        turns.append(EarlierPrompt(turn, prompt, prompt.ids))
