"""Every prompt token has one fate: small workloads counted by hand, and random ones whose sums must come out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.boundary import BoundaryBook
from kvtool.accounting.ledger.fates import FATES
from kvtool.accounting.ledger.ledger import Ledger
from kvtool.accounting.plan import Plan
from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.profiler.run.purposes import counted_run, explained_run
from kvtool.profiler.run.run_books import HitBook, Hits, RowBook, TimeBook
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.results.choices import Rules
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.jobs import JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Conversation, HashedPrompt, Recorded, Turn

BLOCK = 4
LATENCY = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))


class Given:
    """A workload of one conversation for each list of turns."""

    def __init__(self, *conversations: list[Turn]) -> None:
        self._conversations = conversations

    def conversations(self) -> Iterator[Conversation]:
        return iter([Recorded(iter([replace(turn) for turn in turns])) for turns in self._conversations])


@pytest.fixture(scope="module")
def no_template(byte_tokenizer: Tokenizer) -> Renderer:
    def unused(tokenizer: Tokenizer) -> object:
        raise AssertionError(tokenizer)

    return Renderer(lambda: byte_tokenizer, unused)  # type: ignore[arg-type]


def turn(ids: Sequence[int], outputs: Sequence[int] = (0,), **options: object) -> Turn:
    """A request of token ids; with one output token, nothing of the answer is computed."""
    group = str(options.pop("group", "g"))
    return Turn(group, token_ids=np.array(ids, np.int32), output_ids=np.array(outputs, np.int32), **options)  # type: ignore[arg-type]


def hashed(blocks: list[int], num_tokens: int, **options: object) -> Turn:
    return Turn("trace", hashed=HashedPrompt(blocks, num_tokens, BLOCK), **options)  # type: ignore[arg-type]


def account(
    renderer: Renderer,
    *conversations: list[Turn],
    rules: Rules = "vllm",
    concurrency: int | None = None,
    use_arrivals: bool = False,
    unlimited_first: bool = False,
    **engine: object,
) -> RunResult:
    config = EngineConfig(block_size=BLOCK, **engine)  # type: ignore[arg-type]
    plan = Plan(config, LATENCY, rules=rules, concurrency=concurrency, use_arrivals=use_arrivals)
    relaxed = []
    if unlimited_first:
        endless = replace(plan, engine=replace(config, num_blocks=None))
        relaxed = [("evicted", hits_of(renderer, endless, conversations))]
    return _run(renderer, plan, conversations, relaxed=relaxed, per_request=True)


def hits_of(renderer: Renderer, plan: Plan, conversations: Sequence[list[Turn]]) -> Hits:
    setup = RunSetup(plan, JobMaker(renderer, seed=0), Progress(None))
    return counted_run(setup, keep_hits=True).run(Given(*conversations)).book(HitBook).hits


def _run(renderer: Renderer, plan: Plan, conversations: Sequence[list[Turn]], **options: object) -> RunResult:
    maker = JobMaker(renderer, seed=0)
    accountant = explained_run(RunSetup(plan, maker, Progress(None)), **options)  # type: ignore[arg-type]
    result = accountant.run(Given(*conversations))
    assert_sums(result)
    return result


def assert_sums(result: RunResult) -> None:
    groups = list(result.ledger.totals())
    for group in groups:
        assert set(group.fates) <= set(FATES)
        assert all(tokens >= 0 for tokens in group.fates.values())
        assert sum(group.fates.values()) == group.prompt_tokens
        assert group.fates["hit"] == group.hit_tokens <= group.reachable_tokens
        assert sum(turn.prompt_tokens for turn in group.turns.values()) == group.prompt_tokens
    fates = result.ledger.fates()
    assert sum(fates.values()) == sum(group.prompt_tokens for group in groups)
    assert list(fates) == [name for name in FATES if name in fates]


def numbers(start: int, count: int) -> list[int]:
    return list(range(start, start + count))


TEN = numbers(0, 10)


def test_first_use_unique_hit_and_partial_block(no_template: Renderer) -> None:
    """Ten shared tokens, two of them beyond the last shared block; then 3 tokens of its own for each."""
    prompts = [[turn(TEN + numbers(100 * (i + 1), 3))] for i in range(3)]
    assert account(no_template, *prompts).ledger.fates() == {
        "hit": 2 * 8,
        "partial_block": 2 * 2,
        "first_use": 10,
        "unique": 3 * 3,
    }


def test_last_token(no_template: Renderer) -> None:
    """The same two whole blocks twice: the second one is computed again for the logits of its last token."""
    assert account(no_template, [turn(numbers(0, 8))], [turn(numbers(0, 8))]).ledger.fates() == {
        "hit": 4,
        "last_token": 4,
        "first_use": 8,
    }


def test_evicted(no_template: Renderer) -> None:
    """Four blocks in all: what comes between takes the tail of the first prompt."""
    a, b = numbers(0, 9), numbers(50, 7)
    result = account(no_template, [turn(a)], [turn(b)], [turn(a)], num_blocks=5)
    # a holds 1 2 (full) and 3; b takes 3 and 4; its full one, 3, stays. a again hits 1 2: nothing is lost yet.
    assert result.ledger.fates() == {"hit": 8, "partial_block": 1, "first_use": 9, "unique": 7}
    c = numbers(50, 12)  # three blocks: 3, 4 and the tail of a
    result = account(no_template, [turn(a)], [turn(c)], [turn(a)], num_blocks=5)
    assert result.ledger.fates() == {"hit": 4, "evicted": 4, "partial_block": 1, "first_use": 9, "unique": 12}
    assert result.counts.evictions == 3  # block 2 of a for c, then the two last blocks of c for a


def test_isolated(no_template: Renderer) -> None:
    """Two tenants of one prompt each compute it; within a tenant it hits."""
    prompts = [turn(TEN, salt="a"), turn(TEN, salt="b"), turn(TEN, salt="a")]
    assert account(no_template, *([each] for each in prompts)).ledger.fates() == {
        "hit": 8,
        "isolated": 8,
        "partial_block": 2 * 2,
        "first_use": 10,
    }


def test_what_another_tenant_has_makes_no_block_of_any_size(no_template: Renderer) -> None:
    prompts = [turn(numbers(0, 20), salt="a"), turn(numbers(0, 20), salt="b"), turn(numbers(0, 20), salt="a")]
    [group] = account(no_template, *([each] for each in prompts)).book(BoundaryBook)
    assert (group.nothing, group.sizes[16].hit_tokens) == (2, 16)


def test_no_salt_is_a_tenant_too_even_where_it_came_first(no_template: Renderer) -> None:
    prompts = [turn(TEN), turn(TEN), turn(TEN, salt="a"), turn(TEN), turn(TEN, salt=""), turn(TEN, salt="a")]
    result = account(no_template, *([each] for each in prompts))
    assert [row.hit_tokens for row in result.book(RowBook).rows] == [0, 8, 0, 8, 8, 8]
    assert result.ledger.fates() == {"hit": 32, "isolated": 8, "partial_block": 5 * 2, "first_use": 10}


def test_caching_off(no_template: Renderer) -> None:
    prompts = [[turn(TEN)], [turn(TEN)]]
    want = {"hit": 0, "caching_off": 8, "partial_block": 2, "first_use": 10}
    assert account(no_template, *prompts, enable_prefix_caching=False).ledger.fates() == want
    for limits in ({}, {"num_blocks": 20, "unlimited_first": True}):
        together = account(no_template, *prompts, enable_prefix_caching=False, concurrency=2, **limits)  # type: ignore[arg-type]
        assert together.ledger.fates() == want


def test_blocked(no_template: Renderer) -> None:
    """A value in front of twenty shared tokens: nothing hits, and all twenty are blocked by it."""
    shared = numbers(0, 20)
    prompts = [[turn([500 + i, *shared])] for i in range(3)]
    assert account(no_template, *prompts).ledger.fates() == {"hit": 0, "blocked": 40, "unique": 3 + 20}


def test_eight_tokens_are_enough_to_be_the_same_text(no_template: Renderer) -> None:
    prompts = [[turn([500 + i, *numbers(0, 8)])] for i in range(2)]
    assert account(no_template, *prompts).ledger.fates() == {"hit": 0, "blocked": 8, "unique": 2 + 8}


def test_what_was_answered_counts_as_seen(no_template: Renderer) -> None:
    """A prompt that is most like another request, with an earlier answer at its end."""
    long, answer = numbers(1000, 400), numbers(3000, 100)
    prompts = [[turn([7, 8], outputs=[*answer, 1])], [turn([501, *long])], [turn([502, *long, *answer])]]
    fates = account(no_template, *prompts).ledger.fates()
    assert fates["blocked"] == 400
    assert 0 < fates["displaced"] <= 100


def test_short_agreements_do_not_count_as_the_same_text(no_template: Renderer) -> None:
    shared = numbers(0, 7)
    prompts = [[turn([500 + i, *shared, 600 + i])] for i in range(2)]
    assert account(no_template, *prompts).ledger.fates() == {"hit": 0, "unique": 18}


def test_blocked_behind_a_shared_prefix_and_two_values(no_template: Renderer) -> None:
    head, middle, tail = numbers(0, 9), numbers(100, 10), numbers(200, 12)

    def prompt(value: int) -> Turn:
        return turn([*head, 500 + value, *middle, 600 + value, *tail])

    assert account(no_template, [prompt(0)], [prompt(1)]).ledger.fates() == {
        "hit": 8,
        "partial_block": 1,
        "blocked": 22,
        "first_use": 9,
        "unique": (1 + 10 + 1 + 12) + 2,
    }


def test_what_is_scheduled_in_the_same_step_is_not_in_flight(no_template: Renderer) -> None:
    """Both in one step: the second one hits the blocks that the first one registers."""
    prompts = [[turn(TEN)], [turn(TEN)]]
    want = {"hit": 8, "partial_block": 2, "first_use": 10}
    assert account(no_template, *prompts, concurrency=2).ledger.fates() == want


@pytest.mark.parametrize("limited", [False, True])
def test_in_flight_is_not_eviction(no_template: Renderer, limited: bool) -> None:
    """Long prefills are cut to 3 tokens a step, so that b is admitted while a, the same prompt, is not computed yet."""
    a = turn(numbers(0, 13))
    b = turn(numbers(0, 13))
    pool = {"num_blocks": 20, "unlimited_first": True} if limited else {}
    filler = turn(numbers(100, 3), outputs=[1, 1, 1, 1, 1, 1])
    result = account(
        no_template,
        [filler],
        [a],
        [b],
        concurrency=3,
        max_num_batched_tokens=5,
        long_prefill_token_threshold=3,
        **pool,  # type: ignore[arg-type]
    )
    # Step 0: the filler's 3 tokens and a's first 2. Step 1: a decode, a's tokens 2 to 4, and b, which hits one block.
    hits = {row.id: row.hit_tokens for row in result.book(RowBook).rows}
    assert hits == {"r1": 0, "r2": 0, "r3": 4}
    assert result.ledger.fates() == {"hit": 4, "in_flight": 8, "partial_block": 1, "first_use": 13, "unique": 3}


def test_eviction_and_in_flight_are_told_apart(no_template: Renderer) -> None:
    """One after the other, but through the scheduler: what the small pool loses is evicted, not in flight."""
    a, c = numbers(0, 9), numbers(50, 12)
    result = account(no_template, [turn(a)], [turn(c)], [turn(a)], concurrency=1, num_blocks=5, unlimited_first=True)
    assert result.ledger.fates() == {"hit": 4, "evicted": 4, "partial_block": 1, "first_use": 9, "unique": 12}


def test_answers_are_reused_up_to_their_last_token(no_template: Renderer) -> None:
    """A second turn: 5 tokens, an answer of 4 (3 of them computed), and 3 new ones."""
    second = [*numbers(0, 5), *numbers(60, 4), *numbers(80, 3)]
    conversation = [turn(numbers(0, 5), outputs=numbers(60, 4)), turn(second, index=1)]
    result = account(no_template, conversation)
    assert result.ledger.fates() == {"hit": 8, "first_use": 5, "unique": 4}
    group = next(result.ledger.totals())
    assert {index: (each.requests, each.hit_tokens) for index, each in group.turns.items()} == {0: (1, 0), 1: (1, 8)}


def test_groups_share_the_cache_but_have_their_own_books(no_template: Renderer) -> None:
    result = account(no_template, [turn(TEN, group="x")], [turn(TEN, group="y")])
    x, y = result.ledger.totals()
    assert (dict(x.fates), dict(y.fates)) == ({"hit": 0, "first_use": 10}, {"hit": 8, "partial_block": 2})
    assert (x.hit_rate, y.hit_rate, y.reachable_rate, y.mean_request_rate) == (0.0, 0.8, 0.8, 0.8)
    assert (x.common_prefix(), y.common_prefix()) == (0, 10)


def test_a_trace_of_blocks(no_template: Renderer) -> None:
    """Its last block is half full; vLLM's rules cannot reuse it, those of trace studies can."""
    prompts = [[hashed([1, 2, 3], 10)], [hashed([1, 2, 3], 10)], [hashed([1, 7], 8)]]
    assert account(no_template, *prompts).ledger.fates() == {
        "hit": 8 + 4,
        "partial_block": 2,
        "first_use": 10,
        "unique": 4,
    }
    assert account(no_template, *prompts, rules="block-lru").ledger.fates() == {
        "hit": 10 + 4,
        "first_use": 10,
        "unique": 4,
    }
    small = account(no_template, *prompts, [hashed([1, 2, 3], 10)], rules="block-lru", num_blocks=4)
    assert small.ledger.fates()["evicted"] == 2  # three blocks: 7 took the place of 3, the tail


def test_block_lru_keeps_prompts_only_and_tenants_apart(no_template: Renderer) -> None:
    conversation = [turn(numbers(0, 5), outputs=numbers(60, 4)), turn([*numbers(0, 5), *numbers(60, 4), 9], index=1)]
    # 5 tokens are known, one block of them; the answer is not, and nothing was evicted.
    assert account(no_template, conversation, rules="block-lru").ledger.fates() == {
        "hit": 4,
        "partial_block": 1,
        "first_use": 5,
        "unique": 5,
    }
    tenants = [[hashed([1, 2], 8, salt=salt)] for salt in ("a", "b", "a")]
    assert account(no_template, *tenants, rules="block-lru").ledger.fates() == {"hit": 8, "isolated": 8, "first_use": 8}


def test_tokens_and_blocks_of_the_same_number_are_different_things(no_template: Renderer) -> None:
    """The trace's blocks are numbered 0, 1, …, which are token ids of the other group."""
    prompts = [[turn(numbers(0, 9))], [hashed([70, 71, 72], 12)], [turn(numbers(0, 9))], [hashed([70, 71], 8)]]
    result = account(no_template, *prompts)
    assert result.ledger.fates() == {
        "hit": 8 + 4,
        "last_token": 4,
        "partial_block": 1,
        "first_use": 9 + 8,
        "unique": 4,
    }


def test_a_request_that_never_ended_is_left_out() -> None:
    ledger = Ledger(BLOCK)
    ids, nothing = np.arange(10, dtype=np.int32), np.empty(0, np.int32)
    ledger.drop(ledger.submit(Turn("g"), ids, nothing))
    ledger.settle(ledger.submit(Turn("g"), ids, nothing), 8)
    ledger.close()
    assert ledger.fates() == {"hit": 8, "partial_block": 2}


def test_another_run_cannot_say_that_more_was_lost_than_there_was() -> None:
    """With an unlimited cache requests may come in another order; in this one, nothing was there to be evicted."""
    ledger = Ledger(BLOCK)
    ids, nothing, relaxed = np.arange(10, dtype=np.int32), np.empty(0, np.int32), [("evicted", 8)]
    assert ledger.settle(ledger.submit(Turn("g"), ids, nothing), 0, relaxed=relaxed) == {"hit": 0}
    assert ledger.settle(ledger.submit(Turn("g"), ids, nothing), 4, relaxed=relaxed) == {
        "hit": 4,
        "evicted": 4,
        "partial_block": 2,
    }
    ledger.close()
    assert ledger.fates() == {"hit": 4, "evicted": 4, "partial_block": 2, "first_use": 10}


def test_more_hits_than_there_were_are_a_bug() -> None:
    ledger = Ledger(BLOCK)
    entry = ledger.submit(Turn("g"), np.arange(10, dtype=np.int32), np.empty(0, np.int32))
    with pytest.raises(AssertionError, match="more than there was"):
        ledger.settle(entry, 4)


beginnings = st.sampled_from([(), (0,) * 6, (0,) * 12, (0,) * 6 + (1,) * 8, (1, 2) * 6])
values = st.lists(st.integers(0, 3), max_size=3)
endings = st.sampled_from([(), (5,) * 9, tuple(range(10, 24)), tuple(range(10, 19))])
tokens_of = st.tuples(beginnings, values, endings, st.lists(st.integers(0, 3), min_size=1, max_size=3)).map(
    lambda parts: [token for part in parts for token in part]
)
turns = st.builds(
    turn,
    tokens_of,
    st.lists(st.integers(0, 2), min_size=1, max_size=6),
    group=st.sampled_from(["x", "y"]),
    salt=st.sampled_from([None, None, "", "s", "t"]),
    arrival=st.floats(0, 0.05),
)


def trace(blocks: list[int], missing: int, salt: str | None) -> Turn:
    """A block that is not full is named apart from the full one that begins like it."""
    last = blocks[-1] * 10 + missing
    return hashed([*blocks[:-1], last if missing else blocks[-1]], len(blocks) * BLOCK - missing, salt=salt)


traces = st.builds(
    trace,
    st.sampled_from([[1], [1, 2], [1, 2, 3], [1, 2, 4, 5], [6], [6, 7]]),
    st.integers(0, 3),
    st.sampled_from([None, "s"]),
)
workloads = st.lists(st.lists(turns | traces, min_size=1, max_size=3), min_size=1, max_size=8)


@given(
    workloads,
    st.none() | st.integers(3, 25),
    st.sampled_from(["one at a time", "block-lru", "concurrency", "arrivals", "both"]),
    st.integers(1, 3),
    st.sampled_from([3, 7, 64]),
    st.sampled_from([True, True, True, False]),
)
def test_random_workloads_balance(
    no_template: Renderer,
    workload: list[list[Turn]],
    num_blocks: int | None,
    how: str,
    concurrency: int,
    budget: int,
    caching: bool,
) -> None:
    together = how in ("concurrency", "arrivals", "both")
    result = account(
        no_template,
        *workload,
        rules="block-lru" if how == "block-lru" else "vllm",
        concurrency=concurrency if how in ("concurrency", "both") else None,
        use_arrivals=how in ("arrivals", "both"),
        unlimited_first=together and num_blocks is not None,
        num_blocks=num_blocks,
        max_num_batched_tokens=budget,
        enable_prefix_caching=caching or how == "block-lru",
    )
    fates = result.ledger.fates()
    assert fates["hit"] == sum(row.hit_tokens for row in result.book(RowBook).rows)
    assert len(result.book(RowBook).rows) + result.left_out.refused == sum(map(len, workload))
    assert together or "in_flight" not in fates
    assert num_blocks is not None or "evicted" not in fates
    assert ("caching_off" in fates) <= (not caching)
    if not any(each.salt for conversation in workload for each in conversation):
        assert "isolated" not in fates


@given(
    st.lists(st.tuples(st.sampled_from([[1], [1, 2], [1, 2, 3], [4], [4, 5]]), st.integers(0, 3)), max_size=12),
    st.sampled_from(["vllm", "block-lru"]),
    st.sampled_from([3, 4, 8192]),
)
def test_predicted_ttft_computes_what_does_not_hit_and_always_the_last_token(
    no_template: Renderer, requests: list[tuple[list[int], int]], rules: Rules, budget: int
) -> None:
    """Rules of trace studies let whole prompts hit, and even then a model must run once for the first token."""
    result = account(
        no_template,
        *[[trace(blocks, missing, None)] for blocks, missing in requests],
        rules=rules,
        max_num_batched_tokens=budget,
    )
    expected = [
        LATENCY.prefill_seconds(row.prompt_tokens, min(row.hit_tokens, row.prompt_tokens - 1), budget)
        for row in result.book(RowBook).rows
    ]
    assert list(result.book(TimeBook).on) == pytest.approx(expected)
    assert all(seconds > LATENCY.step_overhead for seconds in result.book(TimeBook).on)
    assert list(result.book(TimeBook).off) == pytest.approx(
        [LATENCY.prefill_seconds(row.prompt_tokens, 0, budget) for row in result.book(RowBook).rows]
    )


def test_a_prompt_that_hits_as_a_whole_still_takes_a_step(no_template: Renderer) -> None:
    first, again = account(no_template, *[[hashed([1, 2], 8)]] * 2, rules="block-lru").book(TimeBook).on
    assert again == LATENCY.prefill_seconds(8, 7, 8192)
    assert 0 < again < first


@given(
    st.lists(
        st.tuples(
            st.sampled_from([[1], [1, 2], [1, 2, 3], [4], [4, 5]]), st.integers(0, 3), st.sampled_from([None, "s", "t"])
        ),
        max_size=12,
    ),
    st.sampled_from(["vllm", "block-lru"]),
)
def test_tenants_of_a_trace_hit_what_each_of_them_would_alone(
    no_template: Renderer, requests: list[tuple[list[int], int, str | None]], rules: Rules
) -> None:
    together = account(no_template, *[[trace(*each)] for each in requests], rules=rules)
    for tenant in {salt for _, _, salt in requests}:
        mine = [index for index, (_, _, salt) in enumerate(requests) if salt == tenant]
        alone = account(no_template, *[[trace(*requests[index])] for index in mine], rules=rules)
        assert [together.book(RowBook).rows[index].hit_tokens for index in mine] == [
            row.hit_tokens for row in alone.book(RowBook).rows
        ]


@pytest.mark.parametrize("rules", ["vllm", "block-lru"])
def test_two_tenants_of_a_trace_share_no_block(no_template: Renderer, rules: Rules) -> None:
    requests = [[hashed([1, 2, 3], 12, salt=salt)] for salt in ("a", "b", "a", None)]
    hits = [row.hit_tokens for row in account(no_template, *requests, rules=rules).book(RowBook).rows]
    assert [hit > 0 for hit in hits] == [False, False, True, False]
