"""`kvtool sessions`: its sums are those of one pass over all transcripts, and bad files hide no others."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.cli.app import run
from kvtool.cli.commands.sessions import parse_since
from kvtool.errors import KvtoolError
from kvtool.profiler.sessions.agent_folders import find_folders
from kvtool.profiler.sessions.session_list import SessionList, TranscriptIndex
from kvtool.profiler.sessions.transcript_sums import TranscriptReader, TranscriptSums
from kvtool.results.documents.agent_sessions import SessionsDocument
from kvtool.results.misses import sum_rows
from kvtool.text.terminal.progress import Progress
from tests.profiler.sessions.made_transcripts import made_folder, made_session, write_lines

READER = TranscriptReader(Progress(None))


def listed(folder: Path, cache: Path | None = None, read: Any = READER.sums) -> SessionsDocument:
    folders = find_folders([str(folder)], {})
    return SessionList(folders, TranscriptIndex(cache), read, lambda: None).make(since=None, keep=lambda _: True)


@settings(max_examples=5)
@given(seed=st.integers(0, 1 << 32), sessions=st.integers(1, 3))
def test_sums_are_those_of_one_pass(seed: int, sessions: int) -> None:
    with TemporaryDirectory() as name:
        source = random.Random(seed)
        paths = made_folder(source, Path(name) / "projects", sessions)
        for path in paths:
            os.utime(path, (0, source.randint(1, 1000)))
        found, cache = listed(Path(name) / "projects", Path(name) / "cache"), Path(name) / "cache"
        whole = READER.sums(sorted(map(str, paths)))
        rows = [*found.sessions, *found.subagents]
        assert {row.key: row.model_dump(exclude={"path"}) for row in rows} == {
            row.key: row.model_dump() for row in whole.rows
        }
        assert found.total == sum_rows(
            "total", sorted(rows, key=lambda row: [each.key for each in whole.rows].index(row.key))
        )
        assert all(row.subagent == ("/" in row.key) for row in rows)
        again = listed(Path(name) / "projects", cache, read=pytest.fail)
        assert again.model_copy(update={"known_files": 0}) == found
        assert again.known_files == len(paths) == found.files


def test_the_index_holds_no_text_and_a_changed_file_is_read_again(tmp_path: Path) -> None:
    source = random.Random(3)
    first = write_lines(tmp_path / "p" / "a.jsonl", made_session(source, "a", "shop", 3))
    write_lines(tmp_path / "p" / "b.jsonl", made_session(source, "b", "app", 3))
    before = listed(tmp_path / "p", tmp_path / "cache")
    (index,) = (tmp_path / "cache").glob("*.json")
    assert "shop 0" not in index.read_text()
    assert "Yes." not in index.read_text()
    assert index.stat().st_mode & 0o077 == 0
    asked: list[Sequence[str]] = []

    def read(paths: Sequence[str]) -> TranscriptSums:
        asked.append(paths)
        return READER.sums(paths)

    write_lines(first, made_session(source, "a", "shop", 4))
    after = listed(tmp_path / "p", tmp_path / "cache", read)
    assert asked == [[str(first)]]
    assert after.total.requests == before.total.requests + 1
    index.write_text("{not json")
    assert listed(tmp_path / "p", tmp_path / "cache").total == after.total


def test_the_folders_of_agents_are_found(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    for path in (
        home / ".claude/projects/p/a.jsonl",
        other / "projects/q/b.jsonl",
        home / ".codex/sessions/2026/c.jsonl",
        home / ".gemini/tmp/shop/chats/session-1.json",
        home / ".gemini/tmp/shop/logs.json",
        home / ".qwen/projects/shop/chats/s.jsonl",
        home / ".pi/agent/sessions/--srv-shop--/s.jsonl",
        home / ".local/share/opencode/opencode.db",
        home / ".local/share/goose/sessions/sessions.db",
        home / ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks/1/api_conversation_history.json",
        home / ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks/1/ui_messages.json",
    ):
        write_lines(path, [])
    found = find_folders([], {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(other)})
    assert [(each.agent, Path(each.path).name, len(each.files)) for each in found] == [
        ("Claude Code", "projects", 1), ("Claude Code", "projects", 1), ("Codex", "sessions", 1),
        ("Gemini CLI", "tmp", 1), ("Qwen Code", "projects", 1), ("Pi", "sessions", 1), ("opencode", "opencode", 1),
        ("Goose", "sessions", 1), ("Cline and Roo", "tasks", 1),
    ]  # fmt: skip
    named = find_folders([str(home)], {})  # a home that the user names is read as that of the agents
    assert {(each.agent, each.path) for each in named} < {(each.agent, each.path) for each in found}
    assert len(named) == len(found) - 1
    with pytest.raises(KvtoolError, match="no folder of transcripts was found") as error:
        find_folders([], {"HOME": str(tmp_path)})
    assert error.value.exit_code == 2


def test_bad_files_are_counted_and_hide_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "projects"
    good = made_session(random.Random(1), "good", "shop", 3)
    odd: dict[str, Any] = {"type": "new-kind", "x": "secret", "sessionId": "good", "uuid": "n1"}
    write_lines(folder / "good.jsonl", [*good, odd])
    (folder / "bad.jsonl").write_text('\x1b[31m{"a\n{"b\n')
    (folder / "empty.jsonl").write_text("")
    (folder / "damaged.jsonl.gz").write_bytes(b"\x1f\x8b\x08garbage")
    assert run(["sessions", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["key"] for row in found["sessions"]] == ["good"]
    assert found["files"] == 4
    assert {Path(path).name for path in found["failed"]} == {"bad.jsonl", "damaged.jsonl.gz"}
    assert found["files_without_usage"] == 1
    assert found["skipped"] == 1
    assert run(["sessions", str(folder), "--width", "80"]) == 0
    out = capsys.readouterr().out
    assert " ".join(out.split()).startswith("Reading /")
    assert "Not read" in out
    assert "\x1b" not in out
    assert "secret" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-folder"], "there is no such folder"),
        (["empty"], "contains no transcript"),
        (["some", "--since", "soon"], "--since soon is no time"),
        (["some", "--project", "none"], "no session of the project"),
    ],
)
def test_what_cannot_be_listed_is_an_error(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    write_lines(tmp_path / "some" / "a.jsonl", made_session(random.Random(1), "a", "shop", 1))
    assert run(["sessions", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_sessions_of_a_time_and_a_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, project in (("a", "shop"), ("b", "app")):
        write_lines(tmp_path / "some" / f"{name}.jsonl", made_session(random.Random(2), name, project, 2))
    assert run(["sessions", str(tmp_path / "some"), "--project", "SHOP", "--since", "2026-10-01", "--json"]) == 0
    assert [row["key"] for row in json.loads(capsys.readouterr().out)["sessions"]] == ["a"]
    assert run(["sessions", str(tmp_path / "some"), "--since", "2100-01-01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sessions"] == []
    assert run(["sessions", str(tmp_path / "some"), "--since", "2100-01-01", "-q"]) == 0
    assert "No session has a request since 2100-01-01 00:00 UTC." in capsys.readouterr().out
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert [parse_since(text, now).isoformat()[:13] for text in ("12h", "7d", "1w", "2026-11-20")] == [
        "2026-11-29T00",
        "2026-11-22T12",
        "2026-11-22T12",
        "2026-11-20T00",
    ]


def test_times_without_zones_and_contradicting_sums_are_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = made_session(random.Random(7), "a", "shop", 6)
    for number, line in enumerate(lines):
        line["timestamp"] = line["timestamp"].removesuffix("+00:00") if number < 6 else line["timestamp"]
        if number < 4 and "usage" in line["message"]:
            line["message"]["usage"]["cache_creation_input_tokens"] = 0
    path = str(write_lines(tmp_path / "p" / "a.jsonl", lines))
    for command in (["sessions", path], ["profile", path, "--no-advice"]):
        assert run(command) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert said.count("1 time without a zone: taken as UTC.") == 1
        assert said.count("No gap is counted between these and the 3 with a zone.") == 1
        assert said.count("sage of 2 requests contradicts itself and counts as unknown; the first at") == 1


def test_a_profile_of_the_folder_has_the_same_sums(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_folder(random.Random(5), tmp_path / "projects", 3)
    found = listed(tmp_path / "projects")
    assert run(["profile", str(tmp_path / "projects"), "--by", "session", "--no-advice", "--json", "-q"]) == 0
    misses = json.loads(capsys.readouterr().out)["misses"]
    for name in ("requests", "prompt_tokens", "promised", "read"):
        assert misses[name] == getattr(found.total, name)
    assert {row["key"]: row["paid"] for row in misses["rows"]["rows"]} == {
        row.key: row.paid for row in (*found.sessions, *found.subagents)
    }
    for cause, each in found.total.by_cause.items():
        assert misses["causes"][cause]["tokens"] == each.tokens
        assert Decimal(misses["causes"][cause]["cost"] or 0) == Decimal(each.cost or 0)


def test_a_session_of_gemini_cli_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its prompts are not in the file, so nothing is known of causes; what was read from the cache and paid is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tokens = [{"input": 8_000, "output": 5, "cached": 0}, {"input": 8_100, "output": 5, "cached": 7_000}]
    messages = [
        {"id": f"{who}{at}", "timestamp": f"2026-10-01T10:0{at}:00Z", "type": who, "content": "x", **said}
        for at, counts in enumerate(tokens)
        for who, said in (("user", {}), ("gemini", {"tokens": counts, "model": "gemini-2.5-pro"}))
    ]
    path = tmp_path / ".gemini/tmp/shop/chats/session-1.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"sessionId": "s1", "projectHash": "ab", "messages": messages}))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["sessions", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["key"], row["requests"], row["prompt_tokens"], row["read"]) for row in found["sessions"]] == [
        ("s1", 2, 16_100, 7_000)
    ]


def test_a_log_of_several_sessions_has_them_listed_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = random.Random(4)
    sessions = [made_session(source, name, "shop", 6) for name in ("one", "two")]
    for named, option in ((sessions, "--by session"), (sessions[:1], "--by event")):
        write_lines(tmp_path / "log.jsonl", [line for each in named for line in each])
        assert run(["sessions", str(tmp_path / "log.jsonl"), "-q"]) == 0
        assert option in capsys.readouterr().out
