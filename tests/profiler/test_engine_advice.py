"""What a profile by another engine's rules finds, and the settings that it proves by running again."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool import api
from kvtool.cli.app import run
from kvtool.results.finding import Finding
from kvtool.results.report import Report
from tests.files import write

WORDS = [f"part{number} of the {name} bicycle" for number in range(60) for name in ("red", "green", "blue", "long")]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def text(start: int, count: int) -> str:
    return ", ".join(WORDS[(start + number) % len(WORDS)] for number in range(count))


def profiled(prompts: list[str], rules: str, **options: object) -> Report:
    capacity = options.pop("capacity", None)
    return api.profile(prompts, rules=rules, rule_options=options, capacity=capacity)  # type: ignore[arg-type]


def found(report: Report, code: str) -> Finding:
    (finding,) = [each for each in report.findings if each.code == code]
    return finding


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


IN_TURN = [f"{text(100 * (number % 2), 60)}. Number {number}?" for number in range(8)]
SHARED = [f"{text(0, 20)}. {text(30 * number + 40, 25)}?" for number in range(6)]


def test_a_lost_slot_and_the_memory_that_saves_it() -> None:
    report = profiled(IN_TURN, "llamacpp", parallel=1, cache_ram=0)
    finding = found(report, "KV331")
    assert finding.tokens_lost == report.groups[0].fates["slot_lost"] > 0.5 * report.totals.prompt_tokens
    assert "--" in finding.fix
    assert finding.tried is not None
    assert finding.tried.group_after > finding.tried.group_before
    with_it = profiled(IN_TURN, "llamacpp", parallel=1, cache_ram=8192)
    assert "slot_lost" not in with_it.groups[0].fates
    assert with_it.totals.hit_rate == pytest.approx(finding.tried.group_after)


def test_the_next_command_has_the_setting_that_won(capsys: pytest.CaptureFixture[str]) -> None:
    write("p.jsonl", "".join(f'{{"prompt": "{prompt}"}}\n' for prompt in IN_TURN))
    arguments = ["profile", "p.jsonl", "--no-config", "--rules", "llamacpp", "--parallel", "1", "--cache-ram", "0"]
    assert run([*arguments, "--dry-run", "--width", "400"]) == 0
    told = capsys.readouterr().out
    finding = found(profiled(IN_TURN, "llamacpp", parallel=1, cache_ram=0), "KV331")
    setting = finding.fix.partition(": ")[2].partition(":")[0]
    assert setting.startswith("--")
    kept = [word for word in ("--parallel 1", "--cache-ram 0") if word.split()[0] not in setting]
    next_command = next(line for line in told.splitlines() if line.strip().startswith("kvtool profile p.jsonl"))
    assert next_command.endswith(setting)
    assert all(word in next_command for word in kept)


def test_a_full_list_and_a_larger_one() -> None:
    finding = found(profiled(IN_TURN, "llamacpp", parallel=1, cache_ram=1), "KV332")
    assert "--cache-ram" in finding.fix


def test_a_window_and_the_flag_that_lifts_it() -> None:
    prompts = [f"{text(0, 120)}. {text(30 * number + 40, 110)}?" for number in range(5)]
    report = profiled(prompts, "llamacpp", sliding_window=64, ubatch_size=64)
    finding = found(report, "KV333")
    assert "--swa-full" in finding.fix
    assert finding.tried is not None
    assert "memory for the whole context" in finding.warnings[0]
    assert "KV333" not in codes(profiled(prompts, "llamacpp", sliding_window=64, swa_full=True))


def test_parts_of_pages_are_told_only_where_there_are_pages() -> None:
    """What vLLM loses to its last block, one-token pages and parts of blocks do not."""
    short = [f"{text(0, 1)} {number}?" for number in range(9)]
    assert "KV203" in codes(api.profile(short))
    for rules in ("sglang", "trtllm", "llamacpp"):
        assert not codes(profiled(short, rules)) & {"KV203", "KV204"}
    finding = found(profiled(short, "sglang", page_size=64), "KV203")
    assert finding.fix.startswith("use pages of one token: --page-size 1: ")
    assert finding.tried is not None
    assert "KV204" in codes(profiled(SHARED, "sglang", page_size=64))
    whole = found(profiled(SHARED, "trtllm", enable_partial_reuse=False), "KV204")
    assert "--enable-partial-reuse" in whole.fix


def test_a_pool_that_is_too_small_in_the_engine_s_own_words() -> None:
    for rules, flag in (("sglang", "--max-total-tokens"), ("trtllm", "--max-tokens")):
        finding = found(profiled(IN_TURN, rules, capacity="900 tokens"), "KV301")
        assert flag in finding.fix
        assert finding.tried is not None


def test_a_block_that_was_taken_over() -> None:
    """Two prompts that part inside of their last block, in turn: each takes the block from the other."""
    prompts = [f"{text(0, 3)} {'yes' if number % 2 else 'no'}{' and so on' * 2}" for number in range(6)]
    report = profiled(prompts, "trtllm", tokens_per_block=64)
    assert report.groups[0].fates["taken_over"] > 0
    assert "taken_over" not in profiled(prompts, "sglang").groups[0].fates


def test_an_engine_without_tenants_is_told_where_there_are_some() -> None:
    workload = f"""version: 1
groups:
  - {{name: a, text: "{text(0, 40)}", requests: 4, tenant: "{{{{ who }}}}", vars: {{who: {{choice: [a, b], pick: cycle}}}}}}
"""
    write("w.yaml", workload)
    shared = api.profile("w.yaml", rules="llamacpp", advice=False)
    finding = found(shared, "KV335")
    assert finding.severity == "warning"
    assert finding.message.startswith("2 tenants share one cache")
    assert "isolated" not in shared.groups[0].fates
    apart = api.profile("w.yaml", rules="sglang", advice=False)
    assert "KV335" not in codes(apart)
    assert apart.groups[0].fates["isolated"] > 0
    assert apart.totals.hit_tokens < shared.totals.hit_tokens


def test_moved_text_hits_behind_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """A history whose oldest turns are cut: with chunks moved, more hits than any cache of prefixes could have."""
    turns = [text(20 * number, 15) for number in range(12)]
    prompts = [". ".join([text(300, 10), *turns[number : number + 5]]) for number in range(7)]
    plain, moved = profiled(prompts, "llamacpp"), profiled(prompts, "llamacpp", cache_reuse=32)
    assert moved.totals.hit_tokens > plain.totals.reachable_tokens == plain.totals.hit_tokens
    fates = moved.groups[0].fates
    assert sum(fates.values()) == moved.totals.prompt_tokens
    assert fates["hit"] == moved.totals.hit_tokens
    write("p.jsonl", "".join(f'{{"prompt": "{prompt}"}}\n' for prompt in prompts))
    arguments = ["profile", "p.jsonl", "--no-config", "--rules", "llamacpp", "--cache-reuse", "32", "--dry-run"]
    assert run([*arguments, "--json"]) == 0
    assert run([*arguments, "--details", "--boundaries", "--by", "session", "-o", "r.html"]) == 0
    capsys.readouterr()
