"""Providers' rules: minimum, steps, breakpoints and time to live, counted by hand and against slow references."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.caches.cache_rules import CacheRules
from kvtool.accounting.caches.providers import PROVIDERS, Provider, find_provider
from kvtool.cli.app import run
from kvtool.config.options.cache_options import RuleOptions, cache_rules, rule_note
from kvtool.errors import KvtoolError
from kvtool.profiler.run.run_books import RowBook
from kvtool.text.message import Message
from kvtool.text.traced import Origin, Traced
from kvtool.workload.call import NO_CALL, CallSettings
from kvtool.workload.render import Renderer
from kvtool.workload.turn import HashedPrompt, RequestName, Turn
from tests.accounting.rule_runs import account, numbers, turn

OPENAI = find_provider("openai")
SMALL_STEPS = replace(OPENAI, minimum=8, step=4, ttl=None)
SMALL_MARKS = replace(find_provider("anthropic"), minimum=10, ttl=None)


def test_every_figure_has_a_date_and_a_source() -> None:
    assert len({provider.name for provider in PROVIDERS}) == len(PROVIDERS)
    for provider in PROVIDERS:
        assert re.fullmatch(r"20\d\d(-\d\d(-\d\d)?)?", provider.as_of)
        assert re.match(r"[a-z.-]+\.(com|dev)/\S+", provider.source)
        assert provider.minimum % provider.step == 0
        assert (provider.keeps == "breakpoints") == (provider.most > 0)
        assert all(later > (provider.ttl or 0) for later in provider.tiers)


def test_finding_one() -> None:
    assert find_provider(" OpenAI ") is OPENAI
    with pytest.raises(KvtoolError, match="unknown provider `antropic`") as caught:
        find_provider("antropic")
    assert caught.value.hint == "did you mean `anthropic`?"
    with pytest.raises(KvtoolError) as caught:
        find_provider("x")
    assert "gemini" in str(caught.value.hint)


def test_steps_of_128_from_1024(byte_renderer: Renderer) -> None:
    """1,023 shared tokens are too few; of 1,300 a multiple of 128 hits."""
    few, many = numbers(0, 1023), numbers(10_000, 1300)
    rules = CacheRules(provider=OPENAI)
    assert account(byte_renderer, rules, *[[turn([*few, 50_000 + i, 1])] for i in range(3)]).ledger.fates() == {
        "hit": 0,
        "below_minimum": 2 * 896,
        "partial_block": 2 * 127,
        "first_use": 1023,
        "unique": 3 * 2,
    }
    assert account(byte_renderer, rules, *[[turn([*many, 50_000 + i, 1])] for i in range(3)]).ledger.fates() == {
        "hit": 2 * 1280,
        "partial_block": 2 * 20,
        "first_use": 1300,
        "unique": 3 * 2,
    }


def test_five_minutes_without_use(byte_renderer: Renderer) -> None:
    ids = numbers(0, 1100)
    requests = [[turn([*ids, 5000 + i], float(at))] for i, at in enumerate([0, 300, 601, 602])]
    rules = cache_rules(RuleOptions(provider="openai"))
    assert rules is not None
    result = account(byte_renderer, rules, *requests, timed=True)
    assert [row.hit_tokens for row in result.book(RowBook).rows] == [0, 1024, 0, 1024]
    assert result.ledger.fates()["expired"] == 1024
    longer = account(byte_renderer, replace(rules, ttl=3600.0), *requests, timed=True)
    assert longer.ledger.fates()["hit"] == 3 * 1024


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=24), st.integers(0, 5)), min_size=1, max_size=10
    ),
    st.one_of(st.none(), st.integers(1, 8)),
)
def test_steps_against_a_slow_reference(
    byte_renderer: Renderer, requests: list[tuple[list[int], int]], ttl: int | None
) -> None:
    """Every prefix with the time of its last use; a hit is the longest one alive, cut to a step, not under the minimum."""
    used: dict[tuple[int, ...], int] = {}
    now, expected, turns = 0, [], []
    for ids, pause in requests:
        now += pause
        turns.append([turn(ids, float(now))])
        alive = 0
        while alive < len(ids) and tuple(ids[: alive + 1]) in used:
            if ttl is not None and now - used[tuple(ids[: alive + 1])] > ttl:
                break
            alive += 1
        hit = min(alive, len(ids) - 1) // 4 * 4
        expected.append(hit if alive // 4 * 4 >= 8 else 0)
        used.update({tuple(ids[:stop]): now for stop in range(1, len(ids) + 1)})
    rules = CacheRules(ttl=None if ttl is None else float(ttl), provider=SMALL_STEPS)
    result = account(byte_renderer, rules, *turns, timed=True)
    assert [row.hit_tokens for row in result.book(RowBook).rows] == expected


def message(role: str, *texts: str, marks: tuple[int, ...] = (), name: str = "breakpoint") -> Message:
    """A message of content parts; those in `marks` end a prefix to be stored."""
    key = {"breakpoint": "cache_control", "openai": "prompt_cache_breakpoint"}[name]
    parts = []
    for i, text in enumerate(texts):
        origin = Origin("log", part=role, pointer=(role, i, text), text=text, verbatim=False)
        part: Message = {"type": "text", "text": Traced.of(text, origin)}
        parts.append({**part, key: {"type": "ephemeral"}} if i in marks else part)
    return {"role": role, "content": parts}


def chat(*messages: Message, **options: object) -> list[Turn]:
    return [Turn("g", messages=list(messages), output_tokens=1, **options)]  # type: ignore[arg-type]


def test_only_what_ends_at_a_breakpoint(byte_renderer: Renderer) -> None:
    """`system:` and 24 characters are marked; the questions begin with the same words, which no breakpoint stores."""
    system = message("system", "You are a helpful thing.", marks=(0,))
    requests = [chat(system, message("user", f"Please tell me: {i}")) for i in range(3)]
    result = account(byte_renderer, CacheRules(provider=SMALL_MARKS), *requests)
    first = len("system:You are a helpful thing.")
    assert [row.hit_tokens for row in result.book(RowBook).rows] == [0, first, first]
    assert result.ledger.fates()["unmarked"] == 2 * len("\nuser:Please tell me: ")


def test_a_request_without_marks_has_one_at_its_last_block(byte_renderer: Renderer) -> None:
    """A conversation goes on from its own last question; another one finds nothing, although the system prompt is the same."""
    system, ask = message("system", "You are a helpful thing."), message("user", "First question?")
    answer, again = message("assistant", "An answer."), message("user", "And the second?")
    other = message("user", "Something else entirely")
    turns = [chat(system, ask), chat(system, ask, answer, again), chat(system, other)]
    result = account(byte_renderer, CacheRules(provider=SMALL_MARKS), *turns)
    known = len("system:You are a helpful thing.\nuser:First question?")
    assert [row.hit_tokens for row in result.book(RowBook).rows] == [0, known, 0]
    assert result.ledger.fates()["unmarked"] == len("\n") + len("system:You are a helpful thing.\nuser:")


def test_a_request_that_asks_for_no_caching_is_stored_up_to_its_marks_only(byte_renderer: Renderer) -> None:
    for marks in ((), (0,)):
        system, ask = message("system", "You are a helpful thing.", marks=marks), message("user", "First question?")
        call = replace(NO_CALL, settings=CallSettings(cache_mode="marks"))
        result = account(byte_renderer, CacheRules(provider=SMALL_MARKS), *[chat(system, ask, call=call)] * 2)
        assert result.ledger.fates()["hit"] == (len("system:You are a helpful thing.") if marks else 0)


@pytest.mark.parametrize("explicit", [(), (0,)])
@pytest.mark.parametrize("whole", [False, True])
def test_a_mark_of_the_whole_request_is_one_at_its_last_block(
    explicit: tuple[int, ...], whole: bool, byte_renderer: Renderer
) -> None:
    """Anthropic's automatic caching uses one of the four breakpoints, beside those of blocks."""
    system, ask = message("system", "You are a helpful thing.", marks=explicit), message("user", "First question?")
    answer, again = message("assistant", "An answer."), message("user", "And the second?")
    call = replace(NO_CALL, settings=CallSettings(cache_ttl="5m" if whole else None))
    turns = [chat(system, ask, call=call), chat(system, ask, answer, again, call=call)]
    for [sent] in turns:
        sent.name = RequestName("log.jsonl", 1)
    result = account(byte_renderer, CacheRules(provider=SMALL_MARKS), *turns)
    lead, both = len("system:You are a helpful thing."), len("system:You are a helpful thing.\nuser:First question?")
    expected = both if whole else lead if explicit else 0
    assert [row.hit_tokens for row in result.book(RowBook).rows] == [0, expected]


def test_below_the_minimum_nothing_is_stored(byte_renderer: Renderer) -> None:
    system = message("system", "Hm.", marks=(0,))  # ten tokens with its role; one less is too few
    requests = [chat(system, message("user", f"{i} is the question")) for i in range(2)]
    exact = account(byte_renderer, CacheRules(provider=SMALL_MARKS), *requests)
    assert exact.ledger.fates()["hit"] == 10
    stricter = replace(SMALL_MARKS, minimum=11)
    fates = account(byte_renderer, CacheRules(provider=stricter), *requests).ledger.fates()
    assert (fates["hit"], fates["below_minimum"]) == (0, 10)


@pytest.mark.parametrize(("lookback", "found"), [(3, True), (2, False)])
def test_the_lookback(byte_renderer: Renderer, lookback: int, found: bool) -> None:
    """The first request stores its only block; the second one has three more blocks between that and its breakpoint."""
    text = "The first block is long enough"
    first, again = message("user", text, marks=(0,)), message("user", text)
    more = message("user", "two", "three", "four", marks=(2,))
    provider = replace(SMALL_MARKS, lookback=lookback)
    result = account(byte_renderer, CacheRules(provider=provider), chat(first), chat(again, more))
    assert (result.book(RowBook).rows[1].hit_tokens > 0) == found


def test_an_hour_instead_of_five_minutes(byte_renderer: Renderer) -> None:
    provider = replace(find_provider("anthropic"), minimum=10)
    system = message("system", "You are a helpful thing.", marks=(0,))
    requests = [chat(system, message("user", f"{i}!"), arrival=float(at)) for i, at in enumerate([0, 200, 450, 1000])]
    five = account(byte_renderer, CacheRules(ttl=300.0, provider=provider), *requests, timed=True)
    first = len("system:You are a helpful thing.")
    assert [row.hit_tokens for row in five.book(RowBook).rows] == [
        0,
        first,
        first,
        0,
    ]  # reading it at 200 keeps it for 450
    assert five.ledger.fates()["expired"] == first
    hour = account(byte_renderer, CacheRules(ttl=3600.0, provider=provider), *requests, timed=True)
    assert [row.hit_tokens for row in hour.book(RowBook).rows] == [0, first, first, first]


def test_an_implicit_breakpoint_beside_explicit_ones(byte_renderer: Renderer) -> None:
    provider = replace(find_provider("openai-5.6"), minimum=10, ttl=None)
    marked = message("system", "You are a helpful thing.", marks=(0,), name="openai")
    plain = message("system", "You are a helpful thing.")
    system_text = len("system:You are a helpful thing.")
    for system, expected in (
        (marked, system_text),
        (plain, system_text),
    ):  # leading text is a boundary without a mark, too
        requests = [chat(system, message("user", f"{i} is the question")) for i in range(2)]
        result = account(byte_renderer, CacheRules(provider=provider), *requests)
        assert result.book(RowBook).rows[1].hit_tokens == expected
    ask, answer, again = message("user", "First question?"), message("assistant", "So."), message("user", "Second?")
    talk = account(byte_renderer, CacheRules(provider=provider), chat(plain, ask), chat(plain, ask, answer, again))
    assert talk.book(RowBook).rows[1].hit_tokens == len("system:You are a helpful thing.\nuser:First question?")


def test_whole_units_and_common_prefixes(byte_renderer: Renderer) -> None:
    """The documented example: A+B, then A+C finds nothing but shows that A is common, then A+D finds A."""
    rules = CacheRules(provider=find_provider("deepseek"))
    a = numbers(0, 20)
    requests = [[turn(a + numbers(100 * i, 7))] for i in (1, 2, 3)]
    result = account(byte_renderer, rules, *requests)
    assert [row.hit_tokens for row in result.book(RowBook).rows] == [0, 0, 20]
    assert result.ledger.fates()["unmarked"] == 20
    longer = [turn(numbers(0, 12), outputs=[500, 501, 502])], [turn([*numbers(0, 12), 500, 501, 502, 7])]
    # The answer's last token is never computed, so the unit ends before it.
    assert account(byte_renderer, rules, *longer).book(RowBook).rows[1].hit_tokens == 14


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=1, max_size=10))
def test_units_against_a_slow_reference(byte_renderer: Renderer, prompts: list[list[int]]) -> None:
    stored: set[tuple[int, ...]] = set()
    sent: list[tuple[int, ...]] = []
    expected = []
    for ids in map(tuple, prompts):
        units = [len(unit) for unit in stored if ids[: len(unit)] == unit]
        expected.append(min(max(units, default=0), len(ids) - 1))
        common = max((_common(ids, other) for other in sent), default=0)
        stored |= {ids, ids[:common]}
        sent.append(ids)
    rules = CacheRules(provider=find_provider("deepseek"))
    result = account(byte_renderer, rules, *[[turn(list(ids))] for ids in prompts])
    assert [row.hit_tokens for row in result.book(RowBook).rows] == expected


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def test_a_salt_has_a_cache_of_its_own(byte_renderer: Renderer) -> None:
    requests = [[turn([*numbers(0, 12), 50 + i], salt=salt)] for i, salt in enumerate("aab")]
    result = account(byte_renderer, CacheRules(provider=SMALL_STEPS), *requests)
    assert [row.hit_tokens for row in result.book(RowBook).rows] == [0, 12, 0]
    assert result.ledger.fates()["isolated"] == 12


def test_block_hashes_have_no_tokens_to_count(byte_renderer: Renderer) -> None:
    trace = [Turn("t", hashed=HashedPrompt([1, 2], 2 * OPENAI.step, OPENAI.step), output_tokens=1)]
    with pytest.raises(KvtoolError, match="block hashes"):
        account(byte_renderer, CacheRules(provider=OPENAI), trace)


def test_what_a_provider_does_not_say() -> None:
    for options, message in [
        (RuleOptions(provider="openai", capacity=True), "how large"),
        (RuleOptions(provider="openai", replicas=3), "how many replicas"),
        (RuleOptions(provider="openai", block_size=16), "steps of 128"),
    ]:
        with pytest.raises(KvtoolError, match=message):
            cache_rules(options)


def test_notes_name_date_and_figures() -> None:
    rules = cache_rules(RuleOptions(provider="openai"))
    assert rules is not None
    note = rule_note(rules)
    for part in (OPENAI.as_of, "1,024 tokens", "steps of 128", "5 min"):
        assert part in note
    rules = cache_rules(RuleOptions(provider="anthropic", ttl=3600.0))
    assert rules is not None
    assert rules.ttl == 3600.0


def test_tiers_rise() -> None:
    def tiers(provider: Provider) -> list[float]:
        return [*([provider.ttl] if provider.ttl else []), *provider.tiers]

    assert all(low < high for provider in PROVIDERS for low, high in pairwise(tiers(provider)))


def test_turns_of_a_chat_are_blocks_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Questions of a session come from one place of the workload; each of them ends a block all the same."""
    workload = str(Path(__file__).parents[2] / "workloads" / "multi-turn-chat.yaml")
    assert run(["profile", workload, "--dry-run", "--no-advice", "--provider", "anthropic-512", "--json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    first, *later = group["turns"]
    assert first["hit_tokens"] == 0
    assert all(turn["hit_tokens"] > 0.8 * turn["prompt_tokens"] for turn in later)


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=6), st.integers(0, 4)), min_size=1, max_size=14
    ),
    st.integers(1, 6),
)
def test_units_that_expire_against_a_slow_reference(
    byte_renderer: Renderer, requests: list[tuple[list[int], int]], ttl: int
) -> None:
    """A stored unit lives from its own last use: that longer prompts ran through it keeps it only as far as they hit."""
    stored: dict[tuple[int, ...], int] = {}
    sent: list[tuple[int, ...]] = []
    now, expected, turns = 0, [], []
    for prompt, pause in requests:
        ids, now = tuple(prompt), now + pause
        turns.append([turn(prompt, float(now))])
        units = {unit: used for unit, used in stored.items() if ids[: len(unit)] == unit}
        hit = max((len(unit) for unit, used in units.items() if now - used <= ttl), default=0)
        expected.append(min(hit, len(ids) - 1))
        common = max((_common(ids, other) for other in sent), default=0)
        stored |= dict.fromkeys([*(unit for unit in units if len(unit) <= hit), ids, ids[:common]], now)
        sent.append(ids)
    rules = CacheRules(ttl=float(ttl), provider=find_provider("deepseek"))
    result = account(byte_renderer, rules, *turns, timed=True)
    assert [row.hit_tokens for row in result.book(RowBook).rows] == expected


def test_a_breakpoint_that_nobody_reads_expires_however_often_its_text_is_sent(byte_renderer: Renderer) -> None:
    """The second request sends the same text, but has its breakpoint elsewhere and looks back at no other block."""
    provider = replace(SMALL_MARKS, lookback=0)
    text = "You are a helpful thing."
    marked, plain = message("system", text, marks=(0,)), message("system", text)
    requests = [
        chat(marked, message("user", "1!"), arrival=0.0),
        chat(plain, message("user", "2!", marks=(0,)), arrival=200.0),
        chat(marked, message("user", "3!"), arrival=400.0),
        chat(marked, message("user", "4!"), arrival=500.0),
    ]
    result = account(byte_renderer, CacheRules(ttl=300.0, provider=provider), *requests, timed=True)
    first = len(f"system:{text}")
    assert [row.hit_tokens for row in result.book(RowBook).rows] == [0, 0, 0, first]
    assert result.ledger.fates()["expired"] == first
