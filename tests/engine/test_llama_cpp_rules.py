"""The rules of llama.cpp's server: slots, saved prompts, moved chunks; against a plain server, and figures of the real one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.blocks.block_keys import Lora
from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.llama_cpp import LlamaCppCache, LlamaCppRequest
from kvtool.engine.rules.llama_cpp_options import LlamaCppOptions
from kvtool.engine.rules.llama_cpp_prefix import as_bytes, common_prefix, length, moved_chunks
from kvtool.engine.rules.llama_cpp_saved import SavedPrompt, SavedPrompts
from kvtool.engine.rules.llama_cpp_set import LLAMA_CPP
from kvtool.engine.rules.rule_set import RuleRequest, Served
from kvtool.measure.servers.causes.asking import OF_OLLAMA_RUNNER
from tests.conftest import some
from tests.engine.plain_llama_cpp import PlainServer, same

SHAREGPT = (
    Path(__file__).resolve().parents[3] / "shared/data/llmservingsim_sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl"
)
Tokens = list[int]

ONE = LlamaCppOptions(parallel=1, ctx_size=4096, cache_ram=0)
"""One slot and nothing else."""


def asked(prompt: Iterable[int], answer: Iterable[int] = (7,), **more: Any) -> LlamaCppRequest:
    return LlamaCppRequest(np.array([*prompt], dtype=np.int32), np.array([*answer], dtype=np.int32), **more)


def hits(options: LlamaCppOptions, prompts: Iterable[Iterable[int]], answer: Iterable[int] = (7,)) -> list[int]:
    cache = LlamaCppCache(options)
    return [cache.serve(asked(prompt, answer)).cached for prompt in prompts]


def text(chance: random.Random, tokens: int) -> Tokens:
    return [chance.randrange(10, 30_000) for _ in range(tokens)]


# Slots


def test_a_prompt_reuses_what_its_slot_begins_with_and_at_most_all_but_its_last_token() -> None:
    cache = LlamaCppCache(ONE)
    assert cache.serve(asked([1, 2, 3], [4, 5])) == Served(0)
    assert cache.num_tokens == 4  # the answer's last token has no KV
    assert cache.serve(asked([1, 2, 3, 4, 5, 6])) == Served(4)
    assert cache.serve(asked([1, 2, 3, 4, 5, 6])) == Served(5, evicted=1)
    assert cache.serve(asked([1, 2])) == Served(1, evicted=5)
    assert cache.serve(asked([9])) == Served(0, evicted=2)


def test_the_slot_that_holds_most_of_the_prompt_is_taken_and_of_equals_the_first() -> None:
    options = LlamaCppOptions(parallel=3, ctx_size=3 * 256, cache_ram=0, slot_prompt_similarity=0.5)
    cache = LlamaCppCache(options)
    for prompt in ([1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 9, 9]):  # none is alike enough: slots 2, 1 and 0
        cache.serve(asked(prompt))
    assert [slot.tokens for slot in cache.memory.slots] == [
        as_bytes(np.array(each, dtype=np.int32)) for each in ([1, 2, 9, 9], [5, 6, 7, 8], [1, 2, 3, 4])
    ]
    assert cache.serve(asked([1, 2, 3, 3])).cached == 3
    assert cache.serve(asked([1, 2, 4])).cached == 2
    assert [slot.used for slot in cache.memory.slots] == [5, 2, 4]
    # exactly half is not more than half: the least recently used slot
    assert cache.serve(asked([1, 2, 6, 6])).cached == 0
    assert cache.memory.slots[1].used == 6


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_the_runner_of_ollama_before_0_30_is_a_server_without_host_memory(seed: int) -> None:
    """By its source: the idle slot with the longest common start, the first of equals, and what it has beyond is lost."""
    chance = random.Random(seed)
    slots: list[Tokens] = [[] for _ in range(3)]
    settings: dict[str, Any] = {**OF_OLLAMA_RUNNER, "parallel": len(slots)}
    cache = LlamaCppCache(LlamaCppOptions(ctx_size=3 * 2048, **settings))
    conversations = [[1, *text(chance, chance.randrange(1, 9))] for _ in range(5)]  # all prompts begin with BOS
    for _ in range(40):
        prompt = chance.choice(conversations)
        prompt += text(chance, 1)
        answer = text(chance, chance.randrange(1, 5))
        starts = [
            common_prefix(*(as_bytes(np.array(each, dtype=np.int32)) for each in (slot, prompt))) for slot in slots
        ]
        at = starts.index(max(starts))
        assert cache.serve(asked(prompt, answer)).cached == min(starts[at], len(prompt) - 1)
        slots[at] = [*prompt, *answer[:-1]]
        prompt += answer


def test_with_no_similarity_the_least_recently_used_slot_is_taken() -> None:
    options = LlamaCppOptions(parallel=2, ctx_size=512, cache_ram=0, slot_prompt_similarity=0)
    assert hits(options, [[1, 2], [3, 4], [3, 4], [1, 2], [3, 4], [1, 2]]) == [0, 0, 0, 0, 1, 1]


def test_a_slot_by_its_number_and_its_wrap() -> None:
    cache = LlamaCppCache(LlamaCppOptions(parallel=2, ctx_size=512, cache_ram=0))
    assert cache.serve(asked([1, 2, 3], id_slot=0)).cached == 0
    assert cache.serve(asked([1, 2, 3], id_slot=1)).cached == 0
    assert cache.serve(asked([1, 2, 3], id_slot=4)).cached == 2
    assert [slot.used for slot in cache.memory.slots] == [3, 2]


@pytest.mark.parametrize(("number", "served"), [(0, 5), (2, 6)])
def test_only_a_number_that_is_a_slots_spares_it_from_being_exchanged(number: int, served: int) -> None:
    """Of the slot five of six tokens are common: it stays. By a number that wraps around nothing is looked at: it is exchanged."""
    cache = LlamaCppCache(LlamaCppOptions(parallel=2, ctx_size=512))
    cache.serve(asked([1, 2, 3, 4, 5, 6, 7], id_slot=1))  # is saved as the next one starts
    cache.serve(asked([1, 2, 3, 4, 5, 9], id_slot=0))
    assert cache.serve(asked([1, 2, 3, 4, 5, 6, 7, 8], id_slot=number)).cached == served + (number == 2)


def test_a_shared_pool_that_is_full_clears_idle_slots_in_their_order() -> None:
    """Slots are taken from the last to the first; the third prompt of 200 of 512 tokens costs slot 1 its own, not the older 2."""
    chance = random.Random(0)
    a, b, c = (text(chance, 200) for _ in range(3))
    cache = LlamaCppCache(LlamaCppOptions(parallel=3, kv_unified=True, ctx_size=512, cache_ram=0))
    assert [cache.serve(asked(prompt)) for prompt in (a, b, c)] == [Served(0), Served(0), Served(0, evicted=200)]
    assert [bool(slot.tokens) for slot in cache.memory.slots] == [True, False, True]
    assert cache.serve(asked(a + text(chance, 100), text(chance, 13))) == Served(200)
    assert cache.num_tokens == 512  # as many as there are
    assert cache.serve(asked(a + text(chance, 113))) == Served(200, evicted=112 + 200)


# Saved prompts


@pytest.mark.parametrize("cache_ram", [0, 8192])
def test_a_slot_that_keeps_half_of_its_tokens_is_taken_as_it_is(cache_ram: int) -> None:
    chance = random.Random(0)
    head = text(chance, 400)
    a, b = head + text(chance, 400), head + text(chance, 390)
    assert hits(replace(ONE, cache_ram=cache_ram), [a, b, a]) == [0, 400, 400]


def test_a_slot_that_keeps_less_is_saved_and_comes_back() -> None:
    chance = random.Random(0)
    head = text(chance, 390)
    a, b = head + text(chance, 410), head + text(chance, 400)
    cache = LlamaCppCache(replace(ONE, cache_ram=8192))
    assert [cache.serve(asked(prompt)) for prompt in (a, b, a)] == [Served(0), Served(390), Served(799, evicted=1)]
    assert hits(ONE, [a, b, a]) == [0, 390, 390]


def test_of_a_saved_prompt_a_quarter_must_be_common() -> None:
    held = list(range(100, 140))
    options = replace(ONE, cache_ram=8192)
    assert hits(options, [held, [1], [*held[:10], 2]])[2] == 10
    assert hits(options, [held, [1], [*held[:9], 2]])[2] == 0


def test_a_saved_prompt_must_be_better_by_both_ratios_from_the_oldest_on() -> None:
    def best(*prompts: Tokens) -> int:
        saved = SavedPrompts(None, 1000)
        for tokens in prompts:
            saved.save(SavedPrompt(as_bytes(np.array(tokens, dtype=np.int32)), None, (), 1))
        saved.check()
        found = saved.better(as_bytes(np.array([1, 9], dtype=np.int32)), as_bytes(np.arange(1, 13, dtype=np.int32)))
        return length(found.tokens) if found else 0

    short, ten, eleven = [1, 2, 3, 9], [*range(1, 11), 0, 0, 0, 0], [*range(1, 12), 0, 0, 0]
    assert best(ten, short) == 14  # 3 of 4 is a larger part than 10 of 14, but no more of the prompt
    assert best(short, ten) == 4  # and 10 of 14 is more, but no larger part
    assert best(short, eleven) == 14
    assert best([1, 3], [1, 2, *[5] * 7]) == 0  # 1 is no more, and 2 of 9 are less than a quarter
    assert best([1, 2, *[5] * 5]) == 0
    assert best([1, 2, 5, 5]) == 0  # half, as the slot has
    assert best([1, 2, 5]) == 3


def test_four_slots_with_one_pool_are_saved_and_cleared_by_each_request() -> None:
    cache = LlamaCppCache(LlamaCppOptions())
    for prompt in ([1, 2, 3], [4, 5, 6], [7, 8, 9]):
        cache.serve(asked(prompt))
        assert sum(bool(slot.tokens) for slot in cache.memory.slots) == 1
    assert cache.num_tokens == 9
    assert cache.serve(asked([1, 2, 3, 4])) == Served(3)
    cache.check()


def test_slots_of_their_own_keep_their_tokens_and_are_copied() -> None:
    cache = LlamaCppCache(LlamaCppOptions(parallel=2, ctx_size=512))
    cache.serve(asked([1, 2, 3]))
    cache.serve(asked([4, 5, 6]))
    assert cache.num_tokens == 9
    assert LlamaCppOptions(parallel=2).unified is False


def test_the_list_keeps_the_newest_bytes() -> None:
    """A token is 12 bytes and its KV, a prompt 8 + 8 + 24: 3 prompts of 1,000 are 3 x 348,040 bytes, and fit into 1 MiB."""
    chance = random.Random(0)
    prompts = [text(chance, 1000) for _ in range(4)]
    options = replace(ONE, cache_ram=1, kv_bytes_per_token=336, kv_layers=1)
    assert 3 * (1000 * 348 + 40) <= 1024 * 1024 < 4 * (1000 * 348 + 40)
    assert hits(options, [*prompts, prompts[0]]) == [
        0,
        0,
        0,
        0,
        0,
    ]  # the fourth is saved for it first, and the first goes
    assert hits(options, [*prompts, prompts[1]]) == [0, 0, 0, 0, 999]
    assert 3 * (1000 * 350 + 40) > 1024 * 1024
    tighter = replace(options, kv_bytes_per_token=338)
    assert hits(tighter, [*prompts, prompts[1]])[4] == 0
    assert hits(tighter, [*prompts, prompts[2]])[4] == 999
    cache = LlamaCppCache(tighter)
    assert [cache.serve(asked(prompt)).evicted for prompt in [*prompts, [5]]] == [0, 0, 0, 1000, 1000]


def test_a_prompt_that_is_larger_than_the_list_is_not_saved_and_drops_nothing() -> None:
    chance = random.Random(0)
    small, large = text(chance, 100), text(chance, 3900)
    options = replace(ONE, cache_ram=1, kv_bytes_per_token=1000)
    cache = LlamaCppCache(options)
    assert [cache.serve(asked(prompt)).cached for prompt in (small, large, [1], small)] == [0, 0, 0, 99]
    assert cache.serve(asked(large)).cached == 0


def test_a_saved_prompt_may_have_all_bytes_of_the_list() -> None:
    """4 bytes, and 4 for each pool, 8, 24 for each layer, and 12 for each token beside its KV: 1 MiB to the byte."""
    for slots, layers, tokens, each in [(1, 1, 72, 14_551), (3, 1, 16, 65_521), (1, 4, 48, 21_831)]:
        assert 4 + 4 * slots + 8 + 24 * layers + tokens * (12 + each) == 1024 * 1024
        options = LlamaCppOptions(
            parallel=slots,
            ctx_size=256 * slots,
            cache_ram=1,
            kv_bytes_per_token=each,
            kv_layers=layers,
            slot_prompt_similarity=0,
        )
        prompt = text(random.Random(0), tokens)
        for changed, fits in ((options, True), (replace(options, kv_bytes_per_token=each + 1), False)):
            cache = LlamaCppCache(changed)
            cache.serve(asked(prompt))
            saved = SavedPrompts(changed.host_bytes, 1)
            saved.save(cache.memory.write(cache.memory.slots[-1]))
            assert (saved.num_tokens == tokens) == fits


def test_without_a_limit_of_bytes_the_list_holds_the_context() -> None:
    chance = random.Random(0)
    prompts = [text(chance, 1500) for _ in range(4)]
    options = replace(ONE, cache_ram=-1)
    exact = SavedPrompts(None, 3)
    exact.save(SavedPrompt(as_bytes(np.arange(3, dtype=np.int32)), None, (), 1))
    exact.trim()
    assert exact.num_tokens == 3
    assert hits(options, [*prompts, prompts[0]])[4] == 0  # 2 x 1,500 of 4,096
    assert hits(options, [*prompts, prompts[1]])[4] == 1499  # it is taken before the list is cut


@pytest.mark.parametrize(("beside", "cached"), [(324, 699), (325, 0)])
def test_a_saved_prompt_for_which_the_pool_has_no_room_stays_where_it_is(beside: int, cached: int) -> None:
    chance = random.Random(0)
    saved = text(chance, 700)
    cache = LlamaCppCache(LlamaCppOptions(parallel=2, kv_unified=True, ctx_size=1024, cache_idle_slots=False))
    cache.serve(asked(saved, id_slot=0))
    cache.serve(asked([1] * 10, id_slot=0))  # the 700 are saved
    cache.serve(asked(text(chance, beside), id_slot=1))
    assert cache.serve(asked(saved)).cached == cached
    assert cache.saved is not None
    assert cache.saved.covers(as_bytes(np.array(saved, dtype=np.int32))) == (cached == 0)
    cache.check()


# Moved chunks


def test_chunks_that_are_moved() -> None:
    for cached, prompt, least, chunks in [
        ([1, 2, 8, 9, 3, 4, 5], [1, 2, 3, 4, 5], 3, [(4, 2, 3)]),
        ([1, 2, 8, 9, 3, 4, 5], [1, 2, 3, 4, 5], 4, []),
        ([1, 2, 8, 3, 4, 9, 5, 6], [1, 2, 3, 4, 5, 6], 2, [(3, 2, 2), (6, 4, 2)]),
        ([1, 2, 8, 3, 4], [1, 2, 9, 3, 4], 1, []),  # replaced: the place in the prompt stays where it is
        ([1, 2, 3, 4], [1, 2, 9, 3, 4], 1, []),  # inserted
        ([8, 3, 3, 3], [3, 3, 3], 2, [(1, 0, 3)]),
        ([], [3], 1, []),
    ]:
        one, other = (as_bytes(np.array(each, dtype=np.int32)) for each in (cached, prompt))
        assert moved_chunks(one, other, common_prefix(one, other), least) == chunks


def test_what_follows_text_that_was_removed_is_moved() -> None:
    cache = LlamaCppCache(replace(ONE, cache_reuse=3))
    cache.serve(asked([1, 2, 8, 9, 3, 4, 5, 6]))
    assert cache.serve(asked([1, 2, 3, 4, 5, 7])) == Served(5, evicted=3, loss="shifted")


# Scopes and bad input


def test_another_adapter_clears_the_slot_and_none_takes_it_as_it_is() -> None:
    """As the server did with two adapters of random numbers."""
    adapters = [None, None, "a", "a", "b", "a", None, None, "a"]
    cache = LlamaCppCache(ONE)
    served = [cache.serve(asked(range(100, 160), lora=adapter)) for adapter in adapters]
    assert [each.cached for each in served] == [0, 59, 0, 59, 0, 0, 59, 59, 0]
    assert served[2] == Served(0, evicted=60)


def test_of_a_scope_only_the_adapter_counts() -> None:
    ids = np.array([1, 2, 3], dtype=np.int32)
    cache = LlamaCppCache(ONE)
    scopes = [
        ("salt", Lora("a", "/a")),
        ("other", Lora("a", "/a")),
        ("other", Lora("b", "/b")),
        Lora("b", "/b"),
        ("salt", None),
        "salt",
    ]
    assert [cache.serve(RuleRequest(ids, ids[:1], scope)).cached for scope in scopes] == [0, 2, 0, 2, 2, 2]


def test_salts_keep_nothing_apart() -> None:
    cache = LlamaCppCache(ONE)
    ids = np.array([1, 2, 3], dtype=np.int32)
    cache.serve(RuleRequest(ids, ids[:1], scope="a"))
    assert cache.serve(RuleRequest(ids, ids[:1], scope="b")).cached == 2
    assert not LLAMA_CPP.scopes


def test_a_prompt_that_may_reuse_nothing_overwrites_its_slot() -> None:
    cache = LlamaCppCache(ONE)
    cache.serve(asked([1, 2, 3, 4]))
    assert cache.serve(asked([1, 2, 3], cache_prompt=False)) == Served(0, evicted=4)
    assert cache.serve(asked([1, 2, 3, 4])).cached == 3


def test_a_prompt_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    cache = LlamaCppCache(LlamaCppOptions(parallel=2, ctx_size=512, cache_ram=0))
    cache.serve(asked([1, 2, 3]))
    with pytest.raises(
        EngineError, match=r"a prompt of 256 tokens does not fit into a slot: its context is 256"
    ) as caught:
        cache.serve(asked(range(256)))
    assert caught.value.hint == "raise --ctx-size, or lower --parallel"
    with pytest.raises(EngineError, match="a prompt has no tokens"):
        cache.serve(asked([]))
    assert cache.num_tokens == 3
    assert cache.serve(asked(range(255), [1, 2, 3])).cached == 0
    assert cache.num_tokens == 3 + 255  # the context is full before a second token


def test_an_option_that_cannot_be() -> None:
    for changes, message in [
        ({"parallel": 0}, "parallel is 0; llama.cpp accepts 1 or more"),
        ({"parallel": 257}, "parallel is 257; llama.cpp accepts 256 at most"),
        ({"ctx_size": 0}, "ctx_size is 0; llama.cpp accepts 1 or more"),
        ({"cache_ram": -2}, "cache_ram is -2; llama.cpp accepts -1 or more"),
        ({"cache_reuse": -1}, "cache_reuse is -1; llama.cpp accepts 0 or more"),
        ({"sliding_window": 0}, "sliding_window is 0; llama.cpp accepts 1 or more"),
        ({"ubatch_size": 0}, "ubatch_size is 0; llama.cpp accepts 1 or more"),
        ({"slot_prompt_similarity": 1.5}, "slot_prompt_similarity is 1.5, not a share"),
    ]:
        with pytest.raises(EngineError, match=message.replace(".", r"\.")):
            LlamaCppOptions(**changes)


def test_contexts_are_rounded_up() -> None:
    for options, slot, total in [
        (LlamaCppOptions(ctx_size=1000), 1024, 1024),
        (LlamaCppOptions(ctx_size=1000, parallel=3), 512, 1536),
        (LlamaCppOptions(ctx_size=300, parallel=3), 256, 768),
        (LlamaCppOptions(ctx_size=4096, parallel=2, kv_unified=True, kv_unified_per_slot=700), 700, 4096),
    ]:
        assert (options.slot_ctx, options.total_ctx) == (slot, total)


def test_the_defaults_are_those_of_llama_cpp() -> None:
    told = {
        "parallel": None,
        "kv_unified": None,
        "kv_unified_per_slot": None,
        "cache_ram": 8192,
        "cache_idle_slots": True,
        "slot_prompt_similarity": 0.1,
        "cache_reuse": 0,
        "batch_size": 2048,
        "ubatch_size": 512,
        "swa_full": False,
        "ctx_checkpoints": 32,
        "checkpoint_min_step": 8192,
    }
    options = LlamaCppOptions()
    assert {name: getattr(options, name) for name in told} == told
    assert (options.slots, options.unified, options.slot_ctx, options.total_ctx) == (4, True, 131_072, 131_072)
    assert options.kv_bytes_per_token * 65_536 == options.host_bytes  # tokens of Llama 3.1 8B in f16


# Random requests, and the plain server


@st.composite
def servers(draw: st.DrawFn) -> LlamaCppOptions:
    window = draw(st.sampled_from([None, None, 3, 20]))
    return LlamaCppOptions(
        parallel=draw(st.integers(1, 3)),
        ctx_size=draw(st.sampled_from([256, 512, 768])),
        kv_unified=draw(st.booleans()),
        cache_ram=draw(st.sampled_from([0, -1, 1, 1])),
        cache_idle_slots=draw(st.booleans()),
        slot_prompt_similarity=draw(st.sampled_from([0, 0.1, 0.3, 0.9])),
        cache_reuse=draw(st.sampled_from([0, 1, 3])),
        batch_size=draw(st.sampled_from([2048, 30])),
        ubatch_size=draw(st.sampled_from([512, 16, 5])),
        swa_full=window is not None and draw(st.booleans()),
        ctx_checkpoints=draw(st.sampled_from([0, 1, 2, 3, 32])),
        checkpoint_min_step=draw(st.sampled_from([0, 15, 8192])),
        sliding_window=window,
        kv_bytes_per_token=draw(st.sampled_from([1000, 4000])),
        window_bytes_per_token=0 if window is None else 500,
        kv_layers=2,
        window_layers=0 if window is None else 3,
    )


def workload(chance: random.Random, context: int) -> Iterator[tuple[Tokens, Tokens, int | None, bool]]:
    """Prompts that begin like earlier ones, go on after their answers, or had text taken out or replaced."""
    seen: list[tuple[Tokens, Tokens]] = [([1, 2, 3], [4])]
    for _ in range(14):
        prompt, answer = chance.choice(seen)
        kind = chance.random()
        at = chance.randrange(len(prompt))
        if kind < 0.3:
            prompt = prompt + answer + text(chance, chance.randint(1, 30))
        elif kind < 0.5:
            prompt = prompt[:at] + prompt[at + chance.randint(1, 30) :]
        elif kind < 0.7:
            prompt = prompt[:at] + text(chance, chance.randint(1, 20)) + prompt[at:]
        elif kind < 0.85:
            prompt = text(chance, chance.randint(1, 150))
        prompt = prompt[: context - 1] or [5]
        answer = text(chance, chance.choice([1, 2, 9, 40]))
        seen.append((prompt, answer))
        yield prompt, answer, chance.choice([None] * 12 + [0, 1, 5]), chance.random() < 0.95


@given(servers(), st.integers(0, 10_000))
def test_it_serves_as_the_plain_server_does(options: LlamaCppOptions, seed: int) -> None:
    cache, plain = LlamaCppCache(options), PlainServer(options)
    held = 0
    for prompt, answer, number, reuse in workload(random.Random(seed), options.slot_ctx):
        served = cache.serve(asked(prompt, answer, id_slot=number, cache_prompt=reuse))
        assert served.cached == plain.serve(prompt, answer, number, reuse)
        cache.check()
        assert 0 <= served.cached <= len(prompt) - 1
        assert [slot.used for slot in cache.memory.slots] == [slot.used for slot in plain.slots]
        assert cache.num_tokens == sum(len(slot.tokens) for slot in plain.slots) + sum(
            len(each["tokens"]) for each in plain.saved
        )
        computed = len(prompt) + min(len(answer), options.slot_ctx - len(prompt)) - 1 - served.cached
        assert served.evicted >= 0
        if not options.cache_ram:  # without copies what was held and computed is held now, or was evicted
            assert cache.num_tokens == held + computed - served.evicted
        held = cache.num_tokens


@given(st.lists(st.integers(0, 2), max_size=200), st.lists(st.integers(0, 2), max_size=200), st.integers(0, 200))
def test_common_prefixes(one: Tokens, other: Tokens, shared: int) -> None:
    alike = one[:shared] + other
    a, b = (as_bytes(np.array(each, dtype=np.int32)) for each in (one, alike))
    assert common_prefix(a, b) == common_prefix(b, a) == same(one, alike)


# Figures of the real server


def profiles() -> dict[str, list[tuple[Tokens, Tokens]]]:
    """Workloads of which the real server told its cached tokens; answers of 8."""
    chance = random.Random(0)

    def alone(prompts: Iterable[Tokens]) -> list[tuple[Tokens, Tokens]]:
        return [(prompt, text(chance, 8)) for prompt in prompts]

    def sessions() -> Iterator[tuple[Tokens, Tokens]]:
        histories = [text(chance, 300) for _ in range(6)]
        for _ in range(6):
            for history in histories:
                answer = text(chance, 8)
                yield [*history], answer
                history += answer + text(chance, 60)

    head, text_40, heads = text(chance, 1000), text(chance, 40), [text(chance, 800), text(chance, 800)]
    long, tail, turns = text(chance, 1200), text(chance, 1195), [text(chance, 100) for _ in range(24)]
    return {
        "head 1,000 + own 100": alone(head + text(chance, 100) for _ in range(20)),
        "prompt of 40": alone([text_40] * 20),
        "sessions": list(sessions()),
        "two heads in turn": alone(heads[index % 2] + text(chance, 100) for index in range(20)),
        "5 replaced at 200": alone(long[:200] + text(chance, 5) + long[205:] for _ in range(20)),
        "history slides": alone([*head[:200], *chain(*turns[index : index + 10])] for index in range(15)),
        "head 1,000 + own 900": alone(head + text(chance, 900) for _ in range(12)),
        "first 5 replaced": alone(text(chance, 5) + tail for _ in range(20)),
    }


SERVERS = (
    LlamaCppOptions(),
    LlamaCppOptions(parallel=1, cache_ram=0),
    LlamaCppOptions(cache_reuse=64),
    LlamaCppOptions(sliding_window=64),
)
TOLD = {
    "head 1,000 + own 100": (22_000, [19_000, 19_000, 19_000, 19_000]),
    "prompt of 40": (800, [741, 741, 741, 665]),
    "sessions": (16_920, [13_290, 0, 13_290, 12_930]),
    "two heads in turn": (18_000, [14_400, 0, 14_400, 6_894]),
    "5 replaced at 200": (24_000, [3_800, 3_800, 3_800, 0]),
    "history slides": (18_000, [2_800, 2_800, 15_400, 0]),
    "head 1,000 + own 900": (22_800, [11_000, 11_000, 11_000, 0]),
    "first 5 replaced": (24_000, [0, 0, 0, 0]),
}


def test_workloads_of_which_the_server_told_its_hits() -> None:
    for name in TOLD:
        requests = profiles()[name]
        tokens, cached = TOLD[name]
        assert sum(len(prompt) for prompt, _ in requests) == tokens
        for options, want in zip(SERVERS, cached, strict=True):
            cache = LlamaCppCache(options)
            assert sum(cache.serve(asked(prompt, answer)).cached for prompt, answer in requests) == want


@pytest.mark.skipif(not SHAREGPT.exists(), reason="no ShareGPT requests beside this checkout")
@pytest.mark.parametrize(
    ("options", "cached"),
    [
        (LlamaCppOptions(), 7_123),
        (LlamaCppOptions(cache_ram=65_536), 19_722),
        (LlamaCppOptions(parallel=1, cache_ram=0), 531),
    ],
)
def test_300_requests_of_sharegpt(options: LlamaCppOptions, cached: int) -> None:
    requests = [json.loads(line) for line in SHAREGPT.read_text().splitlines()]
    cache = LlamaCppCache(options)
    served = [cache.serve(asked(request["input_tok_ids"], request["output_tok_ids"])) for request in requests]
    assert (len(served), sum(each.cached for each in served)) == (300, cached)
    cache.check()
