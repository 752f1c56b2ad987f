"""Models with a sliding window or states under the rules of llama.cpp's server: cells, checkpoints, --swa-full. Figures are the
server's."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from kvtool.engine.rules.llama_cpp import LlamaCppCache
from kvtool.engine.rules.llama_cpp_options import LlamaCppOptions
from kvtool.engine.rules.llama_cpp_window import WindowCells
from kvtool.engine.rules.rule_set import Served
from tests.engine.test_llama_cpp_rules import asked, text

ONE = LlamaCppOptions(parallel=1, ctx_size=4096, cache_ram=0, sliding_window=64)
"""One slot: its window has 64 + 512 cells, rounded up to 768."""


def test_the_window_needs_what_stood_before_the_first_new_token() -> None:
    chance = random.Random(0)
    held = text(chance, 1500)
    for shared, hit in ((804, 804), (803, 0)):
        cache = LlamaCppCache(replace(ONE, ctx_checkpoints=0))
        cache.serve(asked(held, text(chance, 8)))
        assert cache.num_tokens == 1507
        loss = "" if hit else "window"
        assert cache.serve(asked(held[:shared] + text(chance, 50))) == Served(hit, evicted=1507 - hit, loss=loss)


def test_an_answer_that_the_next_prompt_leaves_out() -> None:
    for changes, hit in [
        ({}, 495),
        ({"ctx_checkpoints": 0}, 0),
        ({"swa_full": True}, 500),
        ({"ctx_checkpoints": 1}, 495),
    ]:
        chance = random.Random(0)
        prompt = text(chance, 500)
        cache = LlamaCppCache(replace(ONE, **changes))
        cache.serve(asked(prompt, text(chance, 1200)))
        assert cache.serve(asked(prompt + text(chance, 40))).cached == hit


def test_checkpoints_stand_a_micro_batch_and_four_before_the_end() -> None:
    chance = random.Random(0)
    cache = LlamaCppCache(ONE)
    cache.serve(asked(text(chance, 1500)))
    (slot,) = cache.memory.slots
    assert [checkpoint.num_tokens for checkpoint in slot.checkpoints] == [1500 - 516, 1500 - 4]
    assert [(checkpoint.first, checkpoint.last) for checkpoint in slot.checkpoints] == [
        (984 - 768, 983),
        (1496 - 768, 1495),
    ]
    assert all(len(checkpoint.positions) == 64 for checkpoint in slot.checkpoints)


@pytest.mark.parametrize(("kv_layers", "state_layers"), [(1, 5), (0, 6)])
def test_a_state_goes_on_or_goes_back_to_a_checkpoint(kv_layers: int, state_layers: int) -> None:
    """A prompt, one that goes on from its answer, one that leaves the answer out, and the same once more."""
    options = LlamaCppOptions(
        parallel=1, ctx_size=2048, cache_ram=0, kv_layers=kv_layers, state_layers=state_layers, state_bytes=640
    )
    cache, prompt = LlamaCppCache(options), [*range(5, 17)]
    served = [cache.serve(asked(prompt + end, [50] * 3)) for end in ([], [50, 50, 60], [60], [60])]
    assert [each.cached for each in served] == [0, 14, 8, 9]
    assert [each.loss for each in served] == ["", "", "no_state", "no_state"]


@pytest.mark.parametrize(("step", "left"), [(15, [96, 100, 111]), (16, [80, 100, 111])])
def test_checkpoints_that_are_too_close_go_where_the_list_fills(step: int, left: list[int]) -> None:
    """Of a prompt of 100 they stand at 80 and 96, of one of 115 that goes on from it at 100 and 111; three are kept."""
    chance = random.Random(0)
    cache = LlamaCppCache(replace(ONE, ubatch_size=16, ctx_checkpoints=3, checkpoint_min_step=step))
    prompt = text(chance, 100)
    cache.serve(asked(prompt))
    (slot,) = cache.memory.slots
    assert [checkpoint.num_tokens for checkpoint in slot.checkpoints] == [80, 96]
    assert cache.serve(asked(prompt + text(chance, 15))).cached == 100
    assert [checkpoint.num_tokens for checkpoint in slot.checkpoints] == left


def test_a_checkpoint_lasts_while_all_its_positions_do() -> None:
    chance = random.Random(0)
    cache = LlamaCppCache(ONE)
    cache.serve(asked(text(chance, 100)))
    memory, (slot,) = cache.memory, cache.memory.slots
    assert [(checkpoint.num_tokens, checkpoint.last) for checkpoint in slot.checkpoints] == [(96, 95)]
    assert memory.usable(slot, 95, 200) == 95
    assert len(slot.checkpoints) == 1
    assert memory.usable(slot, 94, 200) == 94
    assert not slot.checkpoints


def test_all_tokens_in_a_slot_are_not_all_tokens_in_host_memory() -> None:
    """What is saved of layers with a window is the window, with --swa-full as well: a part of a saved prompt is of no use."""
    chance = random.Random(0)
    head = text(chance, 400)
    prompts = [head + text(chance, 100), text(chance, 300), head + text(chance, 100)]
    full = replace(ONE, swa_full=True, cache_ram=8192)
    for options, hit in (
        (full, 0),
        (replace(full, sliding_window=None), 400),
        (replace(full, parallel=2, ctx_size=8192), 400),
    ):
        cache = LlamaCppCache(options)
        assert [cache.serve(asked(prompt)).cached for prompt in prompts] == [0, 0, hit]


def test_cells_are_found_from_behind_the_last_ones() -> None:
    cells = WindowCells(8, window=2, slots=2)
    assert cells.put(0, np.arange(5))
    assert cells.pos.tolist() == [0, 1, 2, 3, 4, -1, -1, -1]
    assert cells.put(1, np.arange(2))
    assert cells.head == 7
    assert cells.put(
        0, np.array([5, 6])
    )  # the last empty cell, and then that of 0; 1 to 3 are out of reach, and last on
    assert cells.pos.tolist() == [6, 1, 2, 3, 4, 0, 1, 5]
    assert (cells.first, cells.last, cells.head, cells.used) == ([1, 0], [6, 1], 1, 8)
    assert cells.saved(0).tolist() == [6, 5]
    cells.check()
    cells.cut(0, 4)
    assert cells.pos.tolist() == [-1, 1, 2, 3, -1, 0, 1, -1]
    assert cells.head == 0
    cells.restore(0, np.array([5, 4]))
    assert cells.pos.tolist() == [5, 4, -1, -1, -1, 0, 1, -1]
    assert (cells.first, cells.last) == ([4, 0], [5, 1])
    cells.check()


def test_what_stood_before_an_overwritten_position_goes_too() -> None:
    cells = WindowCells(6, window=2, slots=1)
    assert cells.put(0, np.arange(4))
    cells.head = 2
    assert cells.put(0, np.array([4, 5, 6]))  # over 2, as 3 and 4 are what 5 will reach
    assert cells.pos.tolist() == [-1, -1, 4, 3, 5, 6]
    cells.check()


def test_no_more_cells_than_there_are() -> None:
    cells = WindowCells(4, window=8, slots=2)
    assert cells.put(0, np.arange(3))
    assert not cells.put(1, np.arange(2))
    assert cells.pos.tolist() == [0, 1, 2, -1]


def test_positions_that_are_moved() -> None:
    cells = WindowCells(8, window=9, slots=1)
    assert cells.put(0, np.arange(7))
    cells.move(0, 4, 6, to=2)
    assert sorted(cells.pos.tolist()) == [-1, -1, 0, 1, 2, 3, 6, -1] or sorted(cells.pos.tolist()) == [
        -1,
        -1,
        -1,
        0,
        1,
        2,
        3,
        6,
    ]
    cells.cut(0, 4)
    assert (cells.first, cells.last, cells.head) == ([0], [3], 0)
    cells.check()


@pytest.mark.parametrize(("tokens", "cells"), [(3, [0, 1, 2]), (4, [11, 0, 1, 2])])
def test_the_search_starts_over_where_enough_is_free_before_the_head(tokens: int, cells: list[int]) -> None:
    """The head is 11, and 3 cells are used: over two times the tokens and those before it, it starts at 0."""
    pool = WindowCells(12, window=2, slots=1)
    assert pool.put(0, np.arange(10))
    pool.head = 8
    assert pool.put(0, np.array([10, 11]))  # over 8, not over 9, and behind it
    assert (pool.pos.tolist(), pool.used, pool.head) == ([-1] * 8 + [10, 9, 11, -1], 3, 11)
    assert pool.put(0, np.arange(12, 12 + tokens))
    assert [pool.pos.tolist().index(position) for position in range(12, 12 + tokens)] == cells


def test_tokens_in_turn_find_the_same_cells_however_they_are_put() -> None:
    for most in [1, 2, 5]:
        chance = random.Random(most)
        for _ in range(20):
            one, many = WindowCells(16, 5, 2), WindowCells(16, 5, 2)
            for _ in range(30):
                slot, tokens, at = chance.randrange(2), chance.randint(1, 20), chance.randrange(12)
                if chance.random() < 0.2:
                    for cells in (one, many):
                        cells.cut(slot, max(cells.last[slot] - at, 0))
                begin = one.last[slot] + 1
                for place in range(begin, begin + tokens, most):
                    one.put(slot, np.arange(place, min(place + most, begin + tokens)))
                many.append(slot, tokens, most)
                assert one.pos.tolist() == many.pos.tolist()
                assert (one.head, one.first, one.last) == (many.head, many.first, many.last)
                many.check()
