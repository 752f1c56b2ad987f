"""The table of `kvtool what-if` on the clock: rows with waiting, accelerators for an objective, routers and replicas."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from tests.files import widest


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["what-if", *arguments, "--no-config", "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def trace(path: Path, *, sessions: bool = False, every: int = 12) -> str:
    """Prompts that grow out of a few others, faster than one replica computes them."""
    rng = random.Random(7)
    rows = []
    for at in range(80):
        of = rng.randrange(6)
        chain = [
            *(1000 * of + each for each in range(6)),
            *(100_000 + 10 * at + each for each in range(rng.randint(1, 4))),
        ]
        row: dict[str, Any] = {
            "timestamp": every * at,
            "input_length": 512 * len(chain) - rng.choice((0, 100)),
            "output_length": rng.choice((1, 20, 60)),
            "hash_ids": chain,
        }
        if sessions:
            row["session_id"] = f"s{of}"
        rows.append(json.dumps(row))
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def test_every_row_has_its_times_and_its_command_gives_them_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [trace(tmp_path / "t.jsonl"), "--capacity", "60", "--replicas", "2", "--slo", "ttft=400ms"]
    found = told(capsys, *arguments)
    kinds = {row["kind"] for row in found["rows"]}
    assert {"today", "capacity", "kv-cache-dtype", "replicas", "routing", "policy", "tier", "pd"} <= kinds
    assert found["rows"][0]["replicas"] == 2
    for row in found["rows"]:
        _, _, *words = shlex.split(row["command"])
        if row["kind"] in ("tier", "pd"):
            continue
        again = told(capsys, *words)["rows"][0]
        if row["kind"] == "policy":
            assert again["hit_blocks"] == row["hit_blocks"]
            continue
        assert row["sure"] == ("bound" if row["change"] == "unlimited cache" else "predicted")
        for key in (
            "hit_rate", "imbalance", "ttft_p50", "ttft_p99", "tpot_p99", "goodput", "gpus", "computed_tokens",
            "routing",
        ):  # fmt: skip
            assert again[key] == row[key], (row["change"], key)


TIMES = ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "imbalance", "goodput", "within_slo")


@pytest.mark.parametrize(
    "more",
    [
        ["--replicas", "3"],
        ["--replicas", "2", "--slo", "ttft=400ms,tpot=20ms", "--routing", "least-loaded"],
        ["--replicas", "2", "--routing", "llm-d,dynamo", "--router-view", "routed", "--speedup", "2"],
        ["--use-timestamps"],
    ],
)
def test_the_sweeps_of_tiers_and_split_fleets_give_their_rows_again(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, trace(tmp_path / "t.jsonl"), "--capacity", "40", *more)
    rows = {row["kind"]: row for row in found["rows"]}
    assert ("pd" in rows) == ("--replicas" in more)
    for kind, fields in (
        ("tier", ("host_blocks", "bandwidth", "loaded_rate", "break_even_tokens")),
        ("pd", ("prefill_replicas", "decode_replicas", "bandwidth", "transfer_p50", "transfer_p99", "transfer_bytes")),
    ):
        if kind not in rows:
            continue
        row = rows[kind]
        assert (row["sure"], row["more_hardware"]) == ("predicted", kind == "tier")
        swept = told(capsys, *shlex.split(row["command"])[2:])["rows"]
        assert {each["axis"] for each in swept} == {kind}
        (again,) = (each for each in swept if all(each[name] == row[name] for name in fields[:2]))
        for name in (*TIMES, *fields, "replicas", "hit_blocks", "references", "computed_tokens", "capacity"):
            assert again[name] == row[name], (kind, name)
        today = rows["today"]
        assert all(swept[0][name] == today[name] for name in (*TIMES, "hit_blocks", "computed_tokens"))


def test_the_split_of_the_table_is_the_best_of_its_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [trace(tmp_path / "t.jsonl"), "--capacity", "60", "--replicas", "4", "--slo", "ttft=400ms,tpot=30ms"]
    (row,) = (each for each in told(capsys, *arguments)["rows"] if each["kind"] == "pd")
    splits = told(capsys, *shlex.split(row["command"])[2:])["rows"][1:]
    assert len(splits) == 3
    assert row["goodput"] == max(each["goodput"] for each in splits)
    assert row["gpus"] is None


def test_a_tier_is_sought_a_fleet_for_as_others_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, trace(tmp_path / "t.jsonl"), "--capacity", "60", "--replicas", "2", "--slo", "ttft=400ms")
    (row,) = (each for each in found["rows"] if each["kind"] == "tier")
    arguments = shlex.split(row["command"])[2:]
    for replicas, meets in ((row["gpus"] - 1, False), (row["gpus"], True)):
        asked = [*arguments[: arguments.index("--replicas")], *arguments[arguments.index("--replicas") + 2 :]]
        swept = told(capsys, *asked, "--replicas", str(replicas))["rows"]
        assert (swept[1]["within_slo"] >= 0.9) == meets


def test_rows_that_no_sweep_gives_again_name_no_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, trace(tmp_path / "t.jsonl"), "--capacity", "9", "--replicas", "2")
    assert "longer than today's cache" in " ".join(found["notes"])
    rows = {row["kind"]: row for row in found["rows"]}
    assert rows["tier"]["command"] is rows["pd"]["command"] is None


def test_what_fleets_cannot_be_built_of_is_missing_with_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path / "t.jsonl")

    def lack(*more: str) -> dict[str, str]:
        return {row["change"]: row["why"] for row in told(capsys, path, *more)["missing"]}

    unlimited = lack("--use-timestamps")
    assert "cache size is unknown" in unlimited["host tier"]
    assert "--replicas N" in unlimited["prefill/decode split"]
    off = lack("--use-timestamps", "--capacity", "60", "--no-enable-prefix-caching")
    assert "prefix caching is off" in off["host tier"]
    for more in ([], ["--rules", "block-lru"]):
        assert any("tiers" in change for change in lack("--capacity", "60", *more))


def test_rows_stand_by_accelerators_then_by_waiting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path / "t.jsonl")
    for more in ([], ["--slo", "ttft=400ms"]):
        rows = told(capsys, path, "--capacity", "60", "--use-timestamps", *more)["rows"]
        assert rows[0]["kind"] == "today"
        keys = [(row["gpus"] or 10**6, row["ttft_p99"]) for row in rows[1:] if row["sure"] != "bound"]
        assert keys == sorted(keys)
        bounds = [at for at, row in enumerate(rows) if row["sure"] == "bound"]
        assert bounds == list(range(len(rows) - len(bounds), len(rows)))


def test_a_bound_is_no_row_to_do_and_none_hits_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = told(capsys, trace(tmp_path / "t.jsonl"), "--capacity", "40", "--replicas", "3")["rows"]
    (optimum,) = (row for row in rows if row["kind"] == "policy")
    assert optimum["capacity"] == 3 * 40
    assert all(row["hit_rate"] <= optimum["hit_rate"] for row in rows if row["capacity"] == 40)
    assert optimum["ttft_p99"] is None


def test_without_times_the_table_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        "".join(json.dumps({"input_length": 1024, "output_length": 2, "hash_ids": [1, at]}) + "\n" for at in range(9))
    )
    for more in ([], ["--use-timestamps"], ["--slo", "ttft=1s"], ["--replicas", "2"]):
        found = told(capsys, str(path), "--capacity", "20", *more)
        (lack,) = (row for row in found["missing"] if row["change"].startswith("TTFT"))
        assert lack["why"] == "No request has an arrival time"
        assert {row["ttft_p99"] for row in found["rows"]} == {None}
    timed = trace(tmp_path / "timed.jsonl")
    (lack,) = (row for row in told(capsys, timed)["missing"] if row["change"].startswith("TTFT"))
    assert "--use-timestamps" in lack["why"]


def test_routers_of_sessions_are_tried_where_there_are_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, trace(tmp_path / "t.jsonl"), "--capacity", "60", "--replicas", "2")
    assert "router session-ring" in {row["change"] for row in found["missing"]}
    one = told(capsys, trace(tmp_path / "t.jsonl"), "--capacity", "60", "--use-timestamps")
    assert "--replicas" in {row["change"]: row["why"] for row in one["missing"]}["router"]


def test_fixes_of_prompts_have_times_too(tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str) -> None:
    head = "You are the agent of a shop. Be short and kind, and be right about what it sells. " * 20
    rows = [
        json.dumps(
            {
                "timestamp": f"2026-03-01T10:00:{at:02}.5Z",
                "model": "llama-3.1-8b",
                "messages": [
                    {"role": "system", "content": f"It is 10:{at:02}:00.\n{head}"},
                    {"role": "user", "content": f"question {at}"},
                ],
            }
        )
        for at in range(16)
    ]
    path = tmp_path / "l.jsonl"
    path.write_text("\n".join(rows) + "\n")
    found = told(capsys, str(path), "-t", bytes_json, "--capacity", "900", "--use-timestamps")
    today, *others = found["rows"]
    (fixed,) = (row for row in others if row["kind"] == "prompts")
    assert fixed["ttft_p99"] < today["ttft_p99"]
    assert fixed["hit_rate"] > today["hit_rate"]
    again = told(capsys, *shlex.split(fixed["command"])[2:])["rows"][0]
    assert (again["ttft_p99"], again["hit_rate"]) == (fixed["ttft_p99"], fixed["hit_rate"])


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [trace(tmp_path / "t.jsonl"), "--capacity", "60", "--replicas", "2", "--slo", "ttft=400ms"]
    assert run(["what-if", *arguments, "--no-config", "--width", str(width)]) == 0
    shown = capsys.readouterr().out
    assert "Change first" in shown
    assert "GPUs" in shown
    assert widest(shown) <= width


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--replicas", "0"], "--replicas"),
        (["--routing", "nobody", "--replicas", "2"], "unknown router 'nobody'"),
        (["--routing", "oracle", "--replicas", "2"], "is an upper bound, not a router"),
        (["--slo", "ttft=never"], "--slo"),
    ],
)
def test_what_a_fleet_cannot_be_is_refused(
    arguments: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["what-if", trace(tmp_path / "t.jsonl"), "--no-config", *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_an_objective_that_nobody_meets_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, trace(tmp_path / "t.jsonl"), "--capacity", "60", "--slo", "ttft=0.1ms")
    assert {row["gpus"] for row in found["rows"]} == {None}
    assert any("no fleet" in note for note in found["notes"])
