"""SGLang's rules one request at a time: what stays, what goes first, and random runs beside a plain model of them."""

from __future__ import annotations

from collections import defaultdict
from itertools import takewhile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import RuleRequest, Served
from kvtool.engine.rules.sglang import SGLANG, SglangCache
from kvtool.engine.rules.sglang_options import EVICTION_POLICIES, SglangOptions
from kvtool.engine.rules.vllm import VllmCache, VllmOptions

from .plain_sglang import PlainSglang
from .sglang_cases import Case, random_case
from .sharegpt import ASKED, needs_sharegpt

POOL = 41_408
SEEDS = st.integers(0, 1 << 30)


def asked(prompt: list[int], answer: list[int] | None = None, scope: Any = None, priority: int = 0) -> RuleRequest:
    return RuleRequest(np.array(prompt, np.int32), np.array(answer or [0], np.int32), scope, priority)


def run(start: int, count: int) -> list[int]:
    return list(range(start, start + count))


def serve(cache: SglangCache, *requests: RuleRequest) -> list[Served]:
    found = []
    for request in requests:
        found.append(cache.serve(request))
        cache.memory.tree.check()
        assert cache.memory.num_free + cache.num_tokens == cache.memory.capacity
    return found


def cached(options: SglangOptions, *requests: RuleRequest) -> list[int]:
    return [each.cached for each in serve(SglangCache(options), *requests)]


@needs_sharegpt
@pytest.mark.parametrize(
    ("options", "hits", "evicted"),
    [
        (SglangOptions(), 20_067, 0),
        (SglangOptions(page_size=16), 19_520, 0),
        (SglangOptions(page_size=64), 18_880, 0),
        (SglangOptions(max_total_tokens=POOL), 5_133, 406_796),
        (SglangOptions(page_size=16, max_total_tokens=POOL), 3_616, 405_984),
    ],
)
def test_the_300_sharegpt_requests(options: SglangOptions, hits: int, evicted: int) -> None:
    assert sum(len(each.prompt) for each in ASKED) == 257_239
    served = serve(SglangCache(options), *ASKED)
    assert (sum(each.cached for each in served), sum(each.evicted for each in served)) == (hits, evicted)


@needs_sharegpt
def test_sharegpt_in_pages_of_16_hits_as_in_vllms_blocks() -> None:
    ours, theirs = SglangCache(SglangOptions(page_size=16)), VllmCache(VllmOptions(block_size=16))
    assert [ours.serve(each).cached for each in ASKED] == [theirs.serve(each).cached for each in ASKED]


def head_and_own(head: int, own: int, users: int) -> list[RuleRequest]:
    return [asked(run(0, head) + run(10_000 * (user + 1), own), run(5_000_000 + 8 * user, 8)) for user in range(users)]


@pytest.mark.parametrize(
    ("requests", "tokens", "pages"),
    [
        (head_and_own(1_000, 100, 20), 19_000, 18_240),
        (head_and_own(40, 0, 20), 741, 0),
        (head_and_own(1_000, 900, 12), 11_000, 10_560),
        ([asked([900_000 + user, *run(0, 1_199)]) for user in range(20)], 0, 0),
    ],
    ids=["a head and an own part", "a short prompt", "a long own part", "the first token differs"],
)
def test_what_pages_of_1_and_of_64_reuse(requests: list[RuleRequest], tokens: int, pages: int) -> None:
    assert sum(cached(SglangOptions(), *requests)) == tokens
    assert sum(cached(SglangOptions(page_size=64), *requests)) == pages


def test_the_last_token_of_a_prompt_is_computed_and_that_of_an_answer_is_not_kept() -> None:
    one, other = asked([1, 2, 3], [4, 5, 6]), asked([1, 2, 3, 4, 5, 6, 7])
    assert cached(SglangOptions(), one, one, other) == [0, 2, 5]


def test_an_answer_goes_before_its_prompt() -> None:
    """The first request's prompt is older than the second's answer, and worth more."""
    options = SglangOptions(radix_eviction_policy="priority", max_total_tokens=20)
    cache = SglangCache(options)
    one, two = asked(run(0, 5), run(50, 4)), asked(run(100, 5), run(150, 4))
    assert [each.evicted for each in serve(cache, one, two, asked(run(200, 5)))] == [0, 0, 3]
    assert [each.cached for each in serve(cache, one)] == [4]


def test_a_leaf_goes_whole() -> None:
    options = SglangOptions(max_total_tokens=24)
    assert [each.evicted for each in serve(SglangCache(options), asked(run(0, 12)), asked(run(50, 13)))] == [0, 12]


def test_a_page_more_than_needed_is_asked_for() -> None:
    """32 tokens in two pages, and a prompt of one page, which would fit: two are asked for."""
    options = SglangOptions(page_size=16, max_total_tokens=48)
    assert [each.evicted for each in serve(SglangCache(options), asked(run(0, 31)), asked(run(50, 16)))] == [0, 0]
    options = SglangOptions(page_size=16, max_total_tokens=64)
    served = serve(SglangCache(options), asked(run(0, 32)), asked(run(50, 16)), asked(run(90, 16)))
    assert [each.evicted for each in served] == [0, 0, 32]


def test_what_stands_behind_a_split_counts_as_used() -> None:
    """The second prompt ends in the first one's node; so its rest is used after the third, which goes first."""
    options = SglangOptions(max_total_tokens=40)
    first, other, short = asked(run(0, 12)), asked(run(100, 12)), asked(run(0, 6))
    served = serve(SglangCache(options), first, other, short, asked(run(200, 20)), first)
    assert [each.cached for each in served] == [0, 0, 5, 0, 11]
    assert [each.evicted for each in served] == [0, 0, 0, 12, 0]


def test_who_goes_first() -> None:
    """One prompt was asked three times, another once and later."""
    for policy, hits in [("lru", [False, True]), ("lfu", [True, False]), ("slru", [True, False])]:
        options = SglangOptions(radix_eviction_policy=policy, max_total_tokens=30, protected_threshold=3)
        often, late = asked(run(0, 10)), asked(run(100, 10))
        before = (often, often, often, late, asked(run(200, 12)))
        for request, hit in zip((often, late), hits, strict=True):
            *_, last = serve(SglangCache(options), *before, request)
            assert (last.cached == 9) is hit, (policy, request)


def test_scopes_share_nothing() -> None:
    same = run(0, 8)
    assert cached(
        SglangOptions(), asked(same, scope="a"), asked(same, scope="b"), asked(same), asked(same, scope="a")
    ) == [
        0,
        0,
        0,
        7,
    ]


def test_why_no_more_was_reused() -> None:
    for options, requests, loss in [
        (SglangOptions(), [run(0, 8), run(0, 8)], "last token"),
        (SglangOptions(), [run(0, 8), run(0, 9)], ""),
        (SglangOptions(page_size=4), [run(0, 8), run(0, 8)], "last token"),
        (SglangOptions(page_size=4), [run(0, 8), [*run(0, 7), 99]], "page"),
        (SglangOptions(page_size=4), [run(0, 9), run(0, 9)], "page"),
        (SglangOptions(page_size=4), [run(0, 8), run(0, 9)], ""),
        (SglangOptions(max_total_tokens=20), [run(0, 12), run(50, 12), run(0, 12)], "evicted"),
        (SglangOptions(), [run(0, 8), run(50, 9)], ""),
    ]:
        *_, last = serve(SglangCache(options), *map(asked, requests))
        assert last.loss == loss


def test_a_request_that_could_never_run_changes_nothing() -> None:
    cache = SglangCache(SglangOptions(page_size=16, max_total_tokens=70))
    serve(cache, asked(run(0, 20), run(50, 5)))
    held = cache.num_tokens
    for prompt, answer, said in (
        (48, 1, "can hold 47"),
        (30, 16, "can hold an answer of 15"),
        (33, 2, "can hold an answer of 1,"),
    ):
        with pytest.raises(EngineError, match=said) as refused:
            cache.serve(asked(run(0, prompt), run(500, answer)))
        assert refused.value.hint == "raise max_total_tokens"
    assert cache.num_tokens == held
    assert [each.cached for each in serve(cache, asked(run(0, 30), run(500, 15)), asked(run(0, 47)))] == [16, 16]


def test_nothing_is_asked_nothing_happens() -> None:
    cache = SglangCache(SglangOptions())
    assert cache.serve(RuleRequest(np.array([], np.int32), np.array([1], np.int32))) == Served(0)
    assert cache.serve(RuleRequest(np.array([1, 2], np.int32), np.array([], np.int32))) == Served(0)
    assert cache.num_tokens == 2


def test_options_that_cannot_be() -> None:
    for wrong in [
        {"page_size": 0},
        {"max_total_tokens": 0},
        {"page_size": 16, "max_total_tokens": 15},
        {"radix_eviction_policy": "fifo"},
        {"schedule_policy": "hrrn"},
        {"max_running_requests": 0},
        {"max_prefill_tokens": 0},
        {"new_token_ratio": 1.5},
        {"new_token_ratio": float("nan")},
    ]:
        with pytest.raises(EngineError, match=f"{list(wrong)[-1]} is") as refused:
            SglangOptions(**wrong)
        assert refused.value.hint


def test_the_rule_set() -> None:
    assert SGLANG.options == SglangOptions()
    assert SGLANG.unit(SglangOptions(page_size=64)) == 64
    assert SGLANG.limited is not None
    assert SGLANG.limited(SGLANG.options, 4_096).max_total_tokens == 4_096
    settings = SGLANG.remedies(SglangOptions(page_size=16, max_total_tokens=512))
    assert {each.options for each in settings if each.fate == "partial_block"} == {SglangOptions(max_total_tokens=512)}
    assert SglangOptions(page_size=16, max_total_tokens=1_024) in {
        each.options for each in settings if each.fate == "evicted"
    }
    assert [other.fate for other in SGLANG.remedies(SGLANG.options)] == ["in_flight"]


def spec_of(case: Case) -> tuple[SglangOptions, PlainSglang]:
    engine = case["engine"]
    threshold = engine.get("eviction_config", {}).get("protected_threshold", 2)
    options = SglangOptions(
        page_size=engine["page_size"],
        radix_eviction_policy=engine["eviction"],
        protected_threshold=threshold,
        max_total_tokens=engine["capacity"],
    )
    return options, PlainSglang(engine["page_size"], engine["eviction"], engine["capacity"], threshold)


def requests_of(case: Case) -> list[tuple[list[int], list[int], Any, int]]:
    return [
        (
            each["prompt"],
            each["output"],
            (each.get("extra_key"), each.get("cache_salt")),
            each.get("priority", 0),
        )
        for each in case["requests"]
    ]


@given(SEEDS)
def test_random_runs_beside_a_plain_model(seed: int) -> None:
    case = random_case(seed, "sequential")
    options, plain = spec_of(case)
    cache = SglangCache(options)
    for prompt, answer, scope, priority in requests_of(case):
        (got,) = serve(cache, asked(prompt, answer, scope, priority))
        assert (got.cached, got.evicted) == plain.serve(prompt, answer, scope, priority)
        assert cache.num_tokens == plain.held <= cache.memory.capacity
        assert cache.memory.tree.num_locked == 0


@given(SEEDS, st.sampled_from((1, 2, 16)))
def test_without_a_limit_the_longest_prefix_in_the_scope_hits(seed: int, page: int) -> None:
    kept: dict[Any, list[list[int]]] = defaultdict(list)
    cache = SglangCache(SglangOptions(page_size=page))
    for prompt, answer, scope, _ in requests_of(random_case(seed, "sequential")):
        (got,) = serve(cache, asked(prompt, answer, scope))
        common = max(
            (
                sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(prompt, each, strict=False)))
                for each in kept[scope]
            ),
            default=0,
        )
        most = min(common, len(prompt) - 1)
        assert got == Served(most - most % page, 0, got.loss)
        assert (got.loss == "") is (got.cached == common)
        kept[scope].append(prompt + answer[:-1])


@given(SEEDS, st.sampled_from(EVICTION_POLICIES))
def test_what_hits_was_there_before_and_a_larger_page_never_hits_more_without_a_limit(seed: int, policy: str) -> None:
    case = random_case(seed, "sequential")
    options, _ = spec_of({**case, "engine": {**case["engine"], "eviction": policy}})
    limited, lasting = SglangCache(options), SglangCache(SglangOptions())
    for prompt, answer, scope, priority in requests_of(case):
        request = asked(prompt, answer, scope, priority)
        (got,), (most,) = serve(limited, request), serve(lasting, request)
        assert got.cached <= most.cached
        assert got.cached % options.page_size == 0
        assert got.evicted % options.page_size == 0
        assert got.loss != "evicted" or got.cached < most.cached
