"""`kvtool profile --kv-events`: reuse as a server's events show it beside what is predicted, and who lost what was evicted."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec", reason="needs the extra `live`")

from kvtool.cli.app import run
from tests.conftest import Command, some
from tests.files import widest
from tests.measure.servers.published import CLEARED, payload, removed, stored, write_recorded
from tests.measure.servers.recordings import recording
from tests.profiler.made_sessions import SECRET, made_session
from tests.results.documents import redumped

SIZE = 16


def write_log(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def random_log(path: Path, seed: int) -> None:
    """Prompts that share beginnings, some of them equal, some salted."""
    rng = random.Random(seed)
    beginnings = ["".join(rng.choices("abcd ", k=rng.randint(10, 90))) for _ in range(5)]
    rows = []
    for _ in range(50):
        text = rng.choice(beginnings) + "".join(rng.choices("xy", k=rng.choice((0, 5, 40))))
        salt = {"cache_salt": "s"} if rng.random() < 0.2 else {}
        rows.append({"prompt": text, "response": "".join(rng.choices("no", k=rng.randint(1, 30))), **salt})
    write_log(path, rows)


def beside(in_folder: Command, *flags: str) -> dict[str, Any]:
    code, out, err = in_folder("profile", "log.jsonl", "--dry-run", "--no-advice", "--json", "--per-request", *flags)
    assert (code, err) == (0, "")
    assert redumped(out) == out
    found: dict[str, Any] = json.loads(out)["kv_events"]
    return found


@pytest.mark.parametrize("blocks", [12, 30, None])
@pytest.mark.parametrize("seed", some(range(3), 1))
def test_a_run_is_what_its_own_events_say(in_folder: Command, tmp_path: Path, seed: int, blocks: int | None) -> None:
    random_log(tmp_path / "log.jsonl", seed)
    flags = [] if blocks is None else ["--capacity", str(blocks)]
    assert in_folder("profile", "log.jsonl", "--dry-run", "--no-advice", "-q", *flags, "--events", "e.jsonl")[0] == 0
    found = beside(in_folder, *flags, "--kv-events", "e.jsonl")
    assert found["differ"] == []
    assert found["requests_known"] == found["requests_agree"] >= 45
    assert found["requests_known"] + found["requests_unknown"] == len(found["requests"]) == 50
    assert found["predicted_tokens"] == found["reused_tokens"]
    assert found["block_size"] == SIZE
    assert found["age_p50_s"] is None  # these events have no times
    assert found["foreign_tokens"] == 0
    assert (found["evicted_blocks"] > 0) == (blocks is not None)
    lost = [each["lost_tokens"] for each in found["sessions"]]
    assert lost == sorted(lost, reverse=True)
    assert sum(lost) == found["lost_tokens"] or len(lost) == 20  # those after them are not named


def test_another_capacity_shows_where_they_part(in_folder: Command, tmp_path: Path) -> None:
    random_log(tmp_path / "log.jsonl", 1)
    assert in_folder("profile", "log.jsonl", "--dry-run", "-q", "--capacity", "12", "--events", "e.jsonl")[0] == 0
    found = beside(in_folder, "--kv-events", "e.jsonl")
    parted = [row for row in found["requests"] if row["reused_tokens"] not in (None, row["predicted_tokens"])]
    assert found["differ"] == parted[:20] != []
    assert all(row["reused_tokens"] < row["predicted_tokens"] for row in parted)
    assert found["requests_agree"] == found["requests_known"] - len(parted)


A, B = [64] * 32, [65] * 32
"""Two blocks each of "a" and "b", as the tokenizer of bytes numbers them."""
TWICE = [{"prompt": "a" * 33, "session_id": "ana"}, {"prompt": "b" * 33, "session_id": "bo"}]


def served_twice(path: Path, *between: list[object], session: bool = True) -> None:
    """Two prompts; the blocks of the first are evicted and stored again, ten seconds later."""
    named = {"session_id": "ana"} if session else {}
    batches = [
        payload([CLEARED, stored([1, 2], A, **named)], at=10.0),
        payload([removed(1), removed(2), stored([3, 4], B)], at=14.0),
        *(payload(events, at=15.0) for events in between),
        payload([stored([1, 2], A, **named)], at=20.0),
    ]
    write_recorded(path, batches)


@pytest.mark.parametrize("session", [True, False])
def test_what_was_stored_again_is_lost_by_its_session(in_folder: Command, tmp_path: Path, session: bool) -> None:
    write_log(tmp_path / "log.jsonl", [*TWICE, TWICE[0]])
    served_twice(tmp_path / "e.jsonl.gz", session=session)
    found = beside(in_folder, "--kv-events", "e.jsonl.gz")
    assert (found["stored_blocks"], found["evicted_blocks"], found["stored_again_blocks"]) == (6, 2, 2)
    assert (found["lost_tokens"], found["sessions"]) == (32, [{"lost_tokens": 32, "session": "ana"}])
    assert (found["age_p50_s"], found["age_p90_s"], found["cleared"]) == (4.0, 4.0, 1)
    assert [row["reused_tokens"] for row in found["requests"]] == [0, 0, 0]
    assert [row["predicted_tokens"] for row in found["requests"]] == [0, 0, 32]


def test_the_terminal_says_it_at_every_width(in_folder: Command, tmp_path: Path) -> None:
    log = [TWICE[0] | {"session_id": "\x1b[31mred"}, *TWICE[1:], TWICE[0] | {"session_id": "\x1b[31mred"}]
    write_log(tmp_path / "log.jsonl", log)
    served_twice(tmp_path / "e.jsonl.gz", session=False)
    for width in (60, 80, 120):
        code, out, _ = in_folder(
            "profile", "log.jsonl", "--dry-run", "--kv-events", "e.jsonl.gz", "--width", str(width), "--no-advice"
        )
        assert code == 0
        assert widest(out) <= width
        joined = " ".join(out.split())
        assert "2 of 3 requests as predicted: 0 tokens reused, 32 predicted" in joined
        assert "2 of 6 blocks after 4.0 s (p50), 4.0 s (p90); 2 stored again (32 tokens lost)" in joined
        assert "\\x1b[31mred 32 tokens" in joined
        assert "\x1b[31m" not in out


def told(in_folder: Command, *flags: str) -> str:
    return "\n".join(beside(in_folder, "--kv-events", "e.jsonl.gz", *flags)["notes"])


def test_why_something_is_not_known_is_said(in_folder: Command, tmp_path: Path) -> None:
    events = tmp_path / "e.jsonl.gz"
    write_log(tmp_path / "log.jsonl", [*TWICE, TWICE[0]])
    served_twice(events)
    assert told(in_folder) == (
        "2 requests without an event id or a distinct time: kvtool matched similar requests by their order"
    )
    assert "blocks of 16 tokens, this run has 8: set --block-size 16" in told(in_folder, "--block-size", "8")
    served_twice(events, [stored([9], [1] * 16)])
    assert "16 stored tokens belong to other requests" in told(in_folder)
    served_twice(events, ["nonsense"])
    assert "1 event could not be read" in told(in_folder)
    served_twice(events, [removed(77)])
    assert "1 block removed without being stored: events are missing" in told(in_folder)
    write_recorded(events, [payload([stored([1, 2], A)])], first=3)
    assert "the events begin mid-run" in told(in_folder)
    write_recorded(events, [payload([{**stored([1, 2], A), "token_ids": None}])])
    assert "1 event without token ids" in told(in_folder)


def test_a_gap_makes_what_follows_unknown(in_folder: Command, tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", [*TWICE, TWICE[0]])
    served_twice(tmp_path / "whole.gz")
    lines = gzip.decompress((tmp_path / "whole.gz").read_bytes()).splitlines(keepends=True)
    (tmp_path / "e.jsonl").write_bytes(lines[0] + lines[2])
    found = beside(in_folder, "--kv-events", "e.jsonl")
    assert [row["reused_tokens"] for row in found["requests"]] == [0, None, None]
    assert "1 batch is missing before number 2 of rank 0: reuse is unknown" in "\n".join(found["notes"])


def test_requests_that_ran_beside_equal_ones_are_not_guessed_at(in_folder: Command, tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", [{"prompt": "a" * 33}, {"prompt": "b" * 33}, {"prompt": "a" * 33}])
    served_twice(tmp_path / "e.jsonl.gz", session=False)
    alone, together = (beside(in_folder, "--kv-events", "e.jsonl.gz", *f) for f in ([], ["--concurrency", "2"]))
    assert [row["how"] for row in alone["requests"]] == ["events"] * 3
    assert sorted(row["how"] for row in together["requests"]) == ["events", "unknown", "unknown"]
    assert "kvtool matched similar requests by their order" in alone["notes"][0]
    assert "similar requests ran at the same time, so their events are unknown" in together["notes"][0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "e.jsonl contains no KV events"),
        ('{"type": "AllBlocksCleared"}\n{"type": 1}\n', "e.jsonl:2"),
        ('{"type": "AllBlocksCleared"}\n{"typ\n', "e.jsonl:2:"),
        ('{"payload_b64": "!", "seq": 0}\n', "`payload_b64` is not base64"),
        (
            '{"type": "BlockStored", "block_hashes": [1], "token_ids": [1, 2], "block_size": 16}\n',
            "2 tokens for 1 block",
        ),
    ],
)
def test_a_file_of_something_else_is_told_with_its_place(
    in_folder: Command, tmp_path: Path, text: str, said: str
) -> None:
    write_log(tmp_path / "log.jsonl", TWICE)
    (tmp_path / "e.jsonl").write_text(text, encoding="utf-8")
    code, out, err = in_folder("profile", "log.jsonl", "--dry-run", "--kv-events", "e.jsonl")
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
    assert in_folder("profile", "log.jsonl", "--dry-run", "--kv-events", "none.jsonl")[0] == 2
    code, _, err = in_folder("profile", "log.jsonl", "--dry-run", "--kv-events", str(tmp_path))
    assert code == 2
    assert "kv_events.jsonl.gz: no such file" in "".join(err.split("\n"))


def test_a_pipe_cannot_be_read_twice(in_folder: Command, tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", TWICE)
    os.mkfifo(tmp_path / "pipe")
    code, _, err = in_folder("profile", "log.jsonl", "--dry-run", "--kv-events", "pipe")
    assert code == 2
    assert "pipe is not a file" in err


@pytest.mark.parametrize("flag", ["--events", "--metrics", "-o"])
def test_what_is_read_is_not_written_over(in_folder: Command, tmp_path: Path, flag: str) -> None:
    write_log(tmp_path / "log.jsonl", TWICE)
    (tmp_path / "e.json").write_text('{"type": "AllBlocksCleared"}\n')
    code, _, err = in_folder("profile", "log.jsonl", "--dry-run", "--kv-events", "e.json", flag, "e.json")
    assert code == 2
    assert "what --kv-events reads" in err
    assert (tmp_path / "e.json").read_text() == '{"type": "AllBlocksCleared"}\n'


def test_without_the_flag_nothing_is_said(in_folder: Command, tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", TWICE)
    out = in_folder("profile", "log.jsonl", "--dry-run", "--json")[1]
    assert "kv_events" not in json.loads(out)


def test_a_recorded_session_is_read_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made_session(blocks=45)
    folder = session.write(tmp_path / "session")
    flags = ["--dry-run", "--no-advice", "--num-gpu-blocks", "45", "--kv-events", str(folder), "--json"]
    assert run(["profile", str(folder / "requests.jsonl.gz"), *flags]) == 0
    out = capsys.readouterr().out
    assert SECRET not in out
    found = json.loads(out)["kv_events"]
    assert (found["requests_agree"], found["reused_tokens"]) == (12, session.hits)


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("sequential", []),
        ("eviction", ["--num-gpu-blocks", "400"]),
        ("concurrent", ["--num-gpu-blocks", "400", "--concurrency", "8"]),
    ],
)
def test_of_a_real_server(name: str, flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    folder = recording(name)
    asked = [
        *("profile", str(folder / "requests.jsonl.gz"), "--dry-run", "--no-advice", "--json", "--per-request"),
        *("--block-size", "32", "--kv-events", str(folder), *flags),
    ]
    assert run(asked) == 0
    found = json.loads(capsys.readouterr().out)
    reported = {row["id"]: row["provider"]["reported_tokens"] for row in found["requests"]}
    assert {row["id"]: row["reused_tokens"] for row in found["kv_events"]["requests"]} == reported
    assert found["kv_events"]["notes"] == []
