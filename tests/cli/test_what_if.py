"""`kvtool what-if`: the contract of its JSON, what it refuses, what people see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run

SHARED = Path(__file__).resolve().parents[3] / "shared"
CONVERSATION = SHARED / "data" / "mooncake" / "conversation_trace.jsonl"
EXPECTED = SHARED / "oracle" / "policies-expected.json"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "t.jsonl"
    rows = [
        {"timestamp": 1000 * at, "input_length": 512 * 4, "output_length": 1, "hash_ids": [1, 2, 3 + at % 3, 100 + at]}
        for at in range(12)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["what-if", *arguments, "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_policies_of_the_conversation_trace(capsys: pytest.CaptureFixture[str]) -> None:
    if not CONVERSATION.exists() or not EXPECTED.exists():
        pytest.skip("the shared trace or its counts are not there")
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))["traces"]["conversation"]["prefix"]
    names = "lru,fifo,lfu,sieve,s3fifo,arc,opt"
    arguments = ("--sweep", "policy", "--policies", names, "--capacities", "1000,10000", "--rules", "block-lru")
    found = told(capsys, str(CONVERSATION), *arguments)
    assert len(found["rows"]) == 14
    for row in found["rows"]:
        name = {"s3fifo": "S3-FIFO"}.get(row["policy"], row["policy"].upper())
        assert row["hit_blocks"] == expected[name][str(row["capacity"])]
        assert row["references"] == 288_500
        assert row["hit_rate"] == pytest.approx(row["hit_blocks"] / 288_500)
        assert row["axis"] == "policy"


def test_the_rows_of_each_axis(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = told(capsys, trace, "--rules", "block-lru", "--capacities", "0,2,100")["rows"]
    assert [row["hit_blocks"] for row in rows] == [0, 22, 11 * 2 + 9]
    assert {row["sure"] for row in rows} == {"exact"}
    rows = told(capsys, trace, "--rules", "block-lru", "--sweep", "ttl", "--ttls", "500ms,1s,3s")["rows"]
    assert [row["hit_blocks"] for row in rows] == [0, 22, 31]
    rows = told(capsys, trace, "--rules", "block-lru", "--sweep", "block-size", "--block-sizes", "512,1024,2048")[
        "rows"
    ]
    assert [row["hit_blocks"] for row in rows] == [31, 11, 0]
    assert rows[1]["hit_rate"] == pytest.approx(11 * 1024 / (12 * 2048))
    (row,) = told(capsys, trace, "--capacities", "100", "--sample", "0.5")["rows"]
    assert (row["sure"], row["error"] >= 0) == ("sampled", True)


def test_what_text_shares_is_what_an_unlimited_profile_reaches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.jsonl"
    head = "You are the support agent of a shop. Be short and kind. " * 12
    path.write_text(
        "".join(json.dumps({"prompt": head + f"question {at}: " + "x y z " * at}) + "\n" for at in range(9))
    )
    found = told(capsys, str(path), "--capacities", "100000")
    assert run(["profile", str(path), "--dry-run", "--no-advice", "--json"]) == 0
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert found["rows"][0]["hit_blocks"] * found["block_size"] == totals["hit_tokens"]
    assert found["reachable_blocks"] == found["rows"][0]["hit_blocks"]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("axis", ["capacity", "policy", "ttl", "block-size"])
def test_nothing_is_wider_than_the_terminal(
    trace: str, axis: str, width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["what-if", trace, "--rules", "block-lru", "--sweep", axis, "--width", str(width)]) == 0
    shown = capsys.readouterr().out
    assert "An unlimited cache hits" in shown
    assert all(len(line) <= width for line in shown.splitlines())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--sweep", "policy"], "rule of trace studies"),
        (["--sweep", "policy", "--policies", "mru", "--rules", "block-lru"], "no policy 'mru'"),
        (["--capacities", "many"], "--capacities"),
        (["--capacities", "1" * 40], "--capacities"),
        (["--policies", "lru"], "--sweep policy"),
        (["--ttls", "5m"], "--sweep ttl"),
        (["--sweep", "ttl", "--ttls", "soon"], "--ttls"),
        (["--sweep", "block-size", "--block-sizes", "700"], "700"),
        (["--sweep", "ttl", "--sample", "0.5"], "--sample"),
        (["--sample", "0"], "--sample"),
        (["--rules", "sglang"], "sglang"),
    ],
)
def test_what_does_not_go_together_is_said(
    trace: str, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["what-if", trace, *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_no_times_and_times_that_go_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"input_length": 512, "output_length": 1, "hash_ids": [1]}\n')
    assert run(["what-if", str(path), "--sweep", "ttl"]) == 2
    assert "arrival times" in capsys.readouterr().err
