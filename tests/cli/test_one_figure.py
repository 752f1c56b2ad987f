"""Figures of one name are one figure: several commands are run on made workloads, and what they call the same is the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.report.answer import answer_of, fixed_rate
from kvtool.report.next_steps import needed_tiers
from kvtool.results.check import CheckResult
from kvtool.results.report import Report
from kvtool.results.worst_loss import loss_sentence, worst_loss
from tests.conftest import some
from tests.files import write
from tests.fuzz.promises import workload_of
from tests.tokenizers_made import byte_tokenizer_json

Ask = Callable[..., str]
"""Runs a command with `--json`; its document."""


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs commands in an empty folder, with a tokenizer of one token for each byte."""
    monkeypatch.chdir(tmp_path)
    write("tokenizer.json", byte_tokenizer_json())

    def start(*words: str) -> str:
        capsys.readouterr()
        assert run([*words, "--json", "-t", "tokenizer.json"]) in (0, 1)
        return capsys.readouterr().out

    return start


def tokens_lost(findings: list[Any], *, measured: bool = True) -> dict[tuple[Any, ...], int]:
    """Tokens of findings by what they are about."""
    found: dict[tuple[Any, ...], int] = {}
    for each in findings:
        if each.group or not measured:
            key = each.group, each.code, each.path, each.line, each.column
            found[key] = found.get(key, 0) + each.tokens_lost
    return found


@pytest.mark.parametrize("seed", some([25, 11, 8], 1))
def test_a_workload(ask: Ask, seed: int) -> None:
    path = workload_of(seed)
    profile = Report.model_validate_json(ask("profile", path, "--dry-run"))
    (checked,) = CheckResult.model_validate_json(ask("check", path)).reports
    linted = json.loads(ask("lint", path))
    optimized = json.loads(ask("optimize", path, *(needed_tiers(profile) or ("--allow", "P2,P3"))))
    planned = json.loads(ask("what-if", path))
    engines = json.loads(ask("compare-engines", path))

    # Sizes and rates of today.
    today = profile.totals.hit_rate
    assert profile.totals == checked.totals
    assert profile.fates == checked.fates
    assert optimized["hit_rate"]["before"] == today
    assert planned["rows"][0]["hit_rate"] == pytest.approx(today, abs=1e-9)
    (vllm,) = (row for row in engines["rows"] if row["rules"] == "vllm")
    assert (vllm["prompt_tokens"], vllm["cached_tokens"]) == (profile.totals.prompt_tokens, profile.totals.hit_tokens)
    rates = {group.name: group.hit_rate for group in profile.groups}
    assert {group.name: group.hit_rate for group in checked.groups} == rates
    assert {group["name"]: group["hit_rate"]["before"] for group in optimized["groups"]} == rates

    together = next(
        (row for row in planned["rows"] if row["kind"] == "prompts" and "--fixed all" in row["command"]), None
    )
    if together is not None and profile.editable:
        assert together["hit_rate"] == pytest.approx(fixed_rate(profile), abs=1e-9)
        count = re.search(r"all (\d+) fixes", together["change"])
        assert int(count[1] if count is not None else ("both" in together["change"] and 2) or 1) == profile.kept_fixes

    # The line that loses most, in the headline and beside its finding.
    worst = worst_loss(profile)
    assert loss_sentence(profile) == loss_sentence(checked)
    if worst is not None:
        assert f"{worst.tokens:,} token" in answer_of(profile).lost
    of_profile = tokens_lost(profile.findings)
    assert tokens_lost(checked.findings) == of_profile
    measured = [one for one in linted["findings"] if one["group"]]
    of_lint: dict[tuple[Any, ...], int] = {}
    for one in measured:
        key = one["group"], one["code"], one["path"], one["line"], one["column"]
        of_lint[key] = of_lint.get(key, 0) + one["tokens_lost"]
    assert of_lint == of_profile

    # What the fixes reach, and how many they are.
    fixed = fixed_rate(profile)
    edited = [step for step in optimized["steps"] if step["edited"]]
    if profile.editable:
        assert optimized["hit_rate"]["after"] == pytest.approx(fixed, abs=1e-9)
        assert len(edited) == profile.kept_fixes
        rate = answer_of(profile).rate
        count = re.search(r"in (\d+) (?:groups|steps)", rate) or re.search(r"with (?:the )?(\d+)?", rate)
        assert count is not None
        assert int(count[1] or 1) == len(edited)
        places = [(step["group"], step["path"], step["line"], step["column"]) for step in edited if step["line"]]
        assert len(set(places)) == len(places), "a line that moves twice is one step"


def test_a_hosted_log(ask: Ask) -> None:
    rules = "".join(f"{number}. Answer from the handbook, and quote the clause.\n" for number in range(60))
    records = []
    for number in range(4):
        system = f"You decide on claims.\nTrace id: {number:032x}\n{rules}"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": f"Claim {number}?"}]
        records.append(json.dumps({"model": "gpt-4o", "messages": messages}))
    log = write("prod.jsonl", "\n".join(records) + "\n")
    pair = write("pair.jsonl", "\n".join(records[:2]) + "\n")
    profile = Report.model_validate_json(ask("profile", log, "--dry-run"))
    (checked,) = CheckResult.model_validate_json(ask("check", log)).reports
    optimized = json.loads(ask("optimize", log, *needed_tiers(profile)))
    planned = json.loads(ask("what-if", log))
    assert profile.totals == checked.totals
    assert loss_sentence(profile) == loss_sentence(checked)
    assert optimized["hit_rate"]["before"] == profile.totals.hit_rate
    assert planned["rows"][0]["hit_rate"] == pytest.approx(profile.totals.hit_rate, abs=1e-9)
    assert optimized["edited_log"]["hit_rate"]["after"] == pytest.approx(fixed_rate(profile), abs=1e-9)
    assert len(optimized["steps"]) == profile.kept_fixes

    two = Report.model_validate_json(ask("profile", pair, "--dry-run"))
    compared = json.loads(ask("diff-prompts", f"{pair}:1", f"{pair}:2"))
    assert compared["a"]["tokens"] + compared["b"]["tokens"] == two.totals.prompt_tokens
    assert compared["minimum_tokens"] == 1024 > compared["common_tokens"]


def test_no_line_of_a_prompt_that_is_too_short_to_be_cached_is_the_worst(ask: Ask) -> None:
    """It loses more tokens, and no edit of it wins any: then it is information, not the line to begin with."""
    rule = "Answer politely, and cite the section of the handbook that you used.\n"
    write("long.md", "Now: {{ now }}\n" + rule * 120)
    write("short.md", "Id: {{ id }}\n" + rule * 8)
    group = (
        "  - {{name: {0}, requests: {1}, messages: [{{role: system, file: {0}.md}}, {{role: user, text: Hello}}]}}\n"
    )
    head = "version: 1\nengine: {provider: anthropic}\nvars: {now: {datetime: 1m}, id: {uuid: 4}}\ngroups:\n"
    write("w.yaml", head + group.format("long", 3) + group.format("short", 40))
    report = Report.model_validate_json(ask("profile", "w.yaml", "--dry-run"))
    short = [each for each in report.findings if each.group == "short" and each.tokens_lost]
    assert short
    assert {(each.severity, each.too_short) for each in short} == {("info", True)}
    worst = worst_loss(report)
    assert worst is not None
    assert worst.finding.group == "long"
    assert worst.tokens < max(each.tokens_lost for each in short)
