"""What KV cache groups explain: each finding in a workload that is made for it, and the gain of each setting in another run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run

Capture = pytest.CaptureFixture[str]
Document = Callable[..., dict[str, Any]]

HEAD = "generate: {prefixes: 1, per_prefix: 6, prefix_tokens: 1500, suffix_tokens: 300}"
CROWD = "generate: {prefixes: 4, per_prefix: 3, prefix_tokens: 900, suffix_tokens: 100}"
AGAIN = "generate: {prefixes: 1, per_prefix: 6, prefix_tokens: 640, suffix_tokens: 16}"
MAMBA = {
    "architectures": ["MambaForCausalLM"],
    "conv_kernel": 4,
    "expand": 2,
    "hidden_size": 256,
    "intermediate_size": 512,
    "model_type": "mamba",
    "num_hidden_layers": 4,
    "state_size": 16,
    "time_step_rank": 16,
    "vocab_size": 1000,
}


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_json: str, capsys: Capture) -> Document:
    """Profiles one group of requests; the report as JSON."""
    monkeypatch.chdir(tmp_path)

    def start(group: str, *flags: str) -> dict[str, Any]:
        Path("w.yaml").write_text(f"version: 1\ngroups:\n  - name: g\n    {group}\n", encoding="utf-8")
        assert run(["profile", "w.yaml", "--quiet", "--json", "--dry-run", "-t", bytes_json, *flags]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        found: dict[str, Any] = json.loads(out)
        return found

    return start


def finding(report: dict[str, Any], code: str) -> dict[str, Any]:
    return next(found for found in report["findings"] if found["code"] == code)


def codes(report: dict[str, Any]) -> set[str]:
    return {found["code"] for found in report["findings"]}


def test_an_answer_that_the_next_turn_computes_again(tmp_path: Path, bytes_json: str, capsys: Capture) -> None:
    """Of a chat log with answers: windows keep the end of the prompt, not the answer behind it."""
    log = tmp_path / "chat.jsonl"
    talk: list[dict[str, str]] = [{"role": "system", "content": "You are the agent of a shop. " * 20}]
    rows = []
    for turn in range(4):
        talk = [*talk, {"role": "user", "content": f"Question {turn}? "}]
        answer = f"Answer {turn}: " + "it depends on the terms of the order. " * 30
        rows.append({"session_id": "s", "messages": talk, "response": answer})
        talk = [*talk, {"role": "assistant", "content": answer}]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    arguments = [
        "profile", str(log), "--quiet", "--json", "--dry-run", "-t", bytes_json, "--model-preset", "gpt-oss-20b",
    ]  # fmt: skip
    assert run(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    found = finding(report, "KV324")
    assert found["tokens_lost"] == report["fates"]["answer_not_kept"] > 1000
    assert "--prefix-cache-retention-interval none" in found["fix"]
    assert run([*arguments, "--prefix-cache-retention-interval", "none"]) == 0
    kept = json.loads(capsys.readouterr().out)
    assert kept["totals"]["hit_tokens"] >= report["totals"]["hit_tokens"] + found["tokens_lost"]
    assert found["tried"]["group_after"] == pytest.approx(kept["totals"]["hit_rate"])
    assert "answer_not_kept" not in kept["fates"]


def test_a_prefix_shorter_than_the_block(document: Document) -> None:
    report = document(HEAD, "--model-preset", "nemotron-3-nano")
    found = finding(report, "KV321")
    assert found["message"].startswith("the shared prefix of 1,500 tokens is shorter than a block of 2,096 ")
    assert found["tokens_lost"] == report["fates"]["long_block"] == 5 * 1488
    assert "--mamba-ssm-cache-dtype bfloat16" in found["fix"]
    wider = document(HEAD, "--model-preset", "nemotron-3-nano", "--mamba-ssm-cache-dtype", "bfloat16")
    assert found["tried"]["total_after"] == pytest.approx(wider["totals"]["hit_rate"])
    assert wider["totals"]["hit_rate"] > 0.4


def test_a_prefix_that_ends_inside_a_block(document: Document) -> None:
    report = document(HEAD, "--model-preset", "qwen3-next-80b")
    found = finding(report, "KV321")
    assert "ends 412 tokens into a block of 544 " in found["message"]
    assert found["tokens_lost"] == report["fates"]["long_block"]
    more = document(HEAD, "--model-preset", "qwen3-next-80b", "--tensor-parallel", "4")
    assert found["tried"]["total_after"] == pytest.approx(more["totals"]["hit_rate"])
    assert more["totals"]["hit_rate"] > report["totals"]["hit_rate"]
    filled = document(HEAD.replace("1500", "1632"), "--model-preset", "qwen3-next-80b")
    assert filled["fates"]["hit"] == 5 * 1632  # the last state of the first prompt ends there, too
    assert "long_block" not in filled["fates"]


def test_a_state_that_is_not_there(document: Document) -> None:
    report = document(HEAD, "--model-preset", "qwen3-next-80b")
    found = finding(report, "KV323")
    assert found["tokens_lost"] == report["fates"]["no_state"] == 1088
    assert "only the third request hits" in found["message"]


def test_a_boundary_that_is_not_kept(document: Document) -> None:
    report = document(HEAD, "--model-preset", "gpt-oss-20b")
    found = finding(report, "KV322")
    assert found["tokens_lost"] == report["fates"]["not_kept"] == 1488
    assert "--prefix-cache-retention-interval none" in found["fix"]
    kept = document(HEAD, "--model-preset", "gpt-oss-20b", "--prefix-cache-retention-interval", "none")
    assert found["tried"]["total_after"] == pytest.approx(kept["totals"]["hit_rate"])
    assert kept["totals"]["hit_rate"] > report["totals"]["hit_rate"]
    assert "KV322" not in codes(kept)


def test_drafts_lose_the_last_block(document: Document) -> None:
    drafts = '{"method": "eagle", "num_speculative_tokens": 2}'
    report = document(AGAIN, "--model-preset", "llama-3.1-8b", "--speculative-config", drafts)
    found = finding(report, "KV325")
    assert found["tokens_lost"] == report["fates"]["drafts"]
    without = document(AGAIN, "--model-preset", "llama-3.1-8b")
    assert without["fates"]["hit"] == report["fates"]["hit"] + found["tokens_lost"]


def test_caching_that_the_model_switches_off(document: Document) -> None:
    Path("config.json").write_text(json.dumps(MAMBA), encoding="utf-8")
    report = document(HEAD, "--model-config", "config.json")
    found = finding(report, "KV326")
    assert found["tokens_lost"] == report["fates"]["caching_off"] > 0
    assert "--enable-prefix-caching" in found["fix"]
    asked = document(HEAD, "--model-config", "config.json", "--no-enable-prefix-caching")
    assert "KV326" not in codes(asked)  # it was not the model


def test_blocks_that_hold_less_than_their_size(document: Document) -> None:
    report = document(CROWD, "--model-preset", "gemma-3-27b", "--num-gpu-blocks", "800")
    assert report["fates"]["evicted"] > 0
    assert "799" not in finding(report, "KV327")["message"]
    assert "800 blocks of 16 tokens keep about " in finding(report, "KV327")["message"]
    assert "KV327" not in codes(document(CROWD, "--model-preset", "gemma-3-27b"))


def test_prefixes_of_turns_are_not_told_as_the_prefix_of_all(document: Document) -> None:
    """Where most is lost to what some requests share, the length of what all share explains nothing."""
    talks = [[{"role": "user", "content": "s" * 60 + letter * 700}] for letter in "abc"]
    lines = [{"messages": [*talk]} for talk in talks]
    for turn in range(1, 4):
        for talk in talks:
            talk += [{"role": "assistant", "content": "x" * 100}, {"role": "user", "content": str(turn) * 100}]
            lines.append({"messages": [*talk]})
    Path("log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    report = document("import: {jsonl: log.jsonl}", "--model-preset", "qwen3-next-80b")
    assert finding(report, "KV321")["message"].startswith("shared prefixes end inside blocks")
