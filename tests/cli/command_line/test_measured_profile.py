"""A profile that measures: what is printed when, and what an interruption leaves."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.profiler.profiler import Profiler
from kvtool.results.report import Report


@pytest.mark.engine
def test_the_report_stands_before_anything_is_measured(
    folder: Path, bytes_json: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["profile", "w.yaml", "-t", bytes_json, "-g", "tenant", "--no-advice", "-n", "3"]
    assert run([*arguments, "--dry-run"]) == 0
    accounted, more = capsys.readouterr().out.split("  Add --details")
    assert more.count("\n") == 1
    finished: list[Report] = []
    standing: list[str] = []
    run_engine = Profiler.measured

    def measured(self: Profiler, report: Report) -> Report:
        standing.append(capsys.readouterr().out)
        finished.append(run_engine(self, report))
        return finished[0]

    monkeypatch.setattr(Profiler, "measured", measured)
    assert run([*arguments, "--measure-budget", "60"]) == 0
    assert standing == [accounted.replace(" --dry-run", " --measure-budget 60")]
    told = " ".join(capsys.readouterr().out.split())
    assert told.endswith("p99.")
    assert re.match(
        r"TTFT p50 [\d.,]+ ms with the cache, [\d.,]+ ms without \(measured on this machine \(cpu, torch kernels\) with ",
        told,
    )
    assert "3 of 3 requests, drawn from the whole run" in told
    times = finished[0].ttft.measured
    assert times is not None
    assert (times.complete, times.requests) == (True, 3)
    for side in (times.on, times.off):
        assert side is not None
        assert 0 < side.p50 <= side.p90 <= side.p99


@pytest.mark.engine
def test_a_document_for_a_program_has_what_was_measured(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["profile", "w.yaml", "-t", bytes_json, "-g", "tenant", "--no-advice", "-n", "3", "-q"]
    assert run([*arguments, "--measure-budget", "60", "-o", "r.json"]) == 0
    assert "measured on this machine" in " ".join(capsys.readouterr().out.split())
    assert json.loads((folder / "r.json").read_text())["ttft"]["measured"]["requests"] == 3


def test_an_interrupted_measurement_ends_the_report(
    folder: Path, bytes_json: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kvtool.profiler.profiler.measure", interrupted)
    assert run(["profile", "w.yaml", "-t", bytes_json, "-g", "tenant", "--no-advice", "-n", "3"]) == 130
    out = capsys.readouterr().out
    assert out.index("Hit rate") < out.index("PARTIAL: interrupted")


def test_a_demand_comes_with_the_configuration_that_holds_it(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(bytes_json, folder / "bytes.json")
    asked = [
        "-t", "bytes.json", "-g", "chat", "-b", "32", "--capacity", "400", "-n", "20", "-s", "3", "--concurrency",
        "2",
    ]  # fmt: skip
    assert run(["profile", "w.yaml", "--dry-run", *asked]) == 0
    assert "kvtool.toml" not in capsys.readouterr().out
    rate = 0.01
    assert run(["profile", "w.yaml", "--dry-run", *asked, "--min-hit-rate", str(rate)]) == 0
    lines = capsys.readouterr().out.partition("run kvtool check:\n")[2].removesuffix("PASS 1 gate\n")
    config = tomllib.loads(lines)
    assert config == {
        "workloads": ["w.yaml"],
        "requests": 20,
        "seed": 3,
        "engine": {"tokenizer": "bytes.json", "block_size": 32, "capacity": "400", "concurrency": 2},
        "gate": {"hit_rate": "1%"},
    }
    (folder / "kvtool.toml").write_text(lines, encoding="utf-8")
    assert run(["check", "-g", "chat"]) == 0
    assert "PASS 1 gate" in capsys.readouterr().out
