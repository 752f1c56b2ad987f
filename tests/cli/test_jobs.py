"""`--jobs 2`: what is printed is the same, and however a run ends, no process of it is left."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.workload.ahead import child
from tests.conftest import some
from tests.processes import children, is_gone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one process only")

PROGRAM = """
import sys, time
from kvtool.text.terminal.progress import Progress
from kvtool.__main__ import main
advance = Progress.advance
def slowly(self, count=1):
    advance(self, count)
    if count and self.done == 5:
        print("ready", file=sys.stderr, flush=True)
        time.sleep(30)
Progress.advance = slowly
sys.argv[0] = "kvtool"
main()
"""


def chat_log(path: Path, seed: int, requests: int = 24) -> str:
    """Conversations of two services, mixed; one has a number in front. Some are recorded whole, some are dialogues."""
    rng = random.Random(seed)
    words = [
        "parcel", "order", "refund", "late", "please", "thanks", "invoice", "address", "number", "today", "tomorrow",
        "maybe",
    ]  # fmt: skip

    def text(count: int) -> str:
        return "\n".join(" ".join(rng.choices(words, k=9)) for _ in range(count))

    rules = {"shop": text(8), "bank": text(8)}
    history: dict[int, list[dict[str, str]]] = {}
    with path.open("w", encoding="utf-8") as file:
        for number in range(requests):
            talk = rng.randrange(6)
            service = "shop" if talk % 2 else "bank"
            turns = history.setdefault(talk, [])
            turns.append({"role": "user", "content": text(2)})
            front = f"Request {number}.\n" if service == "bank" else ""
            body: dict[str, object] = {"messages": [{"role": "system", "content": front + rules[service]}, *turns]}
            turns.append({"role": "assistant", "content": text(1)})
            if talk == 5:
                body = {"messages": [{"role": "system", "content": rules[service]}, *turns]}
            if talk == 4:
                body = {"turns": [text(1), text(1)]}
            file.write(json.dumps({"id": f"r{number}", "session_id": str(talk), "timestamp": number, **body}) + "\n")
    return str(path)


@pytest.fixture
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork whatever other tests have imported."""
    monkeypatch.setattr(child, "can_fork", lambda: True)


@pytest.mark.parametrize(
    ("seed", "flags"),
    some(
        [
            (1, []),
            (3, ["--no-advice", "--by", "session", "--per-request"]),
            (5, ["--provider", "anthropic"]),
            (6, ["--replicas", "2", "--requests", "17", "--no-advice"]),
            (9, ["--max-model-len", "900", "--no-advice"]),
            (2, ["--capacity", "60", "--no-advice"]),
            (4, ["--concurrency", "3", "--no-advice"]),
            (7, ["--rules", "block-lru", "--no-advice"]),
            (8, ["--use-timestamps", "--no-advice"]),
        ],
        5,
    ),
)
def test_the_same_report(
    seed: int, flags: list[str], tmp_path: Path, bytes_json: str, forking: None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = chat_log(tmp_path / "log.jsonl", seed)
    printed = []
    written = tmp_path / "report.json"
    for jobs in "12":
        code = run(["profile", path, "--dry-run", "-t", bytes_json, "--jobs", jobs, "-q", "-o", str(written), *flags])
        out, err = capsys.readouterr()
        assert (code, err) == (0, "")
        printed.append((out + written.read_text(encoding="utf-8")).replace(f"--jobs {jobs}", "--jobs N"))
    assert printed[0] == printed[1]


@pytest.mark.parametrize("flags", [[], ["--on-bad-line", "skip"]])
def test_the_same_words_for_a_bad_record(
    flags: list[str], tmp_path: Path, bytes_json: str, forking: None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(chat_log(tmp_path / "log.jsonl", 1))
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[17] = '{"messages": [{"content": 3}]}'
    path.write_text("\n".join(lines), encoding="utf-8")
    printed = []
    for jobs in "12":
        code = run(["profile", str(path), "--dry-run", "-t", bytes_json, "--json", "--jobs", jobs, *flags])
        printed.append((code, *capsys.readouterr()))
    assert printed[0] == printed[1]
    assert printed[0][0] == (0 if flags else 2)


def test_less_than_one_process_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "log.jsonl", "--jobs", "0"]) == 2
    assert "--jobs must be at least 1, not 0" in capsys.readouterr().err


def running(folder: Path, tokenizer: str) -> tuple[subprocess.Popen[str], int]:
    """A profile that has done five requests and stands still, and the process that reads its log."""
    path = chat_log(folder / "log.jsonl", 1, requests=600)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "profile", path, "-t", tokenizer, "--dry-run", "--jobs", "2"],
        env={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "dumb", "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "ready\n"
    (child,) = children(process.pid)
    return process, child


def test_a_signal_ends_both(tmp_path: Path, bytes_json: str) -> None:
    process, child = running(tmp_path, bytes_json)
    try:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=50)
    finally:
        process.kill()
    assert (process.returncode, err) == (143, "kvtool: ended from outside\n")
    assert "PARTIAL" not in out
    assert is_gone(child)


def test_ctrl_c_reaches_both_and_ends_one(tmp_path: Path, bytes_json: str) -> None:
    process, child = running(tmp_path, bytes_json)
    try:
        os.kill(child, signal.SIGINT)  # as a terminal tells all that run in it
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=50)
    finally:
        process.kill()
    assert (process.returncode, err) == (130, "")
    assert "PARTIAL" in out
    assert re.search(r"interrupted after 5 requests, [0-9.]+% of the log", out)
    assert is_gone(child)


def test_a_process_whose_parent_was_killed_ends_by_itself(tmp_path: Path, bytes_json: str) -> None:
    process, child = running(tmp_path, bytes_json)
    process.kill()
    process.communicate()
    assert is_gone(child)
