"""`kvtool trace --jobs N`: the same traces byte for byte; a log that nobody survives is named, and what was written is kept."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.profiler.tracing import trace_folder
from kvtool.profiler.tracing.trace_file import LogToTrace, TracedFile
from kvtool.workload.block_files.block_file import NotWrittenError
from kvtool.workload.tasks import process_pool
from kvtool.workload.tasks.task_options import TaskOptions

pytest.importorskip("pyarrow", reason="block traces are Parquet files")
linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")

Traced = trace_folder._Tracing
CALL = Traced.__call__


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Seven logs of 20 requests; where other processes are begun, they are copies of this one, so that changes to it hold there."""
    monkeypatch.setattr(process_pool, "can_fork", lambda: sys.platform == "linux")
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(7):
        rows = [
            {"timestamp": 1_780_000_000 + 7 * at + number, "prompt": f"You are kind. {'Be short. ' * 20} {at % 5}"}
            for at in range(20)
        ]
        (folder / f"part-{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def traced(capsys: pytest.CaptureFixture[str], logs: Path, blocks: Path, *flags: str) -> tuple[int, Any, str]:
    code = run(["trace", str(logs), "-o", str(blocks), "--json", "-q", *flags])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else None, err


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_bytes(logs: Path, tmp_path: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    with (logs / "part-3.jsonl").open("a") as log:
        log.write('{"messages": [{"content": 3}]}\n')
    found = []
    for jobs in "123":
        blocks = tmp_path / f"blocks-{jobs}"
        code, document, err = traced(capsys, logs, blocks, "-t", bytes_json, "--jobs", jobs)
        assert code == 2
        told = json.dumps(document).replace(blocks.name, "blocks") + err
        found.append((told, files(blocks)))
    assert found[0] == found[1] == found[2]
    assert len(found[0][1]) == 6


@linux
def test_a_log_that_nobody_survives_is_named_and_the_others_are_traced(
    logs: Path, tmp_path: Path, bytes_json: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def deadly(self: Any, log: LogToTrace) -> object:
        if log.path.endswith("part-2.jsonl"):
            os.kill(os.getpid(), signal.SIGKILL)
        return CALL(self, log)

    monkeypatch.setattr(Traced, "__call__", deadly)
    blocks = tmp_path / "blocks"
    code, document, err = traced(capsys, logs, blocks, "-t", bytes_json, "--jobs", "2")
    assert code == 2
    assert "part-2.jsonl: 3 processes failed on it: signal 9 ended its process" in err
    assert len(document["traces"]) == len(files(blocks)) == 6
    assert [Path(each["log"]).name for each in document["failed"]] == ["part-2.jsonl"]
    monkeypatch.setattr(Traced, "__call__", CALL)
    code, document, _ = traced(capsys, logs, blocks, "-t", bytes_json, "--jobs", "2")
    assert code == 0
    assert [each["kept"] for each in document["traces"]] == [True, True, False, True, True, True, True]


def test_a_full_disk_leaves_what_was_written_and_says_how_to_go_on(
    logs: Path, tmp_path: Path, bytes_json: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Going:
        def map(self, work: Any, items: Any) -> Iterator[TracedFile]:
            yield from map(work, items[:3])
            raise NotWrittenError("the disk is full")

    blocks = tmp_path / "blocks"
    monkeypatch.setattr(TaskOptions, "task_map", lambda *_, **__: Going())
    code, document, err = traced(capsys, logs, blocks, "-t", bytes_json)
    assert (code, document) == (2, None)
    assert "the disk is full" in err
    assert "run the same command again to continue" in err
    assert len(files(blocks)) == 3
    monkeypatch.undo()
    code, document, _ = traced(capsys, logs, blocks, "-t", bytes_json)
    assert code == 0
    assert sum(each["kept"] for each in document["traces"]) == 3


def test_profile_reads_what_hosted_logs_became(
    logs: Path, tmp_path: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their blocks are single tokens, those of the answers included, which no prompt had before."""
    asked: list[dict[str, str]] = []
    rows = []
    for at in range(3):
        asked.append({"role": "user", "content": f"Tell me more of part {at}."})
        usage = {"prompt_tokens": 40 + 40 * at, "completion_tokens": 20}
        rows.append({"timestamp": 1_780_000_000 + at, "model": "gpt-4o", "messages": asked[:], "usage": usage})
        rows[-1]["response"] = {"choices": [{"message": {"role": "assistant", "content": "So it is. " * 4}}]}
        asked.append({"role": "assistant", "content": "So it is. " * 4})
    log, blocks = tmp_path / "hosted.jsonl", tmp_path / "hosted-blocks"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = traced(capsys, log, blocks, "-t", bytes_json)
    assert (code, err) == (0, "")
    for rules in ("vllm", "block-lru"):
        assert run(["profile", str(blocks), "--dry-run", "--json", "-q", "--rules", rules]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["config"]["block_size"] == 1
        assert report["totals"]["hit_tokens"] > 0
    assert run(["profile", str(blocks), "--dry-run", "-q"]) == 0
    assert "the maximum for these blocks; only a log with text" in " ".join(capsys.readouterr().out.split())


def test_traces_that_cannot_be_read_as_one_get_a_command_each(
    logs: Path, tmp_path: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [str(logs / f"part-{number}.jsonl") for number in range(2)]
    last, blocks = logs / "part-1.jsonl", tmp_path / "two"
    for shift, alike in ((0, True), (-1_780_000_000, False)):  # dates, then times from the start of the log
        rows = [json.loads(line) for line in last.read_text().splitlines()]
        last.write_text("".join(json.dumps({**row, "timestamp": row["timestamp"] + shift}) + "\n" for row in rows))
        assert run(["trace", *chosen, "-o", str(blocks), "-t", bytes_json, "-q"]) == 0
        out = "".join(capsys.readouterr().out.split())
        assert (out.count("kvtoolwhat-if"), run(["profile", str(blocks), "--dry-run", "-q"]) == 0) == (2 - alike, alike)
        capsys.readouterr()
