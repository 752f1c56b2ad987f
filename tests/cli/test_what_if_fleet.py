"""`kvtool what-if --sweep tier` and `--sweep pd`: rows, what is refused, and what people see."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from tests.files import widest

Told = Callable[..., dict[str, Any]]
SERVED = ("--model", "llama-3.1-8b", "--accelerator", "h100")


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Three conversations in turn, each with its own 3 blocks, and a block of its own for each request."""
    rows = [
        {
            "timestamp": 500 * at,
            "input_length": 512 * 4,
            "output_length": 20,
            "hash_ids": [10 * (at % 3) + 1, 10 * (at % 3) + 2, 10 * (at % 3) + 3, 100 + at],
        }
        for at in range(24)
    ]
    return write(tmp_path / "t.jsonl", rows)


@pytest.fixture
def told(trace: str, capsys: pytest.CaptureFixture[str]) -> Told:
    def tell(*arguments: str) -> dict[str, Any]:
        assert run(["what-if", trace, *SERVED, *arguments, "--json"]) == 0, capsys.readouterr().err
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return tell


def test_rows_of_tiers(told: Told) -> None:
    sizes = ("--host-memory", "1x,40", "--host-bandwidth", "1GB/s,unlimited", "--disk-memory", "0,64MiB")
    found = told("--sweep", "tier", "--capacity", "8", *sizes)
    rows = found["rows"]
    assert [row["host_blocks"] for row in rows] == [0, 8, 8, 8, 8, 40, 40, 40, 40]
    assert [row["disk_blocks"] for row in rows] == [0, 0, 0, 1, 1, 0, 0, 1, 1]
    assert {(row["axis"], row["capacity"], row["sure"]) for row in rows} == {("tier", 8, "predicted")}
    today, *_, best = rows
    assert today["hit_rate"] == today["loaded_rate"] == 0
    assert best["loaded_rate"] == pytest.approx(21 * 3 / (24 * 3))
    assert best["computed_tokens"] == 24 * 2048 - 21 * 3 * 512
    assert best["ttft_p50"] < today["ttft_p50"]
    slow = rows[5]
    assert slow["bandwidth"] == 1e9
    assert slow["break_even_tokens"] is None
    assert slow["ttft_p50"] > today["ttft_p50"]


def test_an_engine_loads_what_it_were_faster_to_compute_unless_it_is_told_not_to(told: Told) -> None:
    arguments = ("--sweep", "tier", "--capacity", "8", "--host-memory", "40", "--host-bandwidth", "1GB/s")
    today, cheaper = told(*arguments, "--tier-loads", "cheaper")["rows"]
    assert cheaper["loaded_rate"] == 0
    assert cheaper["ttft_p99"] == today["ttft_p99"]


def test_no_bandwidth_is_no_tier(told: Told) -> None:
    today, none = told("--sweep", "tier", "--capacity", "8", "--host-memory", "40", "--host-bandwidth", "0GB/s")["rows"]
    assert none["loaded_rate"] == 0
    assert none["ttft_p99"] == today["ttft_p99"]


def test_without_times_hits_are_counted_and_the_rest_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {
            "input_length": 2048,
            "output_length": 1,
            "hash_ids": [10 * (at % 3), 10 * (at % 3) + 1, 10 * (at % 3) + 2, 100 + at],
        }
        for at in range(24)
    ]
    path = write(tmp_path / "t.jsonl", rows)
    assert run(["what-if", path, "--sweep", "tier", "--capacity", "8", "--host-memory", "40", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    today, tier = found["rows"]
    assert (today["sure"], tier["sure"]) == ("exact", "exact")
    assert tier["loaded_rate"] == pytest.approx(21 / 24)
    assert tier["ttft_p50"] is tier["break_even_tokens"] is tier["bandwidth"] is None
    assert any("no" in note and "arrival time" in note for note in found["notes"])
    assert run(["what-if", path, "--sweep", "pd", "--capacity", "100", *SERVED]) == 2
    assert "arrival times" in capsys.readouterr().err


def test_rows_of_splits(told: Told) -> None:
    found = told("--sweep", "pd", "--replicas", "3", "--link-bandwidth", "50GB/s", "--slo", "ttft=1s,tpot=100ms")
    mixed, *splits = found["rows"]
    assert (mixed["replicas"], mixed["prefill_replicas"], mixed["transfer_bytes"]) == (3, None, None)
    assert [(row["prefill_replicas"], row["decode_replicas"]) for row in splits] == [(1, 2), (2, 1)]
    for row in splits:
        assert row["replicas"] == 3
        assert row["bandwidth"] == 50e9
        assert 0 < row["transfer_bytes"] <= 24 * 2048 * 131_072
        assert row["transfer_p99"] >= row["transfer_p50"] > 0
        assert row["goodput"] > 0
    assert mixed["goodput"] > 0


def test_the_link_is_the_accelerators_own_where_nobody_says_another(told: Told) -> None:
    assert told("--sweep", "pd", "--replicas", "2")["rows"][1]["bandwidth"] == 450e9
    assert told("--sweep", "pd", "--replicas", "2", "--link-bandwidth", "unlimited")["rows"][1]["bandwidth"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sweep", "tier"), "unlimited"),
        (("--sweep", "tier", "--capacity", "8", "--host-memory", "lots"), "--host-memory: `lots` is not a capacity"),
        (("--sweep", "tier", "--capacity", "8", "--host-memory", "-1x"), "--host-memory: "),
        (("--sweep", "tier", "--capacity", "8", "--host-bandwidth", "14"), "--host-bandwidth: `14` is not a bandwidth"),
        (("--sweep", "tier", "--capacity", "8", "--disk-bandwidth", "1GB/s,2GB/s"), "--disk-bandwidth is one amount"),
        (("--sweep", "tier", "--capacity", "8", "--tier-latency", "soon"), "--tier-latency: `soon` is not a duration"),
        (("--sweep", "tier", "--capacity", "8", "--rules", "block-lru"), "follows vllm's rules"),
        (("--sweep", "tier", "--capacity", "2"), "the whole cache has 2"),
        (("--sweep", "capacity", "--host-memory", "2x"), "--host-memory is for --sweep tier, not capacity"),
        (("--sweep", "tier", "--link-bandwidth", "1GB/s"), "--link-bandwidth is for --sweep pd, not tier"),
        (("--sweep", "pd", "--replicas", "1"), "cannot be split"),
        (("--sweep", "pd", "--replicas", "0"), "--replicas"),
        (("--sweep", "tier", "--replicas", "2..4"), "--replicas takes one value in this sweep, not 3"),
        (("--sweep", "pd", "--replicas", "1..4"), "a fleet of 1 cannot be split"),
        (("--sweep", "pd", "--link-bandwidth", "0GB/s"), "the link between prefill and decode replicas moves nothing"),
        (("--sweep", "pd", "--routing", "oracle"), "oracle is an upper bound"),
        (("--sweep", "pd", "--routing", "nobody"), "unknown router"),
    ],
)
def test_what_is_refused(
    trace: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert run(["what-if", trace, *arguments]) == 2
    captured = capsys.readouterr()
    assert message in " ".join(captured.err.split())
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("axis", ["tier", "pd"])
def test_a_report_of_any_width(trace: str, capsys: pytest.CaptureFixture[str], width: int, axis: str) -> None:
    given = ("--capacity", "8", "--tier-latency", "20ms") if axis == "tier" else ("--replicas", "3")
    assert run(["what-if", trace, *SERVED, "--sweep", axis, *given, "--width", str(width)]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= width
    assert "TTFT p99" in out
    if axis == "tier":
        assert "tokens on" in " ".join(out.split())
    else:
        assert "a transfer takes" in " ".join(out.split())


SMALL = ("--capacity", "8", "--replicas", "3")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--sweep", "tier", "--capacity", "8"),
        ("--sweep", "pd", "--replicas", "3"),
        ("--sweep", "routing", *SMALL),
        ("--sweep", "replicas", "--capacity", "8"),
        ("--use-timestamps", "--slo", "ttft=1s", *SMALL),
        ("--kv-cache-dtype", "bf16", "--capacity", "8"),
    ],
    ids=["tier", "pd", "routing", "replicas", "clock", "table"],
)
def test_the_narrowest_report(
    trace: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(trace).parent)
    for width in (20, 23):
        assert run(["what-if", "t.jsonl", *SERVED, *arguments, "--width", str(width)]) == 0
        out = capsys.readouterr().out
        assert [line for line in out.splitlines() if widest(line) > width] == []


def test_fleets_of_several_sizes_are_a_map(trace: str, told: Told, tmp_path: Path) -> None:
    several = told("--sweep", "pd", "--replicas", "2..4")
    pools = [(row["replicas"], row["prefill_replicas"], row["decode_replicas"]) for row in several["rows"]]
    assert pools == [
        (2, None, None), (2, 1, 1), (3, None, None), (3, 1, 2), (3, 2, 1), (4, None, None), (4, 1, 3), (4, 2, 2),
        (4, 3, 1),
    ]  # fmt: skip
    assert several["rows"][2:5] == told("--sweep", "pd", "--replicas", "3")["rows"]
    page = tmp_path / "plan.html"
    assert run(["what-if", trace, *SERVED, "--sweep", "pd", "--replicas", "2..4", "-q", "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "down: replicas for prefill; across: for decode" in text
    assert "Of 4 replicas: " in text
