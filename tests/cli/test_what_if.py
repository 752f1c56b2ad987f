"""`kvtool what-if`: the contract of its JSON, what it refuses, what people see."""

from __future__ import annotations

import json
import shlex
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
    names = "lru,fifo,lfu,opt"
    arguments = ("--sweep", "policy", "--policies", names, "--capacities", "1000", "--rules", "block-lru")
    found = told(capsys, str(CONVERSATION), *arguments)
    assert len(found["rows"]) == 4
    for row in found["rows"]:
        assert row["hit_blocks"] == expected[row["policy"].upper()][str(row["capacity"])]
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
    assert "Maximum with an unlimited cache" in " ".join(shown.split())
    assert all(len(line) <= width for line in shown.splitlines())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--sweep", "policy", "--policies", "fifo"], "vLLM has only LRU"),
        (["--sweep", "policy", "--policies", "mru", "--rules", "block-lru"], "no policy 'mru'"),
        (["--capacities", "many"], "--capacities"),
        (["--capacities", "1" * 40], "--capacities"),
        (["--policies", "lru"], "--sweep policy"),
        (["--ttls", "5m"], "--sweep ttl"),
        (["--sweep", "ttl", "--ttls", "soon"], "--ttls"),
        (["--sweep", "block-size", "--block-sizes", "700"], "700"),
        (["--sweep", "ttl", "--sample", "0.5"], "--sample"),
        (["--sample", "0"], "--sample"),
        (["--sample", "1e-320"], "--sample is from"),
        (["--rules", "sglang"], "compare tokens"),
        (
            ["--sweep", "capacity", "--routing", "dynamo"],
            "--routing is for the table and --sweep",
        ),
        (["--capacities", "9", "--replicas", "4"], "--replicas is for the table and --sweep"),
        (["--replicas", "4,5"], "--replicas is one for the table"),
        (["--sweep", "capacity", "--slo", "ttft=1s"], "--slo is for the table and --sweep"),
        (["--sweep", "ttl", "--router-view", "events"], "--router-view is for the table"),
        (["--sweep", "routing", "--rules", "block-lru"], "replicas follow vLLM's rules"),
        (["--sweep", "routing", "--routing", "nginx"], "unknown router 'nginx'"),
        (["--sweep", "routing", "--routing", ","], "--routing names no router"),
        (["--sweep", "routing", "--routing", "sglang:share=lots"], "'lots' must be a number of at least 0"),
        (["--sweep", "routing", "--routing", "dynamo,session-ring"], "no request has one"),
        (["--sweep", "routing", "--replicas", "0"], "'0' is no number of replicas"),
        (["--sweep", "routing", "--replicas", "2,4"], "use --sweep replicas for several"),
        (["--sweep", "replicas", "--replicas", "8..2"], "'8..2' goes down"),
        (["--sweep", "replicas", "--replicas", "1..99999999999"], "is no number of replicas"),
        (["--sweep", "replicas", "--replicas", "-1"], "'-1' is no number of replicas"),
        (["--sweep", "replicas", "--replicas", "x\x1b[0m"], "is no number of replicas"),
        (["--sweep", "replicas", "--replicas", ","], "no number is given"),
        (["--sweep", "replicas", "--capacity", "2"], "the whole cache has 2"),
    ],
)
def test_what_does_not_go_together_is_said(
    trace: str, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["what-if", trace, *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_routers_of_a_log(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, trace, "--sweep", "routing", "--capacity", "200", "--replicas", "3")
    rows = found["rows"]
    assert {row["axis"] for row in rows} == {"routing"}
    assert {row["replicas"] for row in rows} == {3}
    names = [row["routing"] for row in rows]
    assert names[-1] == "oracle"
    assert {"round-robin", "least-loaded", "sglang", "llm-d", "dynamo", "least-ttft"} <= set(names)
    assert "session-ring" not in names
    assert any(note.startswith("session-ring is left out") for note in found["notes"])
    real = rows[:-1]
    assert [row["ttft_p99"] for row in real] == sorted(row["ttft_p99"] for row in real)
    for row in real:
        assert row["sure"] == "predicted"
        assert 0 <= row["hit_rate"] <= rows[-1]["hit_rate"]
        assert 1 <= row["imbalance"] <= 3
        assert 0 < row["ttft_p50"] <= row["ttft_p99"]
    assert {row["routing"]: row["router_view"] for row in real}["sglang"] == "routed"
    again = told(capsys, trace, "--sweep", "routing", "--capacity", "200", "--replicas", "3")
    assert again["rows"] == rows
    for row in (rows[0], rows[-1]):
        words = shlex.split(row["command"])
        assert words[:2] == ["kvtool", "what-if"]
        assert told(capsys, *words[2:])["rows"] == [row]


def test_replicas_of_a_log(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (
        "--sweep", "replicas", "--replicas", "1..3,5", "--routing", "dynamo,sglang:share=0.9", "--router-view",
        "events",
    )  # fmt: skip
    rows = told(capsys, trace, *arguments)["rows"]
    assert [row["replicas"] for row in rows] == [1, 1, 2, 2, 3, 3, 5, 5]
    assert {row["routing"] for row in rows} == {"dynamo", "sglang:share=0.9"}
    assert {row["router_view"] for row in rows} == {"events"}
    one = [{**row, "routing": None, "router_version": None, "command": None} for row in rows[:2]]
    assert one[0] == one[1]
    assert {row["replicas"] for row in told(capsys, trace, "--sweep", "replicas")["rows"]} == {1, 2, 4, 8}


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("axis", ["routing", "replicas"])
def test_the_first_line_says_who_waits_least(
    trace: str, axis: str, width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["what-if", trace, "--sweep", axis, "--width", str(width), "-q"]) == 0
    shown = capsys.readouterr().out
    assert all(len(line) <= width for line in shown.splitlines())
    assert "TTFT p99" in shown.split("\n\n")[1]


def test_sessions_stay_where_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.jsonl"
    rows = [
        {"prompt": f"{at} " * 200, "timestamp": 60 * at, **({"session_id": f"s{at % 3}"} if at < 6 else {})}
        for at in range(9)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = told(capsys, str(path), "--sweep", "routing", "--routing", "session-ring")
    assert found["rows"][0]["routing"] == "session-ring"
    assert any(note.startswith("3 of 9 requests have no session and no tenant") for note in found["notes"])


def test_no_times_and_times_that_go_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"input_length": 512, "output_length": 1, "hash_ids": [1]}\n')
    assert run(["what-if", str(path), "--sweep", "ttl"]) == 2
    assert "arrival times" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ([0.0, None, 2.0], "t.jsonl:2:1: a clock needs arrival times"),
        ([0.0, 1.0, 1.7e9], "t.jsonl:3:1: requests 2 and 3 are 54 years"),
    ],
)
def test_times_that_are_none_are_shown_where_they_stand(
    times: list[float | None], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.jsonl"
    rows = [{"prompt": "hello", **({} if at is None else {"timestamp": at})} for at in times]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["what-if", str(path), "--sweep", "routing", "-q"]) == 2
    assert told in capsys.readouterr().err
