"""Replicas, times to live, providers and the boundary view on the command line and in workload files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from tests.files import widest

Capture = pytest.CaptureFixture[str]

WORKLOAD = """\
version: 1
engine: {block_size: 16, ENGINE}
groups:
  - name: gen
    ARRIVAL
    generate: {prefixes: 2, per_prefix: 6, prefix_tokens: 1200, suffix_tokens: 16}
"""


@pytest.fixture
def folder(tmp_path: Path, bytes_json: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bytes.json").symlink_to(bytes_json)
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    write(tmp_path)
    return tmp_path


def write(folder: Path, engine: str = "seed", arrival: str = "limit: 12") -> None:
    text = WORKLOAD.replace("ARRIVAL", arrival).replace(", ENGINE", "" if engine == "seed" else f", {engine}")
    (folder / "w.yaml").write_text(text, encoding="utf-8")


def document(capsys: Capture, *flags: str) -> dict[str, Any]:
    assert run(["profile", "w.yaml", "--quiet", "--json", "--dry-run", "-t", "bytes.json", *flags]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: Capture, *flags: str) -> str:
    assert run(["profile", "w.yaml", "--quiet", "--dry-run", "-t", "bytes.json", *flags]) == 2
    return capsys.readouterr().err


def test_replicas_by_flag_and_by_file(folder: Path, capsys: Capture) -> None:
    by_flag = document(capsys, "--replicas", "2", "--routing", "prefix-aware")
    write(folder, "replicas: 2, routing: prefix-aware")
    by_file = document(capsys)
    assert by_flag["config"] == by_file["config"]
    assert by_flag["fates"] == by_file["fates"]
    assert (by_file["config"]["replicas"], by_file["config"]["routing"]) == (2, "prefix-aware")
    assert document(capsys, "--routing", "round-robin")["config"]["routing"] == "round-robin"


def test_a_better_routing_is_tried(folder: Path, capsys: Capture) -> None:
    """Two prefixes in turn over three replicas: each is computed on each of them."""
    found = document(capsys, "--replicas", "3")
    assert found["fates"]["scattered"] == 4 * 1200
    (finding,) = [finding for finding in found["findings"] if finding["code"] == "KV304"]
    assert finding["tokens_lost"] == 4 * 1200
    assert "replica that caches most of its prefix: gen 49.3% -> 82.2% (verified)" in finding["fix"]


def test_a_provider_overrides_what_the_file_says_of_an_engine(folder: Path, capsys: Capture) -> None:
    write(folder, "capacity: 1000, concurrency: 4", "arrival: {process: uniform, rate: 1/s}")
    config = document(capsys, "--provider", "openai")["config"]
    assert (config["provider"], config["block_size"], config["capacity_blocks"], config["ttl_seconds"]) == (
        "openai",
        128,
        None,
        300.0,
    )
    assert config["provider_as_of"]
    assert config["provider_source"]


def test_a_provider_without_arrivals_forgets_nothing(folder: Path, capsys: Capture) -> None:
    found = document(capsys, "--provider", "openai")
    assert found["config"]["ttl_seconds"] is None
    assert found["fates"]["hit"] == 10 * (1200 // 128 * 128)
    assert run(["profile", "w.yaml", "--quiet", "--dry-run", "-t", "bytes.json", "--provider", "openai"]) == 0
    assert "No arrival times, so nothing expires after its 5 min" in " ".join(capsys.readouterr().out.split())


def test_a_time_to_live(folder: Path, capsys: Capture) -> None:
    write(folder, "ttl: 5s", "arrival: {process: uniform, rate: 0.1/s}")
    found = document(capsys)
    assert found["config"]["ttl_seconds"] == 5.0
    assert found["fates"] == {"hit": 0, "expired": 10 * 1200, "first_use": 2 * 1200, "unique": 12 * 16}
    (finding,) = [finding for finding in found["findings"] if finding["code"] == "KV305"]
    assert "5 minutes: gen 0.0% -> 82.2%" in finding["fix"]
    assert document(capsys, "--ttl", "1m")["fates"]["hit"] == 10 * 1200
    assert document(capsys) == found


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--ttl", "5m"], "needs arrival times"),
        (["--ttl", "soon"], "--ttl"),
        (["--provider", "antropic"], "did you mean `anthropic`?"),
        (["--provider", "openai", "--capacity", "100"], "how large"),
        (["--provider", "openai", "--block-size", "32"], "steps of 128"),
        (["--replicas", "2", "--concurrency", "4"], "one at a time"),
        (["--replicas", "2", "--events", "e.jsonl"], "--events"),
        (["--replicas", "0"], "at least 1"),
        (["--replicas", "10001"], "10,001 replicas are more than the 10,000"),
        (["--replicas", str(1 << 62)], "replicas are more than the 10,000"),
        (["--routing", "sticky"], "there is one"),
    ],
)
def test_mistakes(folder: Path, capsys: Capture, flags: list[str], said: str) -> None:
    assert said in refused(capsys, *flags)


def test_a_routing_that_is_none_in_a_file(folder: Path, capsys: Capture) -> None:
    write(folder, "replicas: 2, routing: nearest")
    assert "w.yaml:2" in refused(capsys)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_report(folder: Path, capsys: Capture, width: int) -> None:
    flags = ["--replicas", "3", "--boundaries", "--width", str(width)]
    assert run(["profile", "w.yaml", "--quiet", "--dry-run", "-t", "bytes.json", *flags]) == 0
    out = capsys.readouterr().out
    assert widest(out) <= width
    assert "on another replica" in out
    assert "Block boundaries of gen" in out
    assert "Padding at the front saves nothing" in " ".join(out.split())  # 1,200 tokens are 75 whole blocks


def test_boundaries_in_json(folder: Path, capsys: Capture) -> None:
    (group,) = document(capsys)["boundaries"]
    hits = {size["block_size"]: size["hit_tokens"] for size in group["sizes"]}
    assert hits == {size: 10 * (1200 // size * size) for size in (16, 32, 64, 128, 256, 528, 784, 1600)}
    assert group["nothing_shared_requests"] == 2
