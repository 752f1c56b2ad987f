"""The table of `kvtool what-if` where each row is a run: models with several groups of layers, other engines, replicas."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from tests.cli.test_what_if_table import chat_log, told, workload

CASES = {
    "windows": ["--model", "gpt-oss-20b"],
    "small": ["--model", "gpt-oss-20b", "--capacity", "160"],
    "states": ["--model", "qwen3-next-80b", "--capacity", "30"],
    "sglang": ["--rules", "sglang"],
    "llamacpp": ["--rules", "llamacpp"],
    "trtllm": ["--rules", "trtllm"],
}


def profiled(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[float, int]:
    assert run(["profile", *words, "--dry-run", "--no-advice", "--json"]) == 0, capsys.readouterr().err
    totals: dict[str, Any] = json.loads(capsys.readouterr().out)["totals"]
    return totals["hit_rate"], totals["prompt_tokens"] - totals["hit_tokens"]


@pytest.mark.parametrize("case", CASES)
def test_each_row_is_what_a_profile_with_its_flags_hits(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    words = [chat_log(tmp_path / "log.jsonl"), "-t", bytes_json, *CASES[case]]
    rows = told(capsys, *words)["rows"]
    assert "prompts" in {row["kind"] for row in rows}
    assert ("capacity" in {row["kind"] for row in rows}) == ("--capacity" in words)
    for row in rows:
        shown = row["hit_rate"], row["computed_tokens"]
        if row["kind"] == "prompts":
            again = told(capsys, *shlex.split(row["command"])[2:])["rows"][0]
            assert (again["hit_rate"], again["computed_tokens"]) == shown
        elif row["command"] is not None:
            assert profiled(capsys, *shlex.split(row["command"])[2:]) == shown, row["change"]
        elif row["change"] == "unlimited cache":
            assert profiled(capsys, *words[:-2]) == shown


def test_a_setting_that_wins_is_a_row_with_its_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    path = tmp_path / "w.yaml"
    shared = "word " * 400
    path.write_text(
        "version: 1\ngroups:\n- name: a\n  requests: 8\n  messages:\n"
        f"  - {{role: system, text: '{shared}'}}\n  - {{role: user, text: 'question {{{{ n }}}}'}}\n"
        "vars: {n: {counter: 1}}\n"
    )
    rows = told(capsys, str(path), "-t", bytes_json, "--model", "gpt-oss-20b", "--no-advice")["rows"]
    settings = [row for row in rows if row["kind"] == "setting"]
    assert any("--prefix-cache-retention-interval" in row["command"] for row in settings)
    assert all(row["computed_tokens"] < rows[0]["computed_tokens"] for row in settings)


def test_a_sweep_of_capacities_runs_the_windows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    words = [chat_log(tmp_path / "log.jsonl"), "-t", bytes_json, "--model", "gpt-oss-20b"]
    rows = told(capsys, *words, "--sweep", "capacity", "--capacities", "1,200,100000")["rows"]
    assert [row["capacity"] for row in rows] == [200, 100000]  # one block is too small for any request
    for row in rows:
        assert row["hit_rate"] == profiled(capsys, *words, "--capacity", str(row["capacity"]))[0]
    assert run(["what-if", *words, "--sweep", "capacity", "--capacities", "1"]) == 2
    assert "request" in capsys.readouterr().err


def test_replicas_of_a_workload_file_have_rows_for_their_router(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    path = Path(workload(tmp_path / "w.yaml"))
    path.write_text(path.read_text().replace("version: 1\n", "version: 1\nengine: {replicas: 3}\n"))
    rows = told(capsys, str(path), "-t", bytes_json, "-b", "8", "--no-advice")["rows"]
    assert any("prefix" in row["does"] for row in rows)
    assert (rows[0]["hit_rate"], rows[0]["computed_tokens"]) == profiled(capsys, str(path), "-t", bytes_json, "-b", "8")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--replicas", "2"], "--replicas supports one group"),
        (["--sweep", "ttl"], "--sweep ttl supports one group"),
        (["--sweep", "policy"], "several groups of layers"),
        (["--sweep", "capacity", "--sample", "0.5"], "--sample supports one group"),
    ],
)
def test_what_needs_blocks_of_one_size_is_refused(
    more: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["what-if", chat_log(tmp_path / "log.jsonl"), "--model", "gpt-oss-20b", *more]) == 2
    assert problem in capsys.readouterr().err
