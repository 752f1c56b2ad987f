"""One workload through every engine's rules: the table of the design, requests with their hits and what the rest was lost to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kvtool.accounting.caches.engine_tally import EngineTally, SharedPrefixes
from kvtool.engine.rules.rule_set import RuleChoice, RuleRequest
from kvtool.engine.rules.rule_sets import find_rule_set
from tests.engine.sharegpt import ASKED, needs_sharegpt

COLUMNS = [
    ("vllm", {}),
    ("sglang", {}),
    ("sglang", {"page_size": 64}),
    ("trtllm", {}),
    ("llamacpp", {}),
    ("llamacpp", {"parallel": 1, "cache_ram": 0}),
    ("llamacpp", {"cache_reuse": 64}),
    ("llamacpp", {"sliding_window": 64}),
]
Prompts = Sequence[np.ndarray]


def choice(rules: str, **options: object) -> RuleChoice:
    found = find_rule_set(rules)
    return RuleChoice(found, replace(found.options, **options))


def tallied(
    choices: Sequence[RuleChoice], requests: Sequence[RuleRequest], salts: Sequence[str | None] = ()
) -> list[EngineTally]:
    """Each request through all of them; what hit, was lost and is new sums to the prompt."""
    tallies, known = [EngineTally(each) for each in choices], SharedPrefixes()
    for number, asked in enumerate(requests):
        salt = salts[number] if salts else None
        own, shared = known.enter(asked.prompt, asked.answer, salt)
        for tally in tallies:
            before = tally.total()
            tally.take("g", replace(asked, scope=salt), own, shared)
            after = tally.total()
            if not tally.refused:
                hit, lost = after.hit_tokens - before.hit_tokens, after.lost.total() - before.lost.total()
                assert hit + lost == max(shared, hit)
    return tallies


class Text:
    """Random tokens, none of which is drawn twice by chance in the same place."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(7)

    def __call__(self, count: int) -> np.ndarray:
        return self.random.integers(1000, 100_000, count, dtype=np.int32)


def asked(prompts: Prompts, text: Text) -> list[RuleRequest]:
    return [RuleRequest(prompt.astype(np.int32), text(8)) for prompt in prompts]


def join(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts)


def heads_and_own(text: Text, head: int, own: int, users: int) -> list[RuleRequest]:
    shared = text(head)
    return asked([join(shared, text(own)) for _ in range(users)], text)


def repeated(text: Text) -> list[RuleRequest]:
    prompt = text(40)
    return asked([prompt] * 20, text)


def two_heads(text: Text) -> list[RuleRequest]:
    heads = [text(800), text(800)]
    return asked([join(heads[number % 2], text(100)) for number in range(20)], text)


def replaced(text: Text, at: int) -> list[RuleRequest]:
    prompt = text(1200)
    return asked([join(prompt[:at], text(5), prompt[at + 5 :]) for _ in range(20)], text)


def sliding(text: Text) -> list[RuleRequest]:
    head, turns = text(200), [text(100) for _ in range(24)]
    return asked([join(head, *turns[number : number + 10]) for number in range(15)], text)


TABLE = {
    "a head of 1,000 and 100 of its own, 20 users": (
        lambda text: heads_and_own(text, 1000, 100, 20),
        [18_848, 19_000, 18_240, 19_000, 19_000, 19_000, 19_000, 19_000],
    ),
    "a prompt of 40, 20 times": (repeated, [608, 741, 0, 741, 741, 741, 741, 665]),
    "two heads of 800 in turn": (two_heads, [14_400, 14_400, 13_824, 14_400, 14_400, 0, 14_400, 6_894]),
    "5 tokens replaced at 200 of 1,200": (
        lambda text: replaced(text, 200),
        [3_648, 3_800, 3_648, 3_800, 3_800, 3_800, 3_800, 0],
    ),
    "a head of 200, and a window of 10 turns that slides": (
        sliding,
        [2_688, 2_800, 2_688, 2_800, 2_800, 2_800, 15_400, 0],
    ),
    "a head of 1,000 and 900 of its own, 12 users": (
        lambda text: heads_and_own(text, 1000, 900, 12),
        [10_912, 11_000, 10_560, 11_000, 11_000, 11_000, 11_000, 0],
    ),
    "the first 5 tokens replaced": (lambda text: replaced(text, 0), [0] * 8),
}


def test_the_table_of_all_engines() -> None:
    for name in TABLE:
        make, expected = TABLE[name]
        tallies = tallied([choice(rules, **options) for rules, options in COLUMNS], make(Text()))
        assert [tally.total().hit_tokens for tally in tallies] == expected


def test_a_model_with_a_window_recomputes_where_no_checkpoint_fits() -> None:
    """And has it all where the layers with a window keep everything."""
    requests = heads_and_own(Text(), 1000, 900, 12)
    found = tallied(
        [choice("llamacpp", sliding_window=64), choice("llamacpp", sliding_window=64, swa_full=True)], requests
    )
    assert [tally.total().hit_tokens for tally in found] == [0, 11_000]
    assert found[0].total().lost == {"window": 11_000}


def test_what_a_slot_lost_is_told_as_that() -> None:
    (one,) = tallied([choice("llamacpp", parallel=1, cache_ram=0)], two_heads(Text()))
    assert one.total().lost == {"slot_lost": 14_400}


def test_a_host_list_that_is_too_small() -> None:
    """1 MiB holds 8 tokens of KV."""
    (one,) = tallied([choice("llamacpp", parallel=1, cache_ram=1)], two_heads(Text()))
    assert one.total().lost == {"host_list_full": 14_400}


def test_moved_text_is_told_apart() -> None:
    (one,) = tallied([choice("llamacpp", cache_reuse=64)], sliding(Text()))
    assert one.total().moved_tokens == 15_400 - 2_800


def test_pages_lose_parts_and_small_pools_evict() -> None:
    text = Text()
    pages, small = tallied([choice("sglang", page_size=64), choice("trtllm", max_tokens=1024)], two_heads(text))
    assert pages.total().lost == {"partial_block": 14_400 - 13_824}
    assert set(small.total().lost) == {"evicted"}


def test_salts_part_what_knows_them() -> None:
    prompt = np.arange(100, dtype=np.int32)
    requests = [RuleRequest(prompt, np.array([1], np.int32))] * 3
    names = ("vllm", "sglang", "trtllm", "llamacpp")
    found = tallied([choice(name) for name in names], requests, ["a", "b", "a"])
    assert [tally.total().hit_tokens for tally in found] == [96, 99, 99, 198]
    assert found[1].total().lost == {"isolated": 99, "last_token": 2}


def test_a_request_that_an_engine_refuses_is_counted_there_alone() -> None:
    text = Text()
    found = tallied([choice("trtllm", max_tokens=64), choice("sglang")], asked([text(100), text(20)], text))
    assert [tally.refused for tally in found] == [1, 0]
    assert [tally.total().requests for tally in found] == [1, 2]
    assert "the pool has 2" in found[0].first_refusal


@needs_sharegpt
def test_prompts_of_sharegpt_under_every_engine() -> None:
    choices = [choice(rules, **options) for rules, options in COLUMNS[:7]]
    choices += [
        choice("vllm", block_size=16),
        choice("sglang", page_size=16),
        choice("sglang", max_total_tokens=41_408),
        choice("sglang", max_total_tokens=41_408, page_size=16),
        choice("llamacpp", cache_ram=65_536),
    ]
    found = [tally.total() for tally in tallied(choices, ASKED)]
    assert [total.hit_tokens for total in found] == [
        *(19_520, 20_067, 18_880, 20_067, 7_123, 531, 7_123),
        *(19_520, 19_520, 5_133, 3_616, 19_722),
    ]
