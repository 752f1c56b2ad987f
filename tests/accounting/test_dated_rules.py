"""Rules of hosted models by model and day: the rows, and what each of them makes of a small log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.caches.cache_rules import CacheRules
from kvtool.accounting.caches.dated_rules import ROWS, find_rule, has_no_cache
from kvtool.accounting.caches.providers import Provider, find_provider
from kvtool.accounting.hosted_models import hosted_model
from kvtool.accounting.plan import Plan
from kvtool.engine.config import EngineConfig
from kvtool.profiler.left_out import notes_on_rules
from kvtool.profiler.run.purposes import explained_run
from kvtool.profiler.run.run_books import RowBook
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.text.message import Message
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.call import CacheScope, CallSettings, Usage
from kvtool.workload.jobs import JobMaker
from kvtool.workload.turn import Turn
from tests.accounting.hosted_turns import EPOCH, asked, filled, hosted_renderer, text_part
from tests.accounting.rule_runs import LATENCY, Given

CLAUDE, GPT = "claude-sonnet-4-5", "gpt-4o"
FIVE: dict[str, str] = {"type": "ephemeral"}
HOUR: dict[str, str] = {"type": "ephemeral", "ttl": "1h"}
HEAD = len("system: ")


def accounted(tokenizer: Tokenizer, turns: Sequence[Turn], *, provider: Provider | None = None) -> RunResult:
    """One pass by the rules of each model and day; every fate is checked against the sums."""
    rules = CacheRules(
        dated=provider is None, epoch=EPOCH, provider=provider, ttl=None if provider is None else provider.ttl
    )
    plan = Plan(
        EngineConfig(block_size=1 if provider is None else provider.step), LATENCY, use_arrivals=True, cache=rules
    )
    maker = JobMaker(hosted_renderer(tokenizer), seed=0)
    result = explained_run(RunSetup(plan, maker, Progress(None)), per_request=True).run(
        Given(*[[turn] for turn in turns])
    )
    for group in result.ledger.totals():
        assert sum(group.fates.values()) == group.prompt_tokens
    return result


def hits(tokenizer: Tokenizer, turns: Sequence[Turn]) -> list[int]:
    return [row.hit_tokens for row in accounted(tokenizer, turns).book(RowBook).rows]


def chat(number: int, *, system: str = "", mark: dict[str, str] | None = None) -> list[Message]:
    """A system text and a question of its own."""
    return [{"role": "system", "content": [text_part(system, mark)]}, {"role": "user", "content": f"{number} asks"}]


SYSTEM = filled(4000)


def test_whose_a_model_is() -> None:
    for model, provider, expected in [
        ("gpt-4o-2024-08-06", None, ("openai", "gpt-4o")),
        ("openai/gpt-4o", None, ("openai", "gpt-4o")),
        ("openai/gpt-oss-120b", None, ("", "gpt-oss-120b")),
        ("gpt-oss-120b", "groq", ("groq", "gpt-oss-120b")),
        ("claude-sonnet-4-5-20250929", None, ("anthropic", "claude-sonnet-4-5")),
        ("anthropic/claude-sonnet-4.5", "openrouter", ("openrouter", "claude-sonnet-4-5")),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", None, ("bedrock", "claude-sonnet-4-5")),
        ("claude-sonnet-4-5@20250929", "vertex_ai", ("vertex", "claude-sonnet-4-5")),
        ("models/gemini-2.5-pro", None, ("gemini", "gemini-2.5-pro")),
        ("meta-llama/Llama-3.1-8B-Instruct", None, ("", "llama-3.1-8b-instruct")),
        ("Qwen/Qwen3-8B", "vllm", ("", "qwen3-8b")),
        ("gpt-4o", "Azure OpenAI", ("azure", "gpt-4o")),
    ]:
        assert tuple(hosted_model(model, provider)) == expected


def test_every_row_can_be_read_and_has_a_source() -> None:
    for row in ROWS:
        re.compile(row.models)
        assert row.rules.source
        assert re.fullmatch(r"20\d\d(-\d\d(-\d\d)?)?", row.rules.as_of)
        assert row.since is None or row.until is None or row.since < row.until


def test_the_minimum_of_a_model_on_a_day() -> None:
    for model, day, minimum in [
        ("gemini-2.5-pro", date(2026, 6, 30), 4096),
        ("gemini-2.5-flash", date(2026, 6, 30), 1024),
        ("gemini-2.5-pro", date(2026, 7, 1), 2048),
        ("claude-opus-4-5", date(2026, 1, 1), 4096),
        ("claude-opus-4-7", date(2026, 10, 1), 2048),
        ("claude-opus-4-8", date(2026, 10, 1), 1024),
        ("claude-opus-5", date(2026, 10, 1), 512),
        ("claude-haiku-5-5", None, 512),
        ("gpt-5.5", date(2026, 10, 1), 2048),
        ("gpt-5.6-sol", date(2026, 10, 1), 1024),
    ]:
        row = find_rule(model, None, day)
        assert row is not None
        assert row.rules.minimum == minimum


def test_no_row_is_no_prediction() -> None:
    assert find_rule("meta-llama/Llama-3.1-8B", None, None) is None
    assert find_rule("qwen-max", "together", None) is None


def test_rows_of_one_model_hold_on_every_day_but_never_two() -> None:
    for day in (date(2025, 1, 1) + timedelta(days=30 * n) for n in range(30)):
        for model in (CLAUDE, GPT, "gpt-5.1", "gpt-5.6-sol", "gemini-2.5-flash", "claude-opus-4-6"):
            provider = hosted_model(model).provider
            assert sum(row.provider == provider and row.holds(model, day) for row in ROWS) == 1


# The eight reproductions.


def test_two_models_have_two_caches(byte_tokenizer: Tokenizer) -> None:
    turns = [asked(chat(0, system=SYSTEM), float(at), model) for at, model in enumerate(["gpt-4o", "gpt-4o-mini"])]
    assert hits(byte_tokenizer, turns) == [0, 0]


def test_without_a_mark_nothing_is_cached(byte_tokenizer: Tokenizer) -> None:
    turns = [asked(chat(n, system=SYSTEM), float(n), CLAUDE) for n in range(4)]
    result = accounted(byte_tokenizer, turns)
    assert [row.hit_tokens for row in result.book(RowBook).rows] == [0] * 4
    assert result.ledger.fates()["unmarked"] > 3 * len(SYSTEM)
    automatic = [
        asked(chat(0, system=SYSTEM), float(n), CLAUDE, settings=CallSettings(cache_ttl="5m")) for n in range(2)
    ]
    assert hits(byte_tokenizer, automatic)[1] > len(SYSTEM)


def test_a_mark_on_the_tools_is_read_behind_other_system_text(byte_tokenizer: Tokenizer) -> None:
    tool = {"type": "function", "function": {"name": "look", "description": filled(2000)}, "cache_control": FIVE}
    turns = [asked(chat(n, system=f"{n} is who you are"), float(n), CLAUDE, tools=[tool]) for n in range(2)]
    first, second = hits(byte_tokenizer, turns)
    assert first == 0
    assert second > 2000
    plain = {key: value for key, value in tool.items() if key != "cache_control"}
    marked_later = [turns[0], asked(chat(1, system="1"), 1.0, CLAUDE, tools=[plain])]
    assert hits(byte_tokenizer, marked_later)[1] == 0, "what is not asked for is not read"


def test_an_hour_of_a_mark(byte_tokenizer: Tokenizer) -> None:
    """Four requests ten minutes apart, 2,072 of 2,088 tokens shared: 74.4 %."""
    system = filled(2072 - HEAD)
    for mark, expected in ((HOUR, 3 * 2072), (FIVE, 0)):
        turns = [asked(chat(n, system=system, mark=mark), 600.0 * n, CLAUDE) for n in range(4)]
        assert sum(hits(byte_tokenizer, turns)) == expected


def test_a_day_of_retention(byte_tokenizer: Tokenizer) -> None:
    """The same on gpt-5.1, in steps of 128: 6,144."""
    system = filled(2072 - HEAD)
    for retention, expected in (("24h", 6144), ("in_memory", 0), (None, 6144)):
        turns = [
            asked(chat(n, system=system), 600.0 * n, "gpt-5.1", settings=CallSettings(retention=retention))
            for n in range(4)
        ]
        assert sum(hits(byte_tokenizer, turns)) == expected


def test_tool_choice_in_turns_forks_the_messages(byte_tokenizer: Tokenizer) -> None:
    """Four requests, a mark behind the messages: each choice reads what the same choice wrote."""
    talk: list[Message] = [{"role": "user", "content": [text_part(filled(3000), FIVE)]}]
    choices = [None, '{"type":"any"}', None, '{"type":"any"}']
    turns = [asked(talk, float(n), CLAUDE, settings=CallSettings(tool_choice=one)) for n, one in enumerate(choices)]
    found = hits(byte_tokenizer, turns)
    assert found[:2] == [0, 0]
    assert min(found[2:]) >= 3000
    system = [
        asked(chat(0, system=SYSTEM, mark=FIVE), t.arrival or 0.0, CLAUDE, settings=t.call.settings) for t in turns
    ]
    assert min(hits(byte_tokenizer, system)[1:]) == HEAD + len(SYSTEM), "text before the messages is not forked"


def test_failed_requests_are_no_traffic(byte_tokenizer: Tokenizer) -> None:
    turns = [asked(chat(0, system=SYSTEM), float(n), GPT, status=429) for n in range(3)]
    result = accounted(byte_tokenizer, [*turns, asked(chat(0, system=SYSTEM), 9.0, GPT)])
    assert result.left_out.failed == {429: 3}
    assert [row.hit_tokens for row in result.book(RowBook).rows] == [0]


# The other rules.


def test_an_organisation_a_region_and_a_key_have_caches_of_their_own(byte_tokenizer: Tokenizer) -> None:
    for scope in (
        CacheScope(organisation="a"),
        CacheScope(region="eu"),
        CacheScope(key="k"),
        CacheScope(workspace="w"),
    ):
        turns = [asked(chat(n, system=SYSTEM), float(n), GPT, scope=CacheScope() if n % 2 else scope) for n in range(4)]
        found = hits(byte_tokenizer, turns)
        assert found[:2] == [0, 0]
        assert min(found[2:]) > 3000


def test_what_is_being_answered_cannot_be_read_yet(byte_tokenizer: Tokenizer) -> None:
    def run(first_answer: float | None) -> RunResult:
        times = (0.0, 1.0, 3.0)
        return accounted(
            byte_tokenizer, [asked(chat(0, system=SYSTEM), at, GPT, first_answer=first_answer) for at in times]
        )

    assert [bool(row.hit_tokens) for row in run(EPOCH + 2.0).book(RowBook).rows] == [False, False, True]
    assert [bool(row.hit_tokens) for row in run(None).book(RowBook).rows] == [False, True, True]
    assert run(EPOCH + 2.0).ledger.fates()["in_flight"] > 3000


def test_the_look_back_counts_images_and_calls_of_tools(byte_tokenizer: Tokenizer) -> None:
    first: list[Message] = [{"role": "user", "content": [text_part(filled(3000), FIVE)]}]
    for images, found in ((18, True), (20, False)):
        more = [{"type": "image"}] * images
        later: list[Message] = [{"role": "user", "content": [text_part(filled(3000)), *more, text_part("end", FIVE)]}]
        turns = [asked(first, 0.0, CLAUDE), asked(later, 1.0, CLAUDE)]
        assert (hits(byte_tokenizer, turns)[1] > 0) == found


def test_a_mark_on_a_call_of_a_tool(byte_tokenizer: Tokenizer) -> None:
    call = {"type": "function", "function": {"name": "look", "arguments": {"at": filled(2000)}}, "cache_control": FIVE}
    talk: list[Message] = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    turns = [asked([*talk, {"role": "tool", "content": f"{n} found"}], float(n), CLAUDE) for n in range(2)]
    assert hits(byte_tokenizer, turns)[1] > 2000


def test_explicit_mode_without_a_breakpoint_stores_nothing(byte_tokenizer: Tokenizer) -> None:
    for mode, found in (("explicit", False), ("implicit", True)):
        turns = [
            asked(chat(n, system=SYSTEM), float(n), "gpt-5.6-sol", settings=CallSettings(cache_mode=mode))
            for n in range(2)
        ]
        assert (hits(byte_tokenizer, turns)[1] > 0) == found


def test_lengths_are_the_provider_s(byte_tokenizer: Tokenizer) -> None:
    """Our 900 shared tokens are 1,800 of theirs: above the minimum, in their steps of 128."""
    system = filled(900 - HEAD)
    turns = [asked(chat(n, system=system), float(n), GPT) for n in range(3)]
    assert hits(byte_tokenizer, turns) == [0, 0, 0]
    count = accounted(byte_tokenizer, turns).book(RowBook).rows[0].prompt_tokens
    counted = [asked(chat(n, system=system), float(n), GPT, usage=Usage(prompt=2 * count, cached=0)) for n in range(3)]
    assert hits(byte_tokenizer, counted)[1:] == [1792 // 2] * 2


def test_a_model_without_a_row_is_left_out_and_told(byte_tokenizer: Tokenizer) -> None:
    models = [GPT, "watsonx/ibm/granite-3-8b-instruct", GPT, "gpt-4-turbo"]
    result = accounted(byte_tokenizer, [asked(chat(n, system=SYSTEM), float(n), each) for n, each in enumerate(models)])
    assert result.left_out.unpredicted == {models[1]: 1}
    assert result.left_out.uncached == {"gpt-4-turbo": 1}
    assert len(result.book(RowBook).rows) == 2


@pytest.mark.parametrize(
    ("model", "provider", "uncached"),
    [
        *((name, None, True) for name in ("gpt-4", "gpt-4-0613", "gpt-4-turbo-2024-04-09", "gpt-3.5-turbo-16k")),
        ("shop-gpt-4-turbo", "azure", True),
        *((name, None, False) for name in ("gpt-4o", "gpt-4.1-mini", "gpt-4.5-preview", "gpt-5", "o1", "glm-4-0520")),
        ("gpt-4", "http://localhost", True),
    ],
)
def test_models_before_the_first_with_a_cache(model: str, provider: str | None, uncached: bool) -> None:
    assert has_no_cache(model, provider) == uncached
    assert not (uncached and find_rule(model, provider, None))


def test_reads_that_cost_nothing_have_a_rule_where_the_host_says_so() -> None:
    row = find_rule("tensormesh/moonshotai/Kimi-K2.6", "tensormesh", date(2026, 11, 29))
    assert row is not None
    assert (row.rules.keeps, row.read, row.documented) == ("prefix", "0", True)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 400), st.booleans()), min_size=1, max_size=8
    )
)
def test_claude_against_a_slow_reference(byte_tokenizer: Tokenizer, requests: list[tuple[int, int, int, bool]]) -> None:
    """A system text and a choice of tools; a mark behind the system text or none; five minutes from the last use."""
    used: dict[str, float] = {}
    now, expected, turns = 0.0, [], []
    for text, choice, pause, marked in requests:
        now += pause
        system = filled(1500, letter="abc"[text])
        forced = CallSettings(tool_choice="any" if choice else None)
        turns.append(asked(chat(0, system=system, mark=FIVE if marked else None), now, CLAUDE, settings=forced))
        alive = system in used and now - used[system] <= 300
        expected.append(HEAD + 1500 if marked and alive else 0)
        if marked:
            used[system] = now
    assert hits(byte_tokenizer, turns) == expected


@given(st.integers(900, 1500), st.integers(1, 40), st.sampled_from(["gpt-4o", "gpt-5.5", CLAUDE]), st.booleans())
def test_any_ratio_of_tokens_and_either_way_to_ask(
    byte_tokenizer: Tokenizer, system: int, tenths: int, model: str, dated: bool
) -> None:
    """Steps are the provider's, whatever its tokens are to ours; the ledger's sums hold (`accounted` checks them)."""
    text = filled(system)
    turns = []
    for number in range(3):
        messages = chat(number, system=text, mark=FIVE)
        count = HEAD + system + len("\nuser:\n0 asks\nassistant:\n")
        reported = Usage(prompt=max(count * tenths // 10, 1), cached=0)
        turns.append(asked(messages, float(number), model, usage=reported))
    provider = None if dated else find_provider("openai" if model.startswith("gpt") else "anthropic")
    result = accounted(byte_tokenizer, turns, provider=provider)
    rules = provider or find_rule_of(model)
    for row in result.book(RowBook).rows[1:]:
        assert row.provider is not None
        read = row.provider.predicted_tokens
        assert read % rules.step == 0
        assert read == 0 or read >= rules.minimum
        assert read <= row.provider.prompt_tokens


def find_rule_of(model: str) -> Provider:
    row = find_rule(model, None, None)
    assert row is not None
    return row.rules


def test_a_closed_model_keeps_its_maker_s_rules_everywhere() -> None:
    for model, provider, name, minimum, keeps in [
        ("qwen3-max", None, "qwen", 256, "prefix"),
        ("MiniMax-M2", None, "minimax", 512, "prefix"),
        ("glm-4.6", None, "zai", 1, "prefix"),
        ("kimi-k2.6", None, "moonshot", 1, "prefix"),
        ("gemini-2.5-pro", "vertex_ai", "vertex", 2048, "prefix"),
        ("claude-haiku-4-5@20251001", "vertex_ai", "vertex", 4096, "breakpoints"),
        ("claude-opus-5", "azure_ai", "azure", 512, "breakpoints"),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", None, "bedrock", 1024, "breakpoints"),
        ("databricks-claude-sonnet-4-5", "databricks", "databricks", 1024, "breakpoints"),
        ("openai/gpt-5.2", "perplexity", "perplexity", 1024, "prefix"),
        ("ft:gpt-4o-2024-08-06:acme::id", None, "openai", 1024, "prefix"),
        ("support-gpt-4o", "azure", "azure", 1024, "prefix"),
    ]:
        row = find_rule(model, provider, date(2026, 11, 29))
        assert row is not None
        assert (row.rules.name, row.rules.minimum, row.rules.keeps, row.documented) == (name, minimum, keeps, True)


def test_a_price_of_cached_tokens_alone_is_a_rule_that_says_so(byte_tokenizer: Tokenizer) -> None:
    model = "deepinfra/zai-org/GLM-4.7"
    row = find_rule(model, None, date(2026, 11, 29))
    assert row is not None
    assert not row.documented
    assert "not documented" in row.rules.note
    result = accounted(byte_tokenizer, [asked(chat(n, system=SYSTEM), float(n), model) for n in range(2)])
    assert notes_on_rules(result) == [
        f"No cache rules are documented for {model}: any earlier prefix is predicted as cached"
    ]
    assert find_rule("zai-org/GLM-4.7", None, date(2026, 11, 29)) is None


@pytest.mark.parametrize("provider", ["openai", "azure"])
@pytest.mark.parametrize(
    ("model", "longest"), [("gpt-4o", "in_memory"), ("o3-mini", "in_memory"), ("gpt-4.1", "24h"), ("gpt-5.1", "24h")]
)
def test_a_retention_of_24_hours_is_for_models_that_have_it(provider: str, model: str, longest: str) -> None:
    found = next(row.rules for row in ROWS if row.provider == provider and row.holds(model, None))
    assert found.retentions[-1][0] == longest
