"""Anonymised traces for benchmarks: their fields, and that a reader of them finds the same hits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.engine.blocks.hashing import NATIVE
from tests.profiler.test_tracing import START, chats, trace, what_if, write

FORMATS = ("mooncake", "bailian")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def export(capsys: pytest.CaptureFixture[str], format_: str, *arguments: str) -> list[dict[str, Any]]:
    path = Path(arguments[-1])
    found = trace(capsys, *arguments[:-1], "--export", format_, "-o", str(path))["replay"]
    rows = lines(path)
    assert (found["format"], found["requests"]) == (format_, len(rows))
    assert found["distinct_blocks"] == len({each for row in rows for each in row["hash_ids"]})
    return rows


def test_the_fields_of_mooncake(tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str) -> None:
    write(tmp_path / "a.jsonl", [{"timestamp": START + 5.25, "prompt": "x" * 20, "completion": "yes"}])
    write(
        tmp_path / "b.jsonl",
        [{"timestamp": START + 5, "prompt": "x" * 17}, {"timestamp": START + 6, "prompt": "x" * 17 + "zzz"}],
    )
    logs = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    rows = export(capsys, "mooncake", *logs, "-t", bytes_json, "--block-size", "8", str(tmp_path / "o.jsonl"))
    assert rows == [
        {"timestamp": 0, "input_length": 17, "output_length": 1, "hash_ids": [0, 1, 2]},
        {"timestamp": 250, "input_length": 20, "output_length": 3, "hash_ids": [0, 1, 3]},
        {"timestamp": 1000, "input_length": 20, "output_length": 1, "hash_ids": [0, 1, 4]},
    ]
    assert [list(row) for row in rows] == [["timestamp", "input_length", "output_length", "hash_ids"]] * 3


def test_the_fields_of_bailian(tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str) -> None:
    said = [
        {"timestamp": START, "session_id": "alice", "prompt": "x" * 33},
        {"timestamp": START + 1.5, "session_id": "bob", "cache_salt": "b", "prompt": "x" * 33},
        {"timestamp": START + 61.114, "session_id": "alice", "prompt": "x" * 40},
    ]
    log = write(tmp_path / "a.jsonl", said)
    rows = export(capsys, "bailian", str(log), "-t", bytes_json, str(tmp_path / "o.jsonl"))
    assert rows[0] == {
        "chat_id": 1,
        "parent_chat_id": -1,
        "timestamp": 0.0,
        "input_length": 33,
        "output_length": 1,
        "type": "text",
        "turn": 1,
        "hash_ids": [0, 1, 2],
    }
    assert [row["hash_ids"] for row in rows[1:]] == [[3, 4, 5], [0, 1, 6]]
    assert [(row["chat_id"], row["parent_chat_id"], row["turn"]) for row in rows[1:]] == [(2, -1, 1), (3, 1, 2)]
    assert [row["timestamp"] for row in rows] == [0.0, 1.5, 61.114]
    assert "alice" not in (tmp_path / "o.jsonl").read_text()


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("salts", [False, True])
def test_a_reader_of_the_export_finds_the_same_hits(
    format_: str, salts: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    logs = tmp_path / "logs"
    said = [{**row, "response": {}} for row in chats(4, salts=salts, answers=False)]
    for number in range(3):
        write(logs / f"{number}.jsonl", said[number::3])
    size = {"mooncake": "64", "bailian": "16"}[format_]
    export(capsys, format_, str(logs), "-t", bytes_json, *_sized(format_, size), str(tmp_path / "o.jsonl"))
    reading = ["--trace-block-size", size] if format_ == "mooncake" else []
    for sweep in (["--sweep", "capacity", "--capacities", "0,3,50,300,100000"], ["--sweep", "ttl"]):
        of_export = what_if(capsys, str(tmp_path / "o.jsonl"), *reading, *sweep)
        of_logs = what_if(capsys, str(logs), "-t", bytes_json, "--block-size", size, *sweep)
        assert [row["hit_blocks"] for row in of_export["rows"]] == [row["hit_blocks"] for row in of_logs["rows"]]
        assert of_export["rows"][-1]["hit_blocks"] > 0


def _sized(format_: str, size: str) -> list[str]:
    return ["--block-size", size] if format_ == "mooncake" else []


@pytest.mark.parametrize("format_", FORMATS)
def test_the_export_of_traces_is_that_of_their_logs_as_far_as_blocks_are_full(
    format_: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    log = write(tmp_path / "a.jsonl", chats(6, answers=False))
    trace(capsys, str(log), "-o", str(tmp_path / "blocks"), "-t", bytes_json)
    sized = _sized(format_, "64")
    of_log = export(capsys, format_, str(log), "-t", bytes_json, *sized, str(tmp_path / "l.jsonl"))
    of_trace = export(capsys, format_, str(tmp_path / "blocks"), *sized, str(tmp_path / "t.jsonl"))
    size = 64 if sized else 16
    forth: dict[int, int] = {}
    for one, other in zip(of_log, of_trace, strict=True):
        full = one["input_length"] // size
        assert len(one["hash_ids"]) == len(other["hash_ids"]) == -(-one["input_length"] // size)
        for a, b in zip(one["hash_ids"][:full], other["hash_ids"][:full], strict=True):
            assert forth.setdefault(a, b) == b
    assert len(set(forth.values())) == len(forth)


def test_the_export_of_a_trace_that_names_its_blocks_is_that_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = [
        {"timestamp": 1000 * at, "input_length": 1100 + at, "output_length": 3, "hash_ids": [7, 8 + at % 3, 100 + at]}
        for at in range(20)
    ]
    log = write(tmp_path / "a.jsonl", said)
    rows = export(capsys, "mooncake", str(log), str(tmp_path / "o.jsonl"))
    numbers: dict[int, int] = {}
    for row in said:
        row["hash_ids"] = [numbers.setdefault(each, len(numbers)) for each in row["hash_ids"]]
    assert rows == said


@pytest.mark.parametrize(
    ("rows", "flags", "told"),
    [
        ([{"prompt": "hi"}], ["--export", "mooncake"], "needs arrival times"),
        ([{"prompt": "hi", "timestamp": 1}], ["--export", "bailian", "--block-size", "32"], "blocks of 16 tokens"),
        ([{"timestamp": 1, "input_length": 5, "hash_ids": [1]}], ["--export", "bailian"], "do not fit a trace"),
        ([{"nothing": 1}], ["--export", "mooncake"], "no prompt found"),
    ],
)
def test_what_cannot_be_replayed_is_refused_and_leaves_no_file(
    rows: list[dict[str, Any]],
    flags: list[str],
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    bytes_json: str,
) -> None:
    log = write(tmp_path / "a.jsonl", rows)
    out = tmp_path / "out" / "o.jsonl"
    out.parent.mkdir()
    assert run(["trace", str(log), *flags, "-o", str(out), "-t", bytes_json, "-q"]) == 2
    assert told in capsys.readouterr().err
    assert list(out.parent.iterdir()) == []


def test_ids_of_rows_are_the_first_half_of_the_engines_hashes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    import numpy as np
    from pyarrow import parquet

    log = write(tmp_path / "a.jsonl", [{"token_ids": list(range(40)), "timestamp": START}])
    trace(capsys, str(log), "-o", str(tmp_path / "blocks"), "-t", bytes_json)
    row = parquet.read_table(tmp_path / "blocks").to_pylist()[0]
    hashes = NATIVE.chain(np.arange(32, dtype=np.int32), 16, None, None, None)
    assert row["hash_ids"] == [int.from_bytes(each[:8], "little", signed=True) for each in hashes]
    assert (row["input_length"], row["output_length"], row["answer_ids"]) == (40, 1, [])


@pytest.mark.parametrize("given", ["a.jsonl", "."])
def test_a_log_is_not_overwritten_by_its_own_trace(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, bytes_json: str
) -> None:
    monkeypatch.chdir(tmp_path)
    log = write(tmp_path / "a.jsonl", chats(1))
    before = log.read_bytes()
    assert run(["trace", given, "--export", "mooncake", "-o", str(log), "-t", bytes_json, "-q"]) == 2
    assert "a.jsonl is an input, too" in capsys.readouterr().err
    assert log.read_bytes() == before


def test_times_of_two_clocks_are_no_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str) -> None:
    path = tmp_path / "o.jsonl"
    log = write(tmp_path / "a.jsonl", [{"timestamp": at, "prompt": "x"} for at in (5.0, 6.0, START)])
    assert run(["trace", str(log), "--export", "mooncake", "-o", str(path), "-t", bytes_json, "-q"]) == 2
    told = capsys.readouterr().err
    assert "a.jsonl:3:1: this request comes" in told
    assert "their clocks differ" in told
    assert not path.exists()
