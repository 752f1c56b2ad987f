"""The order of a batch log."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from kvtool.fixes.edits.apply import FileEdit
from tests.files import write
from tests.profiler.optimize.conftest import RULES, Optimize, chat_log, contents, document, refused


def test_the_order_of_a_batch(optimize: Optimize) -> None:
    lines = chat_log("a.jsonl", last="")
    found = document(optimize, "a.jsonl", "--capacity", "60", "-o", "b.jsonl")
    rates = found["request_order"]["hit_rate"]
    assert rates["before"] < 0.1 < 0.5 < rates["after"]
    assert found["output"] == "b.jsonl"
    ended = [line if line.endswith(b"\n") else line + b"\n" for line in lines]
    order = [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]
    assert Path("b.jsonl").read_bytes() == b"".join(ended[at] for at in order)
    assert b"".join(lines) == Path("a.jsonl").read_bytes()
    again = document(optimize, "b.jsonl", "--capacity", "60")
    assert again["request_order"] is None
    assert again["hit_rate"]["before"] == rates["after"]


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_batch_in_another_order_is_as_private_as_the_log(mode: int, optimize: Optimize) -> None:
    chat_log("a.jsonl", last="")
    Path("a.jsonl").chmod(mode)
    before = os.umask(0o022)
    try:
        document(optimize, "a.jsonl", "--capacity", "60", "-o", "b.jsonl")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("b.jsonl").stat().st_mode) == mode


def test_no_order_without_a_limit_nor_for_sessions(optimize: Optimize) -> None:
    chat_log("a.jsonl")
    code, _, err = optimize("a.jsonl", "-o", "b.jsonl")
    assert (code, "so b.jsonl was not written" in err, "no edit was tried" in err) == (0, True, False)
    turns = [json.dumps({**json.loads(line), "session_id": "s"}) for line in Path("a.jsonl").read_text().splitlines()]
    write("s.jsonl", "\n".join(turns) + "\n")
    assert document(optimize, "s.jsonl", "--capacity", "60")["request_order"] is None
    assert not Path("b.jsonl").exists()


def test_a_log_that_cannot_be_written_in_another_order(optimize: Optimize) -> None:
    lines = chat_log("a.jsonl")
    os.link("a.jsonl", "same.jsonl")
    refused(optimize, "is the log itself", "a.jsonl", "--capacity", "60", "-o", "same.jsonl")
    refused(optimize, "give one INPUT", "a.jsonl", "same.jsonl", "-o", "b.jsonl")
    refused(optimize, "-o needs a file", "a.jsonl", "-o", "-")
    write("array.json", b"[" + b",".join(line.strip() for line in lines) + b"]")
    refused(
        optimize,
        "-o needs one request per line, not 12 requests on 1 line",
        "array.json",
        "--capacity",
        "60",
        "-o",
        "b.jsonl",
    )
    refused(optimize, "cannot write nowhere/b.jsonl", "a.jsonl", "--capacity", "60", "-o", "nowhere/b.jsonl")


def test_blank_lines_and_a_byte_order_mark(optimize: Optimize) -> None:
    lines = chat_log("a.jsonl")
    write("marked.jsonl", b"\xef\xbb\xbf\n" + b"\r\n".join(line.strip() for line in lines) + b"\r\n\n")
    optimize("marked.jsonl", "--capacity", "60", "-o", "b.jsonl")
    data = Path("b.jsonl").read_bytes()
    assert data.startswith(b"\xef\xbb\xbf{")
    assert sorted(data[3:].split(b"\r\n")) == sorted([b"", *(line.strip() for line in lines)])


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (
            FileEdit("prompts/desk.md", 0, 0, "{{ rid }} "),
            "group `desk` would hit less (42.5% -> 1.8%), so kvtool dropped the edit",
        ),
        (
            FileEdit("prompts/desk.md", 0, 0, "!"),
            "it gains nothing with the edits that kvtool can make, so kvtool dropped the edit",
        ),
    ],
)
def test_an_edit_that_does_not_win_is_dropped(
    optimize: Optimize, desk: str, monkeypatch: pytest.MonkeyPatch, edit: FileEdit, reason: str
) -> None:
    """The prompts promise a gain; edits that do something else are found out when the files are run."""
    write("prompts/desk.md", "# Desk\n" + RULES * 4 + "Now: {{ now }}\n" + RULES * 4)
    before = contents()
    monkeypatch.setattr("kvtool.profiler.optimize.optimizer.edits_for", lambda *_: [edit])
    found = document(optimize, desk, "--allow", "P2", "--write")
    (step,) = found["steps"]
    assert (step["edited"], step["reason"]) == (False, reason)
    assert found["files"] == []
    assert found["hit_rate"]["before"] == found["hit_rate"]["after"] < step["hit_rate"]["after"]
    assert contents() == before
