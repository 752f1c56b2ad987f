"""Lines that collectors of logs wrote down: whole, cut into pieces, with a front, between lines of other kinds."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.workload.logs.reading_made import Read, lines, refusal

STARTED = "INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)"


def body(number: int, words: int = 3) -> dict[str, Any]:
    said = " ".join(random.Random(number).choices(("shelf", "loan", "ünder", 'a "quote"', "tab\t"), k=words))
    return {"model": "m", "messages": [{"role": "user", "content": f"{number} {said}"}]}


def docker(line: str, number: int, size: int = 1 << 14) -> str:
    """As Docker's driver writes a line: pieces of 16 KiB, the last one with the end of the line."""
    data = line.encode()
    pieces = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
    texts = [piece.decode(errors="ignore") for piece in pieces]
    texts[-1] += "\n"
    time = f"2026-02-02T02:40:{number:02d}.5Z"
    return "".join(json.dumps({"log": text, "stream": "stdout", "time": time}) + "\n" for text in texts)


def cri(line: str, number: int, size: int = 1 << 14) -> str:
    pieces = [line[at : at + size] for at in range(0, len(line), size)] or [""]
    front = f"2026-02-02T02:40:{number:02d}.500000000Z stdout"
    return "".join(f"{front} {'F' if piece is pieces[-1] else 'P'} {piece}\n" for piece in pieces)


def logger(line: str, number: int) -> str:
    return f"2026-02-02 02:40:{number:02d},500 INFO llm.client - {line}\n"


def syslog(line: str, number: int) -> str:
    return f"2026-02-02T02:40:{number:02d}.500Z host gateway[17]: {line}\n"


def test_lines_with_a_front_are_read_and_others_counted(tmp_path: Path) -> None:
    for wrap in [docker, cri, logger, syslog]:
        path = tmp_path / "app.log"
        said = [body(number, 9_000 if number == 2 and wrap in (docker, cri) else 3) for number in range(4)]
        text = wrap(STARTED, 0) + "".join(wrap(json.dumps(each), at) for at, each in enumerate(said))
        text += wrap('{"level": "info", "ts": 1, "msg": "done"}', 9)
        path.write_text(text + (wrap("", 9) if wrap in (docker, cri) else ""))
        read = Read(path)
        assert read.of("messages") == [[["user", each["messages"][0]["content"]]] for each in said]
        assert [round(time, 1) for time in read.of("time")] == [1769999999 + at + 1.5 for at in range(4)]
        assert read.left_out == {"other line": 2}


def test_streams_that_were_cut_at_once_are_told_apart(tmp_path: Path) -> None:
    long, error = json.dumps(body(1, 9_000)), "E" * 40_000
    pieces = cri(long, 1).splitlines(keepends=True)
    others = cri(error, 1).replace("stdout", "stderr").splitlines(keepends=True)
    mixed = [each for pair in zip(pieces, others, strict=False) for each in pair] + pieces[len(others) :]
    path = tmp_path / "pod.log"
    path.write_text("".join(mixed))
    read = Read(path)
    assert [row["messages"][0][1] for row in read.rows] == [body(1, 9_000)["messages"][0]["content"]]
    assert read.left_out == {"other line": 1}


@pytest.mark.parametrize("wrap", [docker, cri])
def test_the_log_of_a_server_in_a_container(tmp_path: Path, wrap: Callable[[str, int], str]) -> None:
    prompts = ["a " * 20_000, "b"]
    said = "".join(
        wrap(f"INFO 02-02 02:40:0{at} [logger.py:43] Received request cmpl-{at}-0: prompt: {prompt!r}, params: S()", at)
        for at, prompt in enumerate(prompts)
    )
    path = tmp_path / "vllm.log"
    path.write_text(wrap(STARTED, 0) + said)
    read = Read(path)
    assert read.of("text") == prompts
    assert [row["id"] for row in read.rows] == ["cmpl-0-0", "cmpl-1-0"]
    assert read.of("time") == [1770000000.5, 1770000001.5]  # of the container's clock, which knows year and zone


def test_records_of_collectors(tmp_path: Path) -> None:
    for envelope in [
        lambda text: {"timestamp": "2026-02-02T02:40:00Z", "line": text, "labels": {"app": "gw"}},  # logcli, Loki
        lambda text: {"@timestamp": "2026-02-02T02:40:00Z", "message": text, "ecs": {"version": "8"}},  # Filebeat
        lambda text: {"date": 1770000000.0, "log": text, "kubernetes": {"pod_name": "gw"}},  # Fluent Bit
        lambda text: {"__REALTIME_TIMESTAMP": "1770000000000000", "MESSAGE": text, "_PID": "3"},  # journalctl -o json
        lambda text: {"textPayload": text, "timestamp": "2026-02-02T02:40:00Z", "resource": {"type": "k8s"}},
        lambda text: {"timestamp": 1770000000000, "message": text, "ingestionTime": 1770000000001},  # CloudWatch
    ]:
        path = lines(tmp_path / "export.jsonl", *map(envelope, (STARTED, json.dumps(body(1)), '{"level": "info"}')))
        if "ingestionTime" in envelope(""):
            path.write_text(json.dumps({"events": [json.loads(line) for line in path.read_text().splitlines()]}))
        read = Read(path)
        assert [row["messages"] for row in read.rows] == [[["user", body(1)["messages"][0]["content"]]]]
        assert read.of("time") == [1770000000.0]
        assert read.left_out == {"other line": 2}


def test_a_piece_that_is_missing_is_a_bad_record_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    pieces = docker(json.dumps(body(1, 9_000)), 1).splitlines(keepends=True)
    path.write_text(docker(STARTED, 0) + "".join(pieces[:-1]))
    error = refusal(path)
    assert "cut off" in error.message
    assert error.place is not None
    assert error.place.line == 2
    assert "shelf" not in f"{error}"


def test_lines_without_any_request_are_no_workload(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text(docker(STARTED, 0) + docker("ready", 1))
    error = refusal(path)
    assert error.message == "it contains no model request; left out: 2 other lines"
    assert "--map" in (error.hint or "")


def test_many_logs_of_containers_are_read_side_by_side(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.log" for number in range(70)]
    for number, path in enumerate(paths):
        path.write_text(docker(json.dumps(body(number, 4_000)), 1) + docker(STARTED, 2))
    read = Read(*paths)
    assert [row["messages"][0][1].split()[0] for row in read.rows] == [str(number) for number in range(70)]
    assert read.left_out == {"other line": 70}
