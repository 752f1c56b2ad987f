"""Block traces of logs: the same requests without their text, whoever makes them, in how many goes ever."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import pickle
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.config.asked_run import RunOptions
from kvtool.errors import KvtoolError
from kvtool.profiler.tracing.trace_file import LogTracer
from kvtool.profiler.tracing.trace_folder import logs_to_trace, trace_options
from kvtool.text.files.part_file import PartFile

pytest.importorskip("pyarrow", reason="block traces are Parquet files")

START = 1_780_000_000


def chats(seed: int, sessions: int = 6, *, answers: bool = True, salts: bool = False) -> list[dict[str, Any]]:
    """Requests of sessions that go on beside each other: each has all that was said before, answers included."""
    rng = random.Random(seed)
    systems = [" ".join(rng.choices(("shelf", "atlas", "loan", "note"), k=90)) for _ in range(3)]
    said = [[{"role": "system", "content": rng.choice(systems)}] for _ in range(sessions)]
    rows = []
    for number in range(5 * sessions):
        at = rng.randrange(sessions)
        said[at].append({"role": "user", "content": " ".join(rng.choices(("what", "where", "when", "why"), k=20))})
        answer = " ".join(rng.choices(("here", "there", "never", "soon"), k=rng.randint(3, 60)))
        row: dict[str, Any] = {"timestamp": START + number / 8, "messages": list(said[at])}
        row["session_id"] = f"s{at}"
        if salts:
            row["cache_salt"] = f"tenant-{at % 3}"
        if answers:
            row["response"] = {"choices": [{"message": {"role": "assistant", "content": answer}}]}
        said[at].append({"role": "assistant", "content": answer})
        rows.append(row)
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def what_if(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["what-if", *arguments, "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    del found["input"]
    for row in found["rows"]:
        del row["command"]  # it names the input, too
    return found


def trace(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["trace", *arguments, "--json", "-q"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe has no path there")
def test_a_log_that_can_be_read_only_once(tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as pipe:  # as a shell's <(zcat log.gz)
        pipe.write(
            "".join(json.dumps({"prompt": f"a prompt of the usual kind {number}"}) + "\n" for number in range(9))
        )
    try:
        found = trace(capsys, f"/dev/fd/{reader}", "-o", str(tmp_path / "blocks"), "-t", bytes_json)
    finally:
        os.close(reader)
    assert [each["requests"] for each in found["traces"]] == [9]


@pytest.mark.parametrize("seed", [1, 2])
def test_plans_of_traces_are_those_of_their_logs(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    rng = random.Random(seed)
    rows = chats(seed, salts=seed == 1, answers=seed < 2)
    parts: list[list[dict[str, Any]]] = [[] for _ in range(4)]
    for row in rows:
        rng.choice(parts).append(row)
    logs, blocks = tmp_path / "logs", tmp_path / "blocks"
    for number, part in enumerate(parts):
        write(logs / f"day-{number % 2}" / f"part-{number}.jsonl", part)
    whole = write(tmp_path / "whole.jsonl", rows)
    trace(capsys, str(logs), "-o", str(blocks), "-t", bytes_json)
    for sweep in (
        ["--sweep", "capacity"],
        ["--sweep", "capacity", "--sample", "0.5"],
        ["--sweep", "ttl"],
        ["--sweep", "block-size"],
        ["--sweep", "policy", "--rules", "block-lru"],
    ):
        of_logs = what_if(capsys, str(logs), "-t", bytes_json, *sweep)
        assert what_if(capsys, str(blocks), *sweep) == of_logs
        if "--sample" not in sweep:
            assert what_if(capsys, str(whole), "-t", bytes_json, *sweep)["rows"] == of_logs["rows"]


@pytest.mark.parametrize(
    "flags",
    [
        *([], ["--use-timestamps"], ["--capacity", "400"], ["--concurrency", "4"], ["--replicas", "2"]),
        *(["--events", "e.jsonl"], ["--rules", "block-lru"], ["--ttl", "3s", "--use-timestamps"]),
        ["--capacity", "60", "--concurrency", "3"],
    ],
)
def test_a_profile_of_traces_hits_what_that_of_the_logs_hits(
    flags: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    bytes_json: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    log = write(tmp_path / "a.jsonl", chats(7))
    trace(capsys, str(log), "-o", str(tmp_path / "blocks"), "-t", bytes_json)

    def totals(*given: str) -> dict[str, Any]:
        assert run(["profile", *given, *flags, "--dry-run", "--json", "-q"]) == 0, capsys.readouterr().err
        found: dict[str, Any] = json.loads(capsys.readouterr().out)["totals"]
        return found

    of_log, of_trace = totals(str(log), "-t", bytes_json), totals(str(tmp_path / "blocks"))
    for name in ("requests", "prompt_tokens", "hit_tokens", "reachable_tokens", "evictions", "preemptions"):
        assert of_trace[name] == of_log[name], name
    assert of_log["hit_tokens"] > 0


def test_traces_of_traces_that_name_blocks_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {
            "timestamp": 500 * at,
            "input_length": 1100,
            "output_length": 3,
            "hash_ids": [1, 2 + at % 3, 2**64 - 1 - at % 5],
        }
        for at in range(40)
    ]
    log = write(tmp_path / "mooncake.jsonl", rows)
    trace(capsys, str(log), "-o", str(tmp_path / "blocks"))
    for rules in ("vllm", "block-lru"):
        of_trace = what_if(capsys, str(tmp_path / "blocks"), "--rules", rules)
        assert of_trace == what_if(capsys, str(log), "--rules", rules)


def test_nothing_of_a_text_or_a_name_is_in_a_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    log = write(tmp_path / "a.jsonl", chats(3, salts=True))
    trace(capsys, str(log), "-o", str(tmp_path / "blocks"), "-t", bytes_json)
    from pyarrow import parquet

    table = parquet.read_table(tmp_path / "blocks" / "a.jsonl.parquet")
    assert {str(column.type) for column in table.schema} <= {
        *("double", "int64", "int32", "int16", "bool", "list<element: int64>"),
    }
    kept = " ".join(map(str, (table.schema.metadata or {}).items()))
    assert "tenant" not in kept
    assert "atlas" not in kept


def test_the_bytes_of_a_trace_are_the_same_in_every_process(tmp_path: Path, bytes_json: str) -> None:
    import subprocess

    log = write(tmp_path / "a.jsonl", chats(5))
    for number in (1, 2):
        subprocess.run(
            [sys.executable, "-m", "kvtool", "trace", str(log), "-o", str(tmp_path / f"b{number}"), "-t", bytes_json],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": str(number)},
        )
    first, second = ((tmp_path / f"b{number}" / "a.jsonl.parquet").read_bytes() for number in (1, 2))
    assert first == second


def test_whoever_traces_a_log_can_be_sent_to_another_process(tmp_path: Path, bytes_json: str) -> None:
    log = write(tmp_path / "a.jsonl", chats(5))
    options = RunOptions(inputs=[str(log)]).over(None)
    (one,) = logs_to_trace([str(log)], str(tmp_path / "blocks"))
    tracer = pickle.loads(pickle.dumps(LogTracer(trace_options(options, offline=True))))
    made = tracer(pickle.loads(pickle.dumps(one)))
    assert (made.requests, made.kept) == (30, False)
    assert pickle.loads(pickle.dumps(tracer(one))).kept


def test_a_log_is_traced_again_only_where_it_or_what_is_asked_has_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    a, b = write(tmp_path / "logs" / "a.jsonl", chats(1)), write(tmp_path / "logs" / "b.jsonl", chats(2))
    asked = [str(a.parent), "-o", str(tmp_path / "blocks"), "-t", bytes_json]
    first = trace(capsys, *asked)
    assert [each["kept"] for each in first["traces"]] == [False, False]
    again = trace(capsys, *asked)
    assert [each["kept"] for each in again["traces"]] == [True, True]
    assert [each["requests"] for each in again["traces"]] == [each["requests"] for each in first["traces"]]
    write(b, chats(9))
    assert [each["kept"] for each in trace(capsys, *asked)["traces"]] == [True, False]
    assert [each["kept"] for each in trace(capsys, *asked, "--block-size", "32")["traces"]] == [False, False]
    (tmp_path / "blocks" / "a.jsonl.parquet").write_bytes(b"PAR1 cut off")
    assert [each["kept"] for each in trace(capsys, *asked, "--block-size", "32")["traces"]] == [False, True]


def test_a_log_that_cannot_be_read_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    logs = tmp_path / "logs"
    write(logs / "a.jsonl", chats(1))
    (logs / "poison.jsonl").write_bytes(b'{"messages": [{"role": "user", "content": "hi"}]}\n{"messages": \n')
    write(logs / "z.jsonl", chats(2))
    asked = [str(logs), "-o", str(tmp_path / "blocks"), "-t", bytes_json]
    found = trace(capsys, *asked, code=2)
    assert [Path(each["log"]).name for each in found["traces"]] == ["a.jsonl", "z.jsonl"]
    assert [Path(each["log"]).name for each in found["failed"]] == ["poison.jsonl"]
    assert sorted(path.name for path in (tmp_path / "blocks").iterdir()) == ["a.jsonl.parquet", "z.jsonl.parquet"]
    assert run(["trace", *asked, "-q"]) == 2
    assert "poison.jsonl:2" in capsys.readouterr().err
    found = trace(capsys, *asked, "--on-bad-line", "skip")
    assert [len(found["traces"]), found["failed"]] == [3, []]
    assert found["traces"][1]["notes"] == ["1 bad record left out"]


def test_a_full_disk_leaves_what_is_whole_and_a_rerun_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvtool.text.files.part_file import PartFile

    logs = tmp_path / "logs"
    for name in "abc":
        write(logs / f"{name}.jsonl", chats(ord(name)))
    asked = ["trace", str(logs), "-o", str(tmp_path / "blocks"), "-t", bytes_json, "-q"]
    put = PartFile.put

    def full(self: PartFile) -> None:
        if "b.jsonl" in self.path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        put(self)

    monkeypatch.setattr(PartFile, "put", full)
    assert run(asked) == 2
    told = capsys.readouterr().err
    assert "No space left on device" in told
    assert "run the same command again to continue" in told
    assert [path.name for path in (tmp_path / "blocks").iterdir()] == ["a.jsonl.parquet"]
    monkeypatch.undo()
    assert [each["kept"] for each in trace(capsys, *asked[1:])["traces"]] == [True, False, False]


def test_a_device_that_is_full_is_told_and_not_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvtool.text.files.atomic_file import AtomicFile
    from kvtool.workload.block_files import block_file

    monkeypatch.setattr(block_file, "_ROWS", 4)
    log = write(tmp_path / "a.jsonl", chats(1))

    def full(self: AtomicFile, data: bytes) -> None:
        self.discard()
        raise KvtoolError(f"cannot write {self.path}: {os.strerror(errno.ENOSPC)}")

    monkeypatch.setattr(AtomicFile, "write", full)
    assert run(["trace", str(log), "-o", str(tmp_path / "blocks"), "-t", bytes_json, "-q"]) == 2
    told = capsys.readouterr().err
    assert "No space left on device" in told
    assert "Traceback" not in told
    assert list((tmp_path / "blocks").iterdir()) == []


def test_traces_lie_in_their_folder_as_the_logs_do(tmp_path: Path) -> None:
    for name in ("a/x.jsonl", "a/y.jsonl", "b/x.jsonl", "out/old.parquet"):
        write(tmp_path / name, [{"prompt": "hi"}])

    def targets(*names: str) -> list[str]:
        logs = logs_to_trace([str(tmp_path / name) for name in names], str(tmp_path / "out"))
        return [os.path.relpath(log.target, tmp_path / "out") for log in logs]

    assert targets("a/x.jsonl", "a/y.jsonl") == ["x.jsonl.parquet", "y.jsonl.parquet"]
    assert targets("a/x.jsonl", "b/x.jsonl") == ["a/x.jsonl.parquet", "b/x.jsonl.parquet"]
    assert targets(".") == ["a/x.jsonl.parquet", "a/y.jsonl.parquet", "b/x.jsonl.parquet"]
    assert targets("*/x.jsonl") == ["a/x.jsonl.parquet", "b/x.jsonl.parquet"]
    with pytest.raises(KvtoolError, match="both become"):
        targets("a", "b")


def test_without_pyarrow_the_command_that_brings_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    log = write(tmp_path / "a.jsonl", chats(1))
    assert run(["trace", str(log), "-o", str(tmp_path / "blocks")]) == 4
    assert "pip install 'kvtool[parquet]'" in capsys.readouterr().err


def test_a_block_trace_that_was_changed_by_hand_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    log = write(tmp_path / "a.jsonl", chats(1, 2))
    trace(capsys, str(log), "-o", str(tmp_path / "blocks"), "-t", bytes_json)
    path = tmp_path / "blocks" / "a.jsonl.parquet"
    table = parquet.read_table(path)
    kept = parquet.read_metadata(path).metadata
    lengths = pa.array([length + 100 for length in table["input_length"].to_pylist()], pa.int64())
    changed = table.set_column(7, "input_length", lengths)
    for each in (changed, table.drop_columns(["weak"])):
        parquet.write_table(each.replace_schema_metadata({b"kvtool": kept[b"kvtool"]}), path)
        assert run(["what-if", str(path)]) == 2
        told = capsys.readouterr().err
        assert "a.jsonl.parquet" in told
        assert "Traceback" not in told


def test_a_log_that_lies_where_its_trace_would_go_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    log = write(tmp_path / "a.jsonl", chats(1))
    other = write(tmp_path / "logs" / "b.jsonl", chats(2))
    for asked in ([str(log)], [str(other), str(log)]):
        assert run(["trace", *asked, "-o", str(tmp_path), "-t", bytes_json, "-q"]) == 2
        assert f"it lies in {tmp_path}, where the traces go" in " ".join(capsys.readouterr().err.split())
    assert run(["trace", str(other.parent), "-o", str(tmp_path), "-t", bytes_json, "-q"]) == 2
    assert "all of its logs lie in" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*.parquet")) == []


def test_a_damaged_trace_among_others_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    blocks = tmp_path / "blocks"
    logs = [str(write(tmp_path / f"{name}.jsonl", chats(ord(name)))) for name in "ab"]
    trace(capsys, *logs, "-o", str(blocks), "-t", bytes_json)
    damaged = blocks / "b.jsonl.parquet"
    damaged.write_bytes(damaged.read_bytes()[:100] + b"\xff" * 300 + damaged.read_bytes()[400:])
    assert run(["what-if", str(blocks), "--sweep", "capacity", "-q"]) == 2
    assert "b.jsonl.parquet: a Parquet file is damaged" in capsys.readouterr().err


def test_a_log_whose_name_is_no_text_is_traced_and_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    log = tmp_path / os.fsdecode(b"bad-\xff\xfe.jsonl")
    try:
        write(log, chats(1))
    except OSError:
        pytest.skip("names are UTF-8 on this file system")
    asked = [str(log), "-o", str(tmp_path / "blocks"), "-t", bytes_json]
    assert [each["kept"] for each in trace(capsys, *asked)["traces"]] == [False]
    assert [each["kept"] for each in trace(capsys, *asked)["traces"]] == [True]
    assert run(["profile", str(tmp_path / "blocks"), "--dry-run", "--offline", "-q"]) == 0


def test_what_ended_processes_were_at_is_gone_behind_the_last_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    asked = [str(write(tmp_path / "a.jsonl", chats(1))), "-o", str(tmp_path / "blocks"), "-t", bytes_json]
    trace(capsys, *asked)
    ended = multiprocessing.get_context("fork").Process(target=_die, args=(tmp_path / "blocks" / "b.parquet",))
    ended.start()
    ended.join()
    assert len(list((tmp_path / "blocks").iterdir())) == 2
    assert [each["kept"] for each in trace(capsys, *asked)["traces"]] == [True]
    assert [path.name for path in (tmp_path / "blocks").iterdir()] == ["a.jsonl.parquet"]


def _die(target: Path) -> None:
    """In another process: end in the middle of a file."""
    part = PartFile(target)
    part.file.write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
