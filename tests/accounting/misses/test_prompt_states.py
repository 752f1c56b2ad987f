"""Beginnings of prompts: an index by lines finds what a search through all earlier prompts finds."""

from __future__ import annotations

import gc
import random
from array import array
from collections.abc import Sequence
from weakref import ref

import pytest

from kvtool.accounting.misses import prompt_states
from kvtool.accounting.misses.prompt_states import CHUNK, CacheKey, Names, PromptState, PromptStates
from kvtool.workload.call import CallSettings
from kvtool.workload.turn import Turn
from tests.conftest import some


def made_state(names: Sequence[int], key: CacheKey, number: int) -> PromptState:
    held = array("Q", names)
    return PromptState(
        key, None, float(number), None, CallSettings(), 0, 0, 0, len(names) * CHUNK, None, held, (), (), 0
    )


def latest_with(states: list[PromptState], names: Names) -> tuple[PromptState | None, int]:
    """Return the latest state with the longest common beginning, found by looking at all of them."""
    best: tuple[PromptState | None, int] = None, 0
    for state in states:
        shared = 0
        while shared < min(len(names), len(state.names)) and names[shared] == state.names[shared]:
            shared += 1
        if shared and shared >= best[1]:
            best = state, shared
    return best


def next_prompt(source: random.Random, prompts: list[Names]) -> Names:
    """Go on with an earlier prompt, fork it, repeat it, or begin anew."""
    kept = source.choice(prompts) if prompts and source.random() < 0.9 else array("Q")
    if source.random() < 0.4:
        kept = kept[: source.randrange(len(kept) + 1)]
    return array("Q", (*kept, *(source.getrandbits(60) for _ in range(source.randrange(6)))))


@pytest.mark.parametrize("seed", some(range(30), 5))
def test_the_index_finds_what_a_search_finds(seed: int) -> None:
    source = random.Random(seed)
    keys = [CacheKey(name, None, None, (None, None, None)) for name in "abc"[: 1 + seed % 3]]
    index, states = PromptStates(), list[PromptState]()
    for number in range(80):
        names, key = next_prompt(source, [state.names for state in states]), source.choice(keys)
        earlier = index.find(names, key, None)
        assert (earlier.any, earlier.shared // CHUNK) == latest_with(states, names)
        same = [state for state in states if state.key == key]
        assert (earlier.same_cache, earlier.shared_same_cache // CHUNK) == latest_with(same, names)
        states.append(made_state(names, key, number))
        index.add(states[-1])


def test_lines_not_used_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_states, "_MOST_NAMES", 60)
    source = random.Random(5)
    key = CacheKey(None, None, None, (None, None, None))
    index, states = PromptStates(), list[PromptState]()
    for number in range(400):
        names = next_prompt(source, [state.names for state in states[-8:]])[:40]
        states.append(made_state(names, key, number))
        index.add(states[-1])
        assert len(index._any) <= 60
        earlier = index.find(names, key, None)
        assert (earlier.any is states[-1]) == (earlier.shared == len(names) * CHUNK > 0)
        assert earlier.shared == len(names) * CHUNK


def test_the_text_of_an_earlier_request_is_not_kept() -> None:
    """Its state is found by the turn while somebody else keeps that, and only by that very turn."""
    key = CacheKey(None, None, None, (None, None, None))
    index, turn, other = PromptStates(), Turn(group="g", messages=[]), Turn(group="g", messages=[])
    state = made_state((1,), key, 0)
    index.add(state, turn)
    assert index.find(array("Q", (9,)), key, None, turn).like is state
    assert index.find(array("Q", (9,)), key, None, other).like is None
    alive = ref(turn)
    del turn
    gc.collect()
    assert alive() is None
