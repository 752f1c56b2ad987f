"""Other engines' rules as flags and files ask for them: defaults, what does not go together, and whole runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtool import api
from kvtool.cli.app import run
from kvtool.config.declared import in_table
from kvtool.config.engine_rules import rules_of_flags
from kvtool.engine.rules.rule_sets import find_rule_set
from kvtool.errors import KvtoolError
from kvtool.results.report import Report
from tests.files import write

HEAD = "You answer questions about bicycles, in one sentence, and name the part that is meant. " * 6
TALK = f"""version: 1
groups:
  - name: a
    requests: 6
    messages: [{{role: system, text: "{HEAD}"}}, {{role: user, text: "{{{{ n }}}} is which part?"}}]
    vars: {{n: {{counter: 100}}}}
"""


def profiled(text: str, **options: object) -> Report:
    return api.profile(write("w.yaml", text), advice=False, **options)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_declared_default_is_that_of_the_rule_set() -> None:
    for flag, rules in [pair for pair in rules_of_flags().items() if pair[1] != "vllm"]:
        default, words = in_table("engine")[flag]
        own = getattr(find_rule_set(rules).options, flag)
        assert own == default
        assert own is not None or words


def test_every_token_has_a_fate_and_all_hit_that_can() -> None:
    for rules in ["sglang", "trtllm", "llamacpp"]:
        report = profiled(TALK, rules=rules)
        assert sum(report.groups[0].fates.values()) == report.totals.prompt_tokens
        assert report.totals.hit_tokens == report.totals.reachable_tokens > 0
        assert "partial_block" not in report.groups[0].fates
        assert not any(finding.code in ("KV203", "KV204") for finding in report.findings)
        assert report.config["rules_status"] == ("read" if rules == "trtllm" else "driven")


def test_pages_lose_the_last_part_as_blocks_do() -> None:
    pages = profiled(TALK, rules="sglang", rule_options={"page_size": 16})
    blocks = profiled(TALK, rules="vllm", block_size=16)
    assert pages.groups[0].fates == blocks.groups[0].fates
    whole = profiled(TALK, rules="trtllm", rule_options={"enable_partial_reuse": False, "tokens_per_block": 16})
    assert whole.groups[0].fates == blocks.groups[0].fates


def test_what_does_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message, hint in [
        ("--page-size 4", "--page-size is an option of --rules sglang, and the rules are vllm", "--block-size"),
        (
            "--rules trtllm --cache-reuse 4",
            "an option of --rules llamacpp, and the rules are trtllm",
            "--rules llamacpp",
        ),
        ("--rules sglang -b 16", "--block-size does not go with --rules sglang", "--page-size"),
        ("--rules trtllm -b 16", "--block-size does not go with --rules trtllm", "--tokens-per-block"),
        ("--rules llamacpp -b 16", "--block-size does not go with --rules llamacpp", "no blocks"),
        ("--rules trtllm --concurrency 4", "--concurrency does not go with --rules trtllm", "one request at a time"),
        ("--rules sglang --replicas 2", "--replicas does not go with --rules sglang", "leave it out"),
        ("--rules llamacpp --gpu-memory 20GiB", "--gpu-memory does not go", "--ctx-size"),
        ("--rules trtllm --tokens-per-block 24", "blocks of 24 tokens", "32"),
        ("--rules trtllm --max-tokens 64 --capacity 64", "--capacity and --max-tokens both say", "leave one out"),
        ("--rules sglang --page-size 0", "--page-size must be at least 1", ""),
        ("--rules sglang --audit", "--audit does not go with --rules sglang", ""),
        ("--rules sglang --capacity lots", "--capacity", ""),
        ("--rules llamacpp --slot-prompt-similarity 2", "--slot-prompt-similarity is a ratio", ""),
    ]:
        write("w.yaml", TALK)
        assert run(["profile", "w.yaml", "--no-config", *arguments.split()]) == 2
        told = " ".join(capsys.readouterr().err.split())
        assert message in told
        assert hint in told


def test_mistakes_of_files_have_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    for engine, place, message in [
        ("{page_size: 4}", "w.yaml:2:21", "`page_size` is an option of `rules: sglang`, and the rules are vllm"),
        ("{rules: sglang, block_size: 4}", "w.yaml:2:37", "`block_size` does not go with `rules: sglang`"),
        ("{rules: sglan}", "w.yaml:2:17", "sglan"),
        ("{rules: llamacpp, cache_ram: -2}", "w.yaml:2:38", "-1"),
    ]:
        write("w.yaml", TALK.replace("version: 1", f"version: 1\nengine: {engine}"))
        assert run(["profile", "w.yaml", "--no-config"]) == 2
        told = " ".join(capsys.readouterr().err.split())
        assert place in told
        assert message in told


def test_a_flag_chooses_other_rules_than_the_file() -> None:
    """What the file says of the engine it names is no mistake then."""
    text = TALK.replace("version: 1", "version: 1\nengine: {rules: sglang, page_size: 64}")
    assert profiled(text).config["page_size"] == 64
    assert profiled(text, rules="trtllm").config["tokens_per_block"] == 32
    text = TALK.replace("version: 1", "version: 1\nengine: {block_size: 32, gpu_memory: 40GiB}")
    assert profiled(text, rules="llamacpp").config["block_size"] == 1


def test_a_capacity_in_the_engine_s_own_unit() -> None:
    for rules, capacity, key, value in [
        ("sglang", "320 tokens", "max_total_tokens", 320),
        ("trtllm", "320 tokens", "max_tokens", 320),
        ("trtllm", "10 blocks", "max_tokens", 320),
        ("trtllm", "1GiB", "max_tokens", 8192),
        ("llamacpp", "1GiB", "cache_ram", 1024),
        ("llamacpp", "8k tokens", "cache_ram", 1000),
    ]:
        assert profiled(TALK, rules=rules, capacity=capacity).config[key] == value


def test_a_program_names_options_that_there_are() -> None:
    with pytest.raises(KvtoolError, match="no rules have an option `page_sizes`") as caught:
        profiled(TALK, rules="sglang", rule_options={"page_sizes": 4})
    assert caught.value.hint == "did you mean page_size?"


def test_a_request_that_never_fits_is_refused_and_told() -> None:
    long = TALK + f'  - {{name: b, text: "{"word " * 400}", requests: 2}}\n'
    report = profiled(long, rules="trtllm", rule_options={"max_tokens": 256})
    assert report.totals.refused_requests == 2
    assert "the pool has 8" in (report.totals.first_refusal or "")
    assert report.totals.requests == 6


def test_traces_have_no_tokens_to_compare(capsys: pytest.CaptureFixture[str]) -> None:
    write("t.jsonl", json.dumps({"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}))
    assert run(["profile", "t.jsonl", "--no-config", "--rules", "sglang"]) == 2
    assert "compare tokens" in " ".join(capsys.readouterr().err.split())
