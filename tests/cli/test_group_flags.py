"""Flags of models with windows, linear attention and drafts: what the head of a report says, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kvtool.cli.app import run

Capture = pytest.CaptureFixture[str]
Told = Callable[..., str]

WORKLOAD = """\
version: 1
groups:
  - name: g
    generate: {prefixes: 1, per_prefix: 3, prefix_tokens: 600, suffix_tokens: 40}
"""
TRACE = [{"timestamp": at, "input_length": 1100, "output_length": 4, "hash_ids": [1, 2, 10 + at]} for at in range(3)]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_json: str, capsys: Capture) -> Told:
    """Runs `kvtool profile` on a file; what it says, in one line."""
    monkeypatch.chdir(tmp_path)
    Path("w.yaml").write_text(WORKLOAD, encoding="utf-8")
    Path("trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in TRACE), encoding="utf-8")

    def start(*flags: str, code: int = 0, name: str = "w.yaml") -> str:
        assert run(["profile", name, "--quiet", "--dry-run", "-t", bytes_json, *flags]) == code
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert bool(err) == bool(code)
        return " ".join((out or err).split())

    return start


@pytest.mark.parametrize(("said", "kept"), [("0", "only at the end of prompts"), ("none", "everywhere")])
def test_the_head_names_what_keeps_windows(told: Told, said: str, kept: str) -> None:
    text = told("--model-preset", "gpt-oss-20b", "--prefix-cache-retention-interval", said)
    assert f"windows are kept {kept}: prefix_cache_retention_interval {said}" in text


@pytest.mark.parametrize(
    ("flags", "name", "what"),
    [
        ((), "trace.jsonl", "kvtool simulates a trace of block hashes"),
        (("--replicas", "2"), "w.yaml", "kvtool simulates whole requests"),
        (("--rules", "block-lru"), "w.yaml", "kvtool simulates whole requests"),
    ],
)
def test_groups_that_are_not_followed_are_told(told: Told, flags: tuple[str, ...], name: str, what: str) -> None:
    text = told("--model-preset", "gpt-oss-20b", *flags, name=name)
    assert f"gpt-oss-20b has 2 KV cache groups; {what} with one full-attention group" in text
    assert "KV cache groups" not in told("--model-preset", "llama-3.1-8b", *flags, name=name)


def test_a_model_that_vllm_plans_as_one_group_says_why(told: Told) -> None:
    text = told("--model-preset", "gpt-oss-20b", "--disable-hybrid-kv-cache-manager")
    assert "gpt-oss-20b: one KV cache group, because the hybrid KV cache manager is off" in text
    assert "one KV cache group, because vLLM turns the hybrid KV cache manager off" in told(
        "--model-preset", "llama-4-scout"
    )


@pytest.mark.parametrize(
    ("model", "flags", "why"),
    [
        ("gpt-oss-20b", ("--mamba-ssm-cache-dtype", "bfloat16"), "gpt-oss-20b keeps no states"),
        ("llama-3.1-8b", ("--disable-hybrid-kv-cache-manager",), "llama-3.1-8b has only full attention"),
        ("llama-3.1-8b", ("--prefix-cache-retention-interval", "none"), "llama-3.1-8b has only full attention"),
        ("qwen3-next-80b", ("--prefix-cache-retention-interval", "100"), "not a multiple of 544 tokens"),
        ("qwen3-next-80b", ("--prefix-match-unit", "7"), "does not divide"),
        ("gpt-oss-20b", ("--prefix-cache-retention-interval", "-3"), "a number of tokens, or none"),
        ("gpt-oss-20b", ("--speculative-config", "[]"), "is a JSON object"),
        ("qwen3-next-80b", ("--disable-hybrid-kv-cache-manager",), "without the hybrid KV cache manager"),
    ],
)
def test_what_a_model_cannot_have_is_refused(told: Told, model: str, flags: tuple[str, ...], why: str) -> None:
    text = told("--model-preset", model, *flags, code=2)
    assert text.startswith("error: ")
    assert why in text
    assert " help: " in text


def test_a_cache_that_holds_no_request_says_that_it_is_the_cache(told: Told) -> None:
    text = told("--model-preset", "qwen3-next-80b", "--num-gpu-blocks", "6", code=2)
    assert "the whole cache has 5" in text
    assert "raise --capacity" in text
    assert "a step takes" not in text


def test_a_check_that_fails_leads_to_the_profile_of_the_same_model(
    told: Told, bytes_json: str, capsys: Capture
) -> None:
    del told
    flags = ["--model-preset", "qwen3-next-80b", "--prefix-match-unit=16"]
    assert run(["check", "w.yaml", "--quiet", "-t", bytes_json, "--min-hit-rate", "0.9", *flags]) == 1
    text = capsys.readouterr().out.replace("\\\n", " ")
    command = " ".join(text[text.rindex("kvtool profile") :].split())
    assert command == f"kvtool profile w.yaml -t {bytes_json} {' '.join(flags)}"


def test_an_optimizer_of_prompts_points_to_the_settings(told: Told, bytes_json: str, capsys: Capture) -> None:
    """It has no flag for a model: a file names it."""
    del told
    Path("kvtool.toml").write_text('[engine]\nmodel = "nemotron-3-nano"\n', encoding="utf-8")
    assert run(["optimize", "w.yaml", "--quiet", "-t", bytes_json]) == 0
    assert "kvtool profile shows what is still not reused" in " ".join(capsys.readouterr().out.split())
    Path("kvtool.toml").write_text("", encoding="utf-8")
    assert run(["optimize", "w.yaml", "--quiet", "-t", bytes_json, "--prefix-match-unit", "16"]) == 2
    assert "in a file" in " ".join(capsys.readouterr().err.split())
