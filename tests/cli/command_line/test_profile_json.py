"""The JSON contract of `kvtool profile`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtool.cli.app import run
from tests.cli.command_line.conftest import MARKER


def test_json_keeps_its_contract(folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["profile", "w.yaml", "--json", "--dry-run", "--per-request", "-t", bytes_json])
    out, err = capsys.readouterr()
    assert (code, err) == (1, "")
    assert MARKER not in out
    document = json.loads(out)
    assert out == json.dumps(document, indent=2, sort_keys=True) + "\n"
    assert document["schema"] == "kvtool.report/1"
    assert document["verdict"] == "fail"
    totals, groups = document["totals"], document["groups"]
    assert {
        "requests", "prompt_tokens", "hit_tokens", "hit_rate", "mean_request_hit_rate", "reachable_hit_rate",
        "evictions", "preemptions",
    } <= totals.keys()  # fmt: skip
    assert sum(document["fates"].values()) == totals["prompt_tokens"]
    assert [group["name"] for group in groups] == ["support", "tenant", "chat"]
    for group in groups:
        keys = {"name", "requests", "prompt_tokens", "hit_tokens", "hit_rate", "reachable_hit_rate"}
        assert keys <= group.keys()
        assert sum(group["fates"].values()) == group["prompt_tokens"]
        assert group["hit_rate"] == group["hit_tokens"] / group["prompt_tokens"] <= group["reachable_hit_rate"] <= 1
    rows = document["requests"]
    assert len(rows) == totals["requests"] == 24
    assert len({(row["group"], row["id"]) for row in rows}) == 24
    for key in ("prompt_tokens", "hit_tokens"):
        assert totals[key] == sum(group[key] for group in groups) == sum(row[key] for row in rows)
    mean = sum(row["hit_tokens"] / row["prompt_tokens"] for row in rows) / len(rows)
    assert totals["mean_request_hit_rate"] == pytest.approx(mean)
    assert document["ttft"]["measured"] is None
    for side in ("on", "off"):
        assert document["ttft"]["predicted"][side].keys() == {"p50", "p90", "p99"}
    finding = next(finding for finding in document["findings"] if finding["group"] == "support")
    assert (finding["path"], finding["line"], finding["severity"]) == ("w.yaml", 9, "error")
    assert {"code", "severity", "path", "line", "column", "message", "tokens_lost"} <= finding.keys()
    assert finding["rerun"]["group_after"] > finding["rerun"]["group_before"]


def test_without_per_request_there_are_no_rows(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["profile", "w.yaml", "--json", "--dry-run", "-t", bytes_json])
    assert "requests" not in json.loads(capsys.readouterr().out)


def test_a_limit_is_kept_however_requests_run(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for flags in ([], ["--concurrency", "4"], ["--concurrency", "4", "--capacity", "100"]):
        run(["profile", "w.yaml", "--json", "--dry-run", "-t", bytes_json, "-n", "7", "--per-request", *flags])
        assert len(json.loads(capsys.readouterr().out)["requests"]) == 7


def test_a_report_that_may_not_quote_does_not(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["profile", "w.yaml", "--dry-run", "-t", bytes_json])
    assert MARKER in capsys.readouterr().out
    run(["profile", "w.yaml", "--dry-run", "-t", bytes_json, "--show-text", "none"])
    out = capsys.readouterr().out
    assert "w.yaml:9:" in out
    assert MARKER not in out
