"""The tokens that the findings of a group tell of are never more than it lost, whatever varies in its prompts."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.plan import Plan
from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.profiler.finding_counts import check_counted_once
from kvtool.profiler.profiler import Profiler, ReportOptions
from kvtool.results.finding import Finding
from kvtool.results.report import Report, lost_tokens
from kvtool.text.terminal.progress import Progress
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.render import Renderer

LATENCY = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
RULE = "Answer in whole sentences. "
KINDS = ("clock", "id", "user", "rare", "mode")


def value_of(kind: str, number: int, chance: random.Random) -> str:
    match kind:
        case "clock":
            return f"Now: 2026-01-{number % 28 + 1:02d} 10:{number % 60:02d}:00"
        case "id":
            return f"Request id: {chance.getrandbits(64):016x}"
        case "user":
            return f"User: {chance.choice(['ann', 'bob', 'eve'])}"
        case "rare":
            return "" if number % 4 else "Beta features are on for this request."
        case _:
            return f"Mode: {chance.choice(['on', 'off'])}"


def log_of(kinds: list[list[str]], requests: int, seed: int, tenants: int, lengths: tuple[int, ...] = (2, 2, 5)) -> str:
    """Chats of several kinds in turns: lines of constant text between lines that vary, and tools in any order."""
    chance = random.Random(seed)
    lines = []
    for number in range(requests):
        text = "Be brief.\n"
        for at, kind in enumerate(kinds[number % len(kinds)]):
            text += value_of(kind, number, chance) + "\n"
            text += "".join(f"Rule {at}.{rule}: answer in whole sentences.\n" for rule in range(chance.choice(lengths)))
        tools = ["alpha", "beta", "gamma"]
        if tenants > 1:
            chance.shuffle(tools)
        record = {
            "messages": [{"role": "system", "content": text}, {"role": "user", "content": f"Question {number}?"}],
            "tools": [{"type": "function", "function": {"name": tool, "description": RULE * 3}} for tool in tools],
            "cache_salt": f"tenant{number % tenants}",
        }
        lines.append(json.dumps(record))
    return "\n".join(lines) + "\n"


def profiled(path: str, renderer: Renderer, num_blocks: int | None) -> tuple[Report, Profiler]:
    plan = Plan(EngineConfig(block_size=16, num_blocks=num_blocks), LATENCY)
    profiler = Profiler(
        LogSource([path], LogOptions()),
        renderer,
        plan,
        ReportOptions(),
        progress=Progress(None),
        locate=locate,
        path="w",
    )
    return profiler.run(), profiler


@settings(max_examples=12)
@given(
    kinds=st.lists(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), min_size=1, max_size=2),
    requests=st.integers(2, 12),
    seed=st.integers(0, 1000),
    tenants=st.integers(1, 2),
    num_blocks=st.sampled_from([None, 120]),
)
def test_no_token_counts_twice(
    kinds: list[list[str]],
    requests: int,
    seed: int,
    tenants: int,
    num_blocks: int | None,
    byte_renderer: Renderer,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("log") / "w.jsonl"
    path.write_text(log_of(kinds, requests, seed, tenants), encoding="utf-8")
    report, _ = profiled(str(path), byte_renderer, num_blocks)
    for group in report.groups:
        told = sum(finding.tokens_lost for finding in report.findings if finding.group == group.name)
        assert told <= lost_tokens(group)
        blamed = [f for f in report.findings if f.group == group.name and f.code < "KV2" and f.tokens_lost]
        assert sum(f.tokens_lost for f in blamed) <= group.fates.get("blocked", 0) + group.fates.get("cosmetic", 0) + (
            group.fates.get("seam", 0)
        )


def test_the_check_raises_where_they_do() -> None:
    group = GroupTotals(name="g", requests=2, prompt_tokens=100, hit_tokens=40)
    one = Finding.of("KV101", "error", "g", "p", 1, 1, "m", 50, "")
    other = one.model_copy(update={"tokens_lost": 10})
    check_counted_once([one, other], [group])
    with pytest.raises(AssertionError, match="g: the findings have 61 lost tokens, and the ledger has 60"):
        check_counted_once([one, other.model_copy(update={"tokens_lost": 11})], [group])


def test_the_second_of_two_lines_says_where_its_tokens_count(tmp_path: Path, byte_renderer: Renderer) -> None:
    path = tmp_path / "w.jsonl"
    path.write_text(log_of([["clock", "id"]], 10, 1, 1, (5,)), encoding="utf-8")
    report, _ = profiled(str(path), byte_renderer, None)
    first, *others = sorted((f for f in report.findings if f.code < "KV2"), key=lambda f: -f.tokens_lost)
    assert first.code == "KV101"
    assert first.tokens_lost > 0.5 * report.groups[0].prompt_tokens
    assert "behind text that differs first" not in first.message
    assert others
    for each in others:
        assert each.tokens_lost == 0
        assert re.search(r"\. After the other fix(?:es)?, it costs up to [\d,]+ tokens more", each.message)
        assert each.severity == "error", "what it costs is what stands behind it"


def test_what_only_a_trial_brings_about_is_not_told_as_lost(tmp_path: Path, byte_renderer: Renderer) -> None:
    """Two files of the same requests: the second one hits all, unless a fix moves the text of the first."""
    said = [f"Now: 10:{number:02d}\n" + "You are the assistant. " * 20 for number in range(6)]
    chats = [[{"role": "system", "content": text}, {"role": "user", "content": "Hi"}] for text in said]
    text = "".join(json.dumps({"messages": messages}) + "\n" for messages in chats)
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path in paths:
        path.write_text(text, encoding="utf-8")
    plan = Plan(EngineConfig(block_size=16), LATENCY)
    report = Profiler(
        LogSource([str(path) for path in paths], LogOptions()),
        byte_renderer,
        plan,
        ReportOptions(),
        progress=Progress(None),
        locate=locate,
        path="w",
    ).run()
    told = dict.fromkeys(("a", "b"), 0)
    for finding in report.findings:
        told[finding.group] += finding.tokens_lost
    assert told["a"] > 0.5 * report.group("a").prompt_tokens
    assert told["b"] <= lost_tokens(report.group("b")) < 0.1 * report.group("b").prompt_tokens
