"""Whole runs on real prompts against counts that an independent simulator gave for the same token streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from kvtool.cli.app import run

SHARED = Path(__file__).resolve().parents[3] / "shared"
TINYLLAMA = SHARED / "data/tokenizers/TinyLlama_v1.1.tokenizer.json"
EXPECTED = SHARED / "oracle/traces-expected.json"

pytestmark = pytest.mark.skipif(
    not (EXPECTED.exists() and TINYLLAMA.exists()), reason="the reference counts are not here (../shared)"
)


def expected(name: str) -> dict[str, Any]:
    workload = json.loads(EXPECTED.read_text())["text_prompts"][name]
    return {"requests": workload["requests"], **workload["tinyllama16"]}


def canonical(messages: list[dict[str, Any]]) -> str:
    """The rendering that the reference counts are defined on."""
    parts = []
    for message in messages:
        text = message.get("content") or ""
        if not isinstance(text, str):
            text = "".join(part.get("text", "") for part in text)
        if message.get("tool_calls"):
            calls = message["tool_calls"]
            text += json.dumps(calls, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        parts.append(f"<|{message['role']}|>\n{text}\n")
    return "".join(parts) + "<|assistant|>\n"


def totals(capsys: pytest.CaptureFixture[str], log: Path, *flags: str) -> dict[str, Any]:
    code = run(["profile", str(log), "-t", str(TINYLLAMA), "--dry-run", "--no-advice", "--json", *flags])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    result: dict[str, Any] = json.loads(captured.out)["totals"]
    return result


@pytest.fixture(scope="module")
def tau_bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prompts as token ids: those who do not ask about text need it tokenized once."""
    tokenizer = Tokenizer.from_file(str(TINYLLAMA))
    log = tmp_path_factory.mktemp("tau") / "ids.jsonl"
    transcripts = json.loads((SHARED / "data/tau_bench/gpt-4o-airline.json").read_text())[:50]
    with log.open("w") as file:
        for transcript in transcripts:
            turns = transcript["traj"]
            for index, message in enumerate(turns):
                if index and message["role"] == "assistant":
                    file.write(json.dumps({"prompt_token_ids": tokenizer.encode(canonical(turns[:index])).ids}) + "\n")
    return log


@pytest.fixture(scope="module")
def agent_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = tmp_path_factory.mktemp("agent") / "prompts.jsonl"
    with log.open("w") as file:
        for source in sorted((SHARED / "data/lmcache_agent/taubench").glob("*.jsonl")):
            for line in source.read_text().splitlines():
                file.write(json.dumps({"prompt": json.loads(line)["input"]}) + "\n")
    return log


def test_both_rules_on_transcripts(capsys: pytest.CaptureFixture[str], tau_bench: Path) -> None:
    counts = expected("tau_bench_airline_first50_sequential")
    got = totals(capsys, tau_bench)
    assert (got["requests"], got["prompt_tokens"], got["hit_tokens"]) == (
        counts["requests"],
        counts["tokens"],
        counts["hit_tokens_vllm_rule"],
    )
    got = totals(capsys, tau_bench, "--rules", "block-lru", "--capacity", "1024")
    assert got["hit_tokens"] == counts["lru_hit_tokens_C1024"]


def test_both_rules_on_agent_logs(capsys: pytest.CaptureFixture[str], agent_log: Path) -> None:
    counts = expected("lmcache_taubench_all_files_sequential")
    got = totals(capsys, agent_log)
    assert (got["requests"], got["prompt_tokens"], got["hit_tokens"]) == (
        counts["requests"],
        counts["tokens"],
        counts["hit_tokens_vllm_rule"],
    )
    assert totals(capsys, agent_log, "--rules", "block-lru")["hit_tokens"] == counts["hit_tokens"]
    got = totals(capsys, agent_log, "--rules", "block-lru", "--capacity", "256")
    assert got["hit_tokens"] == counts["lru_hit_tokens_C256"]
