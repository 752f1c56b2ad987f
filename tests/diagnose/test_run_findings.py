"""What the run explains: each finding from a workload that shows it, its fixes tried, and text that must not be told."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvtool.accounting.boundary import BoundaryBook
from kvtool.accounting.caches.cache_rules import CacheRules
from kvtool.accounting.caches.providers import find_provider
from kvtool.accounting.plan import Plan
from kvtool.diagnose.run_findings import run_findings, sensitive_findings
from kvtool.diagnose.shared_secrets import SensitiveBook
from kvtool.engine.config import EngineConfig
from kvtool.fixes.fix import Fix
from kvtool.fixes.run_fixes import run_fixes
from kvtool.profiler.run.purposes import explained_run
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.results.finding import Finding
from kvtool.text.sensitive import find_sensitive, may_be_sensitive
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.prompt import Ids, Spans
from kvtool.text.traced import Origin, Traced
from kvtool.workload.jobs import JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn
from tests.accounting.rule_runs import BLOCK, LATENCY, Given, numbers, turn

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"]


def run(renderer: Renderer, plan: Plan, *conversations: list[Turn]) -> RunResult:
    accountant = explained_run(RunSetup(plan, JobMaker(renderer, seed=0), Progress(None)))
    return accountant.run(Given(*conversations))


def plan_of(*, rules: CacheRules | None = None, **options: object) -> Plan:
    blocks = options.pop("num_blocks", None)
    engine = EngineConfig(block_size=BLOCK, num_blocks=blocks)  # type: ignore[arg-type]
    return Plan(engine, LATENCY, cache=rules, **options)  # type: ignore[arg-type]


def findings_of(result: RunResult, plan: Plan) -> dict[str, Finding]:
    groups = list(result.ledger.totals())
    found = run_findings(
        groups, path="w.yaml", block_size=plan.engine.block_size, rules=plan.cache, boundaries=result.book(BoundaryBook)
    )
    return {finding.code: finding for finding in found}


def fixes_of(result: RunResult, plan: Plan) -> dict[str, Fix]:
    return {fix.key: fix for fix in run_fixes(result.ledger.totals(), plan)}


def hits(renderer: Renderer, plan: Plan, fix: Fix, *conversations: list[Turn]) -> int:
    """Hits of a rerun with one fix."""
    assert fix.plan is not None
    assert fix.tier == "P0"
    return run(renderer, fix.plan(plan), *conversations).ledger.fates()["hit"]


def test_evicted_and_more_room(byte_renderer: Renderer) -> None:
    a, b = numbers(0, 12), numbers(50, 12)
    requests = [[turn([*ids, 900 + i])] for i, ids in enumerate([a, b, a, b])]
    plan = plan_of(num_blocks=6)
    result = run(byte_renderer, plan, *requests)
    finding = findings_of(result, plan)["KV301"]
    evicted = result.ledger.fates()["evicted"]
    assert (finding.tokens_lost, finding.severity, finding.tier) == (evicted, "info", "P0")
    assert finding.points == evicted / (4 * 13)
    fixes = fixes_of(result, plan)
    assert set(fixes) == {"run:double-capacity", "run:fp8"}
    for fix in fixes.values():
        assert hits(byte_renderer, plan, fix, *requests) == 2 * 12
    assert fixes["run:fp8"].plan is not None
    changed = fixes["run:fp8"].plan(plan)
    assert (changed.engine.num_blocks, changed.kv_cache_dtype) == (2 * 5 + 1, "fp8_e4m3")
    assert fixes["run:fp8"].warnings
    assert "run:fp8" not in fixes_of(result, changed)  # it is as small already


def test_isolated_is_never_fixed(byte_renderer: Renderer) -> None:
    requests = [[turn([*numbers(0, 12), 90 + i], salt=salt)] for i, salt in enumerate("abc")]
    result = run(byte_renderer, plan_of(), *requests)
    finding = findings_of(result, plan_of())["KV302"]
    assert (finding.tokens_lost, finding.severity, finding.tier) == (2 * 12, "info", None)
    assert not fixes_of(result, plan_of())


def test_together_and_one_first(byte_renderer: Renderer) -> None:
    """Prompts of several steps that start together: each computes the shared part itself, unless one goes first."""
    engine = EngineConfig(block_size=BLOCK, max_num_batched_tokens=32, long_prefill_token_threshold=8)
    plan = Plan(engine, LATENCY, concurrency=4)
    requests = [[turn([*numbers(0, 40), 900 + i])] for i in range(4)]
    result = run(byte_renderer, plan, *requests)
    lost = result.ledger.fates()["in_flight"]
    finding = findings_of(result, plan)["KV303"]
    assert finding.tokens_lost == lost > 0
    fix = fixes_of(result, plan)["run:one-first"]
    assert hits(byte_renderer, plan, fix, *requests) == 3 * 40
    assert fix.plan is not None
    assert not fixes_of(run(byte_renderer, fix.plan(plan), *requests), fix.plan(plan))


def test_one_first_takes_every_request_of_every_group(byte_renderer: Renderer) -> None:
    plan = replace(Plan(EngineConfig(block_size=BLOCK), LATENCY, concurrency=2), first_alone=1)
    talks = [
        [turn([*numbers(0, 9), 90 + i], group=g), turn([*numbers(0, 9), 5], group=g)] for i in range(3) for g in "ab"
    ]
    result = run(byte_renderer, plan, *talks)
    assert {group.name: group.requests for group in result.ledger.totals()} == {"a": 6, "b": 6}


def test_scattered_and_routing(byte_renderer: Renderer) -> None:
    plan = plan_of(rules=CacheRules(replicas=3))
    talks = [[turn(numbers(1000 * s, 8 * (i + 1) + 1), session=f"s{s}")] for i in range(3) for s in range(4)]
    result = run(byte_renderer, plan, *talks)
    finding = findings_of(result, plan)["KV304"]
    assert finding.tokens_lost == result.ledger.fates()["scattered"] > 0
    assert "the round-robin router sent requests with one prefix to different replicas" in finding.message
    fixes = fixes_of(result, plan)
    assert set(fixes) == {"run:routing-sticky", "run:routing-prefix-aware"}
    for fix in fixes.values():
        assert hits(byte_renderer, plan, fix, *talks) == 4 * (8 + 16)
    without = run_fixes(result.ledger.totals(), plan, keyed=False)
    assert {fix.key for fix in without} == {"run:routing-prefix-aware"}


def test_a_run_tells_whether_its_requests_name_sessions(byte_renderer: Renderer) -> None:
    plan = plan_of(rules=CacheRules(replicas=3))
    talks = [[turn(numbers(0, 9), session=session)] for session in ("a", None, None)]
    result = run(byte_renderer, plan, *talks)
    assert (result.counts.routed, result.counts.keyless) == (3, 2)


def test_expired_and_a_longer_life(byte_renderer: Renderer) -> None:
    plan = plan_of(rules=CacheRules(ttl=300.0), use_arrivals=True)
    requests = [[turn([*numbers(0, 12), 90 + i], 400.0 * i)] for i in range(3)]
    result = run(byte_renderer, plan, *requests)
    finding = findings_of(result, plan)["KV305"]
    assert (finding.tokens_lost, finding.severity) == (2 * 12, "info")
    assert "5 min" in finding.message
    (fix,) = fixes_of(result, plan).values()
    assert fix.what.endswith("60 minutes")
    assert hits(byte_renderer, plan, fix, *requests) == 2 * 12
    provider = replace(find_provider("anthropic"), minimum=1)
    rules = CacheRules(ttl=300.0, provider=provider)
    hosted = replace(plan, cache=rules, engine=EngineConfig(block_size=1))
    (fix,) = fixes_of(result, hosted).values()
    assert fix.warnings


def test_below_a_minimum_and_at_no_breakpoint(byte_renderer: Renderer) -> None:
    provider = find_provider("openai")
    plan = Plan(EngineConfig(block_size=128), LATENCY, cache=CacheRules(provider=provider))
    requests = [[turn([*numbers(0, 600), 9000 + i])] for i in range(3)]
    found = findings_of(run(byte_renderer, plan, *requests), plan)
    assert set(found) == {"KV203"}
    assert found["KV203"].tokens_lost == 2 * 512
    assert "openai's minimum of 1,024 tokens" in found["KV203"].message
    marks = replace(find_provider("anthropic"), minimum=1, ttl=None)
    plan = Plan(EngineConfig(block_size=1), LATENCY, cache=CacheRules(provider=marks))
    found = findings_of(run(byte_renderer, plan, *requests), plan)
    assert found["KV203"].tokens_lost == 2 * 600
    assert "breakpoint" in found["KV203"].fix


def test_shorter_than_a_block(byte_renderer: Renderer) -> None:
    plan = Plan(EngineConfig(block_size=64), LATENCY)
    requests = [[turn([*numbers(0, 40), *numbers(1000 * (i + 1), 60)])] for i in range(4)]
    finding = findings_of(run(byte_renderer, plan, *requests), plan)["KV203"]
    assert finding.tokens_lost == 3 * 40
    assert "shorter than a block of 64" in finding.message
    assert "blocks of 32 hit 96 tokens" in finding.fix


def test_ends_in_the_middle_of_a_block(byte_renderer: Renderer) -> None:
    plan = Plan(EngineConfig(block_size=64), LATENCY)
    requests = [[turn([*numbers(0, 124), *numbers(1000 * (i + 1), 60)])] for i in range(8)]
    finding = findings_of(run(byte_renderer, plan, *requests), plan)["KV204"]
    assert (finding.severity, finding.tokens_lost) == ("warning", 7 * 60)
    assert finding.message == "the shared prefix of 124 tokens ends 60 tokens into a block of 64"
    assert finding.fix.startswith("add 4 tokens of shared text at the front: 7 of 8 requests then hit one more block")
    mostly = [[turn([*numbers(0, 128 if i > 5 else 124), *numbers(1000 * (i + 1), 60)])] for i in range(8)]
    mostly += [[turn([*numbers(0, 128), *numbers(9000 + 1000 * i, 60)])] for i in range(9)]
    message = findings_of(run(byte_renderer, plan, *mostly), plan)["KV204"].message
    assert message == "shared prefixes end inside blocks of 64 tokens"
    usual = [[turn([*numbers(0, 70), *numbers(1000 * (i + 1), 60)])] for i in range(12)]
    longer = [[turn([*numbers(0, 70), *numbers(90_000, 120), *numbers(100_000 * (i + 1), 60)])] for i in range(11)]
    found = findings_of(run(byte_renderer, plan, *usual, *longer), plan)["KV204"]
    assert found.message == "shared prefixes end inside blocks of 64 tokens"  # not those of 70 tokens gain most
    assert found.fix.startswith("add 2 tokens ")
    aligned = [[turn([*numbers(0, 128), *numbers(1000 * (i + 1), 60)])] for i in range(8)]
    assert "KV204" not in findings_of(run(byte_renderer, plan, *aligned), plan)


def test_text_at_another_place(byte_renderer: Renderer) -> None:
    """Six paragraphs out of twelve, in any order, each behind a line of its own: the order of all is to blame, no line."""
    draw = random.Random(1)
    paragraphs = [" ".join(draw.choices(WORDS, k=60)) + f" paragraph {number}\n" for number in range(12)]

    def prompt(number: int) -> str:
        chosen = draw.sample(paragraphs, 6)
        return "".join(f"{' '.join(draw.choices(WORDS, k=10))} own {number}\n{one}" for one in chosen)

    turns = [Turn("g", text=Traced(prompt(number))) for number in range(24)]
    plan = plan_of()
    result = run(byte_renderer, plan, *([turn] for turn in turns))
    found = findings_of(result, plan)["KV202"]
    group = next(iter(result.ledger.totals()))
    assert found.tokens_lost == group.fates["displaced"]
    assert found.points is not None
    assert found.points > 0.3
    same = [Turn("g", text=Traced(f"{number} and then\n{paragraphs[0]}")) for number in range(24)]
    assert "KV202" not in findings_of(run(byte_renderer, plan, *([turn] for turn in same)), plan)


def test_nothing_to_say(byte_renderer: Renderer) -> None:
    result = run(byte_renderer, plan_of(), [turn(numbers(0, 12))], [turn(numbers(500, 12))])
    assert not findings_of(result, plan_of())
    assert not fixes_of(result, plan_of())


SECRETS = {
    "an email address": "jane.doe+x@mail.acme-corp.io",
    "an API key": "sk-" + "aB3" * 10,
    "a card number": "4111 1111 1111 1111",
    "an IBAN": "DE89 3704 0044 0532 0130 00",
    "a social security number": "536-22-1234",
}


def test_detectors() -> None:
    for kind, text in SECRETS.items():
        around = f"Say this: {text}, and no more."
        assert [(name, around[low:high]) for name, low, high in find_sensitive(around)] == [(kind, text)]


def test_what_only_resembles() -> None:
    for text in [
        "write to support@acme.io or jane@example.com, x@localhost, @home, a@b",
        "4111 1111 1111 1112 and 0000 0000 0000 0000, 5555",
        "DE89 3704 0044 0532 0130 01 is wrong; AB12 is nothing",
        "000-12-3456, 666-12-3456, 900-12-3456, 123-45-67890, 2024-05-12",
        "sk-short, AKIA123, task-aaaaaaaaaaaaaaaaaaaaaaaaaaa, eyJ.a.b",
        "1.4111111111111111 0.536-22-1234",
    ]:
        assert list(find_sensitive(text)) == []


def test_hostile_text_is_read_in_linear_time() -> None:
    for piece in ["@", "a@", "a@a.", "4 ", "44", "AB12 ", "eyJ", "eyJa.", "sk-", "1-", "DE89AAAA"]:
        assert len(list(find_sensitive(piece * (200_000 // len(piece))))) < 200_000


@given(st.text(alphabet="ab1@.-4 E:\n", max_size=60), st.integers(0, 60), st.integers(0, 60))
@example("5555 4111 1111 1111 1111", 0, 5)
@example("say a@a.io", 0, 3)
@example("AB12 DE89 3704 0044 0532 0130 00", 0, 5)
def test_a_short_look_misses_nothing(text: str, start: int, later: int) -> None:
    if list(find_sensitive(text, start + later)):
        assert may_be_sensitive(text, start)


def test_places_are_not_looked_up_where_nothing_is_found(
    byte_renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    offsets = byte_renderer.tokenizer.offsets

    def counted(piece: str, ids: Ids | None = None) -> Spans:
        asked.append(piece)
        return offsets(piece, ids)

    monkeypatch.setattr(byte_renderer.tokenizer, "offsets", counted)
    texts = [f"You help with what is asked.\n{chr(97 + i) * 40}" for i in range(3)]
    assert not told(byte_renderer, sayings(texts, ["s0", "s1", "s2"]))
    assert not asked
    texts[0] += f" of {SECRETS['an IBAN']}"
    assert not told(byte_renderer, sayings(texts, ["s0", "s1", "s2"]))
    assert asked


@given(st.text(alphabet="a1@.-4 E:\n", max_size=60))
def test_ranges_are_in_the_text(text: str) -> None:
    for _, low, high in find_sensitive(text):
        assert 0 <= low < high <= len(text)


def sayings(texts: Sequence[str], sessions: Sequence[str | None], **options: object) -> list[list[Turn]]:
    made = []
    for number, (text, session) in enumerate(zip(texts, sessions, strict=True)):
        origin = Origin(f"prompt{number}.md", text=text)
        made.append([Turn("g", text=Traced.of(text, origin), session=session, output_tokens=1, **options)])  # type: ignore[arg-type]
    return made


def told(renderer: Renderer, conversations: list[list[Turn]]) -> list[Finding]:
    result = run(renderer, plan_of(), *conversations)

    def locate(origin: Origin, offset: int) -> tuple[int, int]:
        return origin.position(offset)

    return sensitive_findings(result.book(SensitiveBook).shared(), path="w.yaml", locate=locate)


def test_sensitive_text_that_sessions_share(byte_renderer: Renderer) -> None:
    key = SECRETS["an API key"]
    shared = f"You help.\nThe key is {key}. " + "More shared text follows. "
    texts = [shared + f"question {i} of mine" for i in range(3)]
    (finding,) = told(byte_renderer, sayings(texts, ["s0", "s1", "s2"]))
    assert (finding.code, finding.severity, finding.tokens_lost) == ("KV306", "warning", 0)
    assert (finding.path, finding.line, finding.column) == ("prompt0.md", 2, 12)
    assert "3 sessions" in finding.message
    assert key not in repr(finding)
    assert key[:8] not in repr(finding)


def test_not_told_where_nobody_else_has_it(byte_renderer: Renderer) -> None:
    for secret in SECRETS.values():
        own = [f"You help. Mine: {i} {secret}. " + "And more. " * 5 for i in range(3)]
        assert not told(byte_renderer, sayings(own, ["s0", "s1", "s2"]))
        same = [f"Mine: {secret}. " + "And more. " * 5 + str(i) for i in range(3)]
        assert not told(byte_renderer, sayings(same, ["s0"] * 3))  # turns of one session
        assert not told(byte_renderer, sayings(same, [None] * 3))  # nobody knows whose they are
        assert len(told(byte_renderer, sayings(same, ["s0", "s1", "s1"]))) == 1


def test_a_salt_parts_them(byte_renderer: Renderer) -> None:
    text = f"Mine: {SECRETS['an IBAN']}. " + "And more. " * 5
    talks = [*sayings([text + "1"], ["s0"], salt="a"), *sayings([text + "2"], ["s1"], salt="b")]
    assert not told(byte_renderer, talks)
    talks = [*sayings([text + "1"], ["s0"], salt="a"), *sayings([text + "2"], ["s1"], salt="a")]
    assert len(told(byte_renderer, talks)) == 1


def test_groups_share_too(byte_renderer: Renderer) -> None:
    text = f"Mine: {SECRETS['a card number']}. " + "And more. " * 5
    talks = sayings([text + "1", text + "2"], [None, None])
    talks[1][0].group = "other"
    (finding,) = told(byte_renderer, talks)
    assert "2 groups" in finding.message


def test_token_ids_have_no_text(byte_renderer: Renderer) -> None:
    ids = np.arange(40, dtype=np.int32)
    assert not told(byte_renderer, [[Turn("g", token_ids=ids, session=name, output_tokens=1)] for name in "ab"])
