"""Demands on the clock of what-if: accelerators for an objective, and goodput."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run


def trace(path: Path, *, timed: bool = True) -> str:
    rows = []
    for at in range(60):
        row: dict[str, Any] = {
            "input_length": 512 * 8,
            "output_length": 30,
            "hash_ids": [*range(4), *(100 * at + each for each in range(4, 8))],
        }
        if timed:
            row["timestamp"] = 10 * at
        rows.append(json.dumps(row))
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["check", *arguments, "--no-config", "--json"])
    said = capsys.readouterr()
    assert said.out, said.err
    found: dict[str, Any] = json.loads(said.out)
    return code, {each["kind"]: each for each in found["verdict"]["checks"]}


def test_limits_are_held_against_todays_row_of_what_if(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, slo = trace(tmp_path / "t.jsonl"), "ttft=300ms"
    assert run(["what-if", path, "--slo", slo, "--no-config", "--json"]) == 0
    today = json.loads(capsys.readouterr().out)["rows"][0]
    gpus, goodput = today["gpus"], today["goodput"]
    assert gpus > 1
    assert goodput > 0
    code, checks = checked(capsys, path, "--slo", slo, "--max-gpus", str(gpus), "--min-goodput", f"{goodput * 0.99}")
    assert (code, {each["status"] for each in checks.values()}) == (0, {"pass"})
    assert (checks["gpus"]["actual"], checks["goodput"]["actual"]) == (gpus, goodput)
    code, checks = checked(
        capsys, path, "--slo", slo, "--max-gpus", str(gpus - 1), "--min-goodput", f"{goodput * 1.01}"
    )
    assert (code, {each["status"] for each in checks.values()}) == (1, {"fail"})
    assert {each["code"] for each in checks.values()} == {"KV410"}
    assert f"{slo} needs {gpus} GPUs, above the allowed {gpus - 1} (--max-gpus)" in checks["gpus"]["message"]


def test_an_objective_that_nobody_meets_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, checks = checked(capsys, trace(tmp_path / "t.jsonl"), "--slo", "ttft=0.1ms", "--max-gpus", "8")
    assert (code, checks["gpus"]["actual"]) == (1, None)
    said = "no tested fleet meets ttft=0.1ms; --max-gpus allows 8 GPUs"
    assert checks["gpus"]["message"].endswith(said)


def test_the_next_step_is_the_table_for_the_same_objective(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trace(tmp_path / "t.jsonl")
    flags = ["--slo=ttft=0.1ms", "--tensor-parallel", "2", "--max-gpus", "8"]
    monkeypatch.setattr("sys.argv", ["kvtool", "check", "t.jsonl", *flags])
    assert run(["check", "t.jsonl", *flags]) == 1
    shown = capsys.readouterr().out
    assert "FAIL 1 gate (all requests no fleet found, allowed 8)" in shown
    _, step, command, *_ = shown.partition("Next: find out what saves GPUs:\n")
    assert step
    words = shlex.split(command)
    assert words == ["kvtool", "what-if", "t.jsonl", "--slo=ttft=0.1ms", "--tensor-parallel", "2"]
    assert run(words[1:]) == 0
    capsys.readouterr()
    (tmp_path / "kvtool.toml").write_text('[check]\nmax_gpus = 1\nslo = "ttft=300ms"\n')
    assert run(["check", "t.jsonl"]) == 1
    shown = capsys.readouterr().out
    assert "(add the slo of the file as --slo)" in shown
    assert "kvtool what-if t.jsonl --use-timestamps" in shown


def test_the_file_demands_it_too_and_flags_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trace(tmp_path / "t.jsonl")
    (tmp_path / "kvtool.toml").write_text('[check]\nmax_gpus = 1\nslo = "ttft=300ms"\n')
    assert run(["check", "t.jsonl"]) == 1
    shown = capsys.readouterr().out
    assert "kvtool.toml:2" in shown
    assert "FAIL 1 gate" in shown
    assert run(["check", "t.jsonl", "--max-gpus", "50"]) == 0
    capsys.readouterr()
    (tmp_path / "kvtool.toml").write_text('[check]\nmax_gpus = 1\nslo = "ttft=fast"\n')
    assert run(["check", "t.jsonl"]) == 2
    assert "kvtool.toml:3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "timed", "problem"),
    [
        (["--max-gpus", "2"], True, "--max-gpus needs an objective"),
        (["--min-goodput", "2"], True, "--min-goodput needs an objective"),
        (["--max-gpus", "2", "--slo", "ttft=2s"], False, "need arrival times"),
        (["--max-gpus", "0", "--slo", "ttft=2s"], True, "--max-gpus must be at least 1"),
        (["--min-goodput", "0", "--slo", "ttft=2s"], True, "--min-goodput"),
        (["--max-gpus", "2", "--slo", "latency=2s"], True, "--slo"),
        (["--max-gpus", "2", "--slo", "ttft=2s", "--rules", "block-lru"], True, "vLLM's rules"),
    ],
)
def test_what_cannot_be_judged_is_refused(
    arguments: list[str], timed: bool, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", trace(tmp_path / "t.jsonl", timed=timed), "--no-config", *arguments]) == 2
    assert problem in capsys.readouterr().err
