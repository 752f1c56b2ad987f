"""TensorRT-LLM's rules: whole and partial blocks, what is taken over, priorities, and random runs beside a plain model of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import RuleRequest
from kvtool.engine.rules.rule_sets import find_rule_set, rule_set_names
from kvtool.engine.rules.trtllm import TrtLlmCache, TrtLlmOptions
from kvtool.engine.rules.vllm import VllmCache, VllmOptions

from .sharegpt import ASKED, needs_sharegpt


def asked(prompt: list[int], answer: list[int] | None = None, scope: str | None = None) -> RuleRequest:
    return RuleRequest(np.array(prompt, np.int32), np.array(answer or [0], np.int32), scope)


def cached(cache: TrtLlmCache, *prompts: list[int]) -> list[int]:
    found = []
    for prompt in prompts:
        found.append(cache.serve(asked(prompt)).cached)
        cache.check()
    return found


def run(start: int, count: int) -> list[int]:
    return list(range(start, start + count))


SMALL = TrtLlmOptions(tokens_per_block=4)


def test_a_part_of_a_block_is_reused() -> None:
    assert cached(TrtLlmCache(SMALL), run(0, 10), run(0, 6) + run(50, 4)) == [0, 6]


def test_whole_blocks_only_where_partial_reuse_is_off() -> None:
    options = TrtLlmOptions(tokens_per_block=4, enable_partial_reuse=False)
    assert cached(TrtLlmCache(options), run(0, 10), run(0, 6) + run(50, 4), run(0, 9)) == [0, 4, 8]


def test_the_last_token_is_computed() -> None:
    assert cached(TrtLlmCache(SMALL), run(0, 8), run(0, 8)) == [0, 7]


def test_a_leaf_is_taken_over_and_lost_to_others() -> None:
    """The second prompt takes the first one's last block, so the third finds of its own text no more than the second left."""
    one, other = run(0, 8), run(0, 6) + run(50, 2)
    assert cached(TrtLlmCache(SMALL), one, other, one) == [0, 6, 6]


def test_a_block_with_children_is_copied() -> None:
    one, other = run(0, 12), run(0, 2) + run(50, 10)
    assert cached(TrtLlmCache(SMALL), one, other, one) == [0, 2, 11]


def test_without_copies_a_block_with_children_gives_nothing() -> None:
    options = TrtLlmOptions(tokens_per_block=4, copy_on_partial_reuse=False)
    one, other = run(0, 12), run(0, 2) + run(50, 10)
    assert cached(TrtLlmCache(options), one, other, one) == [0, 0, 11]


def test_scopes_share_nothing() -> None:
    cache = TrtLlmCache(SMALL)
    assert [cache.serve(asked(run(0, 9), scope=scope)).cached for scope in (None, "a", "a", "b")] == [0, 0, 8, 0]


def test_the_end_of_a_sequence_goes_first() -> None:
    """Of 4 blocks the second request needs 2: one is empty, and the other is the first one's last."""
    cache = TrtLlmCache(TrtLlmOptions(tokens_per_block=4, max_tokens=16))
    assert cached(cache, run(0, 12), run(50, 8), run(0, 12)) == [0, 0, 8]


def test_answers_of_low_priority_go_before_empty_blocks() -> None:
    low = TrtLlmOptions(tokens_per_block=4, max_tokens=400, decode_retention_priority=0)
    cache = TrtLlmCache(low)
    cache.serve(asked(run(0, 8), run(100, 9)))
    assert cache.serve(asked(run(50, 4))).evicted == 4
    assert cache.serve(asked(run(0, 8) + run(100, 8) + [7])).cached == 12


def test_what_never_fits_changes_nothing() -> None:
    cache = TrtLlmCache(TrtLlmOptions(tokens_per_block=4, max_tokens=8))
    cache.serve(asked(run(0, 4)))
    with pytest.raises(EngineError, match="needs 3 blocks of 4; the pool has 2"):
        cache.serve(asked(run(0, 9), run(0, 4)))
    cache.check()
    assert cached(cache, run(0, 4)) == [3]


def test_options_that_cannot_be() -> None:
    for name, value in [
        ("tokens_per_block", 24),
        ("tokens_per_block", 0),
        ("retention_priority", 101),
        ("max_tokens", 0),
    ]:
        with pytest.raises(EngineError, match=f"{value}"):
            replace(TrtLlmOptions(), **{name: value})


# Beside a plain model: a list of blocks, searched from end to end.


@dataclass
class Held:
    path: tuple[int, ...] | None = None
    """All tokens up to this block's end; None where it is not in the tree."""
    start: int = 0
    priority: int = 35
    released: int = -1


@dataclass
class Plain:
    options: TrtLlmOptions
    blocks: list[Held] = field(default_factory=list)
    clock: int = 0

    def below(self, block: Held) -> list[Held]:
        path = block.path
        if not path or len(path) % self.options.tokens_per_block:
            return []
        return [
            each for each in self.blocks if each.path and each.start >= len(path) and each.path[: len(path)] == path
        ]

    def take(self, priority: int, free: list[Held]) -> Held:
        found = min(free, key=lambda each: (each.priority, each.released))
        free.remove(found)
        for each in [*self.below(found), found]:
            each.path = None
        found.priority = priority
        return found

    def serve(self, prompt: list[int], answer: list[int]) -> int:
        options, size = self.options, self.options.tokens_per_block
        assert options.num_blocks is not None
        self.blocks += [Held() for _ in range(options.num_blocks - len(self.blocks))]
        free, held, hit = list(self.blocks), list[Held](), 0
        while hit < len(prompt) - 1:
            start, key = hit, tuple(prompt[hit : min(hit + size, len(prompt) - 1)])
            near = [
                each
                for each in self.blocks
                if each.path and each.start == start and list(each.path[:start]) == prompt[:start]
            ]
            whole = [each for each in near if each.path and each.path[start:] == key and len(key) == size]
            if whole:
                free.remove(whole[0])
                whole[0].priority = options.retention_priority
                held.append(whole[0])
                hit += size
                continue
            if not options.enable_partial_reuse:
                break
            if not options.copy_on_partial_reuse:
                near = [each for each in near if not self.below(each)]
            common = [(shared(each.path[start:], key), each) for each in near if each.path]
            most = max((tokens for tokens, _ in common), default=0)
            if most:
                ties = [each for tokens, each in common if tokens == most]
                best = ties[0] if len(ties) == 1 else None
                if best is None:
                    raise AmbiguousError
                hit += most
                if self.below(best):
                    held.append(self.take(best.priority, free))
                else:
                    free.remove(best)
                    best.path, best.priority = None, options.retention_priority
                    held.append(best)
            break
        tokens = [*prompt, *answer][:-1]
        while len(held) * size < max(len(tokens), len(prompt)):
            in_prompt = len(held) * size < len(prompt)
            held.append(self.take(options.retention_priority if in_prompt else options.decode_retention_priority, free))
        known = True
        for number, block in enumerate(held[: -(-len(tokens) // size)]):
            path = tuple(tokens[: (number + 1) * size])
            known = known and any(each.path == path for each in self.blocks)
            if not known:
                block.path, block.start = path, number * size
        for block in reversed(held):
            self.clock += 1
            block.released = self.clock
        return hit


class AmbiguousError(Exception):
    """Two children share equally much: nobody knows which TensorRT-LLM takes."""


def shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=14)


@given(
    requests=st.lists(st.tuples(TOKENS, st.lists(st.integers(0, 1), min_size=1, max_size=6)), min_size=1, max_size=12),
    blocks=st.integers(10, 16),
    partial=st.booleans(),
    copy=st.booleans(),
    priorities=st.tuples(st.integers(33, 37), st.integers(33, 37)),
)
def test_random_runs_agree_with_a_plain_model(
    requests: list[tuple[list[int], list[int]]], blocks: int, partial: bool, copy: bool, priorities: tuple[int, int]
) -> None:
    options = TrtLlmOptions(2, 2 * blocks, partial, copy, *priorities)
    cache, plain = TrtLlmCache(options), Plain(options)
    for prompt, answer in requests:
        try:
            expected = plain.serve(prompt, answer)
        except AmbiguousError:
            return
        assert cache.serve(asked(prompt, answer)).cached == expected
        cache.check()
        assert cache.num_tokens == sum(len(each.path) - each.start for each in plain.blocks if each.path)


# Real prompts


@needs_sharegpt
@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        (TrtLlmOptions(), 20_067),
        (TrtLlmOptions(enable_partial_reuse=False), 19_328),
        (TrtLlmOptions(max_tokens=1294 * 32), 3_833),
        (TrtLlmOptions(max_tokens=1294 * 32, enable_partial_reuse=False), 3_584),
    ],
)
def test_prompts_of_sharegpt(options: TrtLlmOptions, tokens: int) -> None:
    cache = TrtLlmCache(options)
    assert sum(cache.serve(each).cached for each in ASKED) == tokens
    cache.check()


@needs_sharegpt
def test_prompts_of_sharegpt_in_the_embedded_engine() -> None:
    cache = VllmCache(VllmOptions())
    assert sum(cache.serve(each).cached for each in ASKED) == 19_520


def test_rule_sets_are_found_by_name() -> None:
    for name in rule_set_names():
        found = find_rule_set(name)
        served = found.make(found.options).serve(asked(run(0, 100)))
        assert served.cached == 0
        assert found.unit(found.options) >= 1
        assert [remedy.options == found.options for remedy in found.remedies(found.options)].count(True) == 0
    with pytest.raises(EngineError, match="trtlm"):
        find_rule_set("trtlm")
