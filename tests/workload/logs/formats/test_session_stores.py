"""Databases of agents: the same made-up sessions as their exports, whatever their number; hostile ones end in a sentence."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard

from tests.conftest import some
from tests.workload.logs.formats.test_agent_sessions import MODEL, START, Step, made
from tests.workload.logs.reading_made import Read, refusal

TABLES = {
    "opencode": """
        CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, time_created INTEGER);
        CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
        CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);""",
    "goose": """
        CREATE TABLE sessions (id TEXT, working_dir TEXT, session_type TEXT, created_at TEXT, model_config_json TEXT);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
            created_timestamp INTEGER, metadata_json TEXT);""",
    "crush": """
        CREATE TABLE sessions (id TEXT, parent_session_id TEXT, created_at INTEGER);
        CREATE TABLE messages (id TEXT, session_id TEXT, role TEXT, parts BLOB, model TEXT, provider TEXT,
            created_at INTEGER, finished_at INTEGER, is_summary_message INTEGER);""",
}


def insert(database: sqlite3.Connection, table: str, *values: Any) -> None:
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    fitting = values if len(values) == len(columns) else (None, *values)
    database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", fitting)


def opencode(database: sqlite3.Connection, name: str, steps: list[Step]) -> None:
    insert(database, "session", name, None, "/srv/shop", START)

    def add(at: int, part: int, data: dict[str, Any], *parts: dict[str, Any]) -> None:
        message, time = f"{name}-{at}-{part}", (START + 10 * at + part) * 1000
        insert(database, "message", message, name, time, json.dumps({**data, "time": {"created": time}}))
        for number, each in enumerate(parts):
            insert(database, "part", f"{message}-{number}", message, name, json.dumps(each))

    for at, step in enumerate(steps):
        if step.asked:
            add(at, 0, {"role": "user"}, {"type": "text", "text": step.asked})
        cache = {"read": step.cached, "write": step.written}
        tokens = {"input": step.fresh, "output": step.output, "reasoning": step.thoughts, "cache": cache}
        said: list[dict[str, Any]] = [{"type": "text", "text": step.said}]
        if step.tool:
            state = {"status": "completed", "input": {"at": at}, "output": step.tool[1]}
            said.append({"type": "tool", "tool": "ls", "callID": step.tool[0], "state": state})
        add(at, 5, {"role": "assistant", "modelID": MODEL, "providerID": "p", "tokens": tokens}, *said)


def goose(database: sqlite3.Connection, name: str, steps: list[Step]) -> None:
    insert(database, "sessions", name, "/srv/shop", "user", "2026-01-01", json.dumps({"model_name": MODEL}))
    for at, step in enumerate(steps):
        rows: list[tuple[str, list[dict[str, Any]]]] = []
        if step.asked:
            rows.append(("user", [{"type": "text", "text": step.asked}]))
        said: list[dict[str, Any]] = [{"type": "text", "text": step.said}]
        if step.tool:
            call = {"status": "success", "value": {"name": "ls", "arguments": {"at": at}}}
            said.append({"type": "toolRequest", "id": step.tool[0], "toolCall": call})
        rows.append(("assistant", said))
        if step.tool:
            result = {"status": "success", "value": [{"type": "text", "text": step.tool[1]}]}
            rows.append(("user", [{"type": "toolResponse", "id": step.tool[0], "toolResult": result}]))
        for role, content in rows:
            insert(database, "messages", name, role, json.dumps(content), START + 10 * at, "{}")


def crush(database: sqlite3.Connection, name: str, steps: list[Step]) -> None:
    insert(database, "sessions", name, None, START)

    def add(at: int, part: int, role: str, *parts: dict[str, Any]) -> None:
        text = json.dumps(parts).encode()
        stored = zstandard.compress(text) if (at + part) % 2 else text.decode()
        time, message = START + 10 * at + part, f"{name}-{at}-{part}"
        insert(database, "messages", message, name, role, stored, MODEL, "p", time, time, 0)

    for at, step in enumerate(steps):
        if step.asked:
            add(at, 0, "user", {"type": "text", "data": {"text": step.asked}})
        said: list[dict[str, Any]] = [
            {"type": "reasoning", "data": {"thinking": "hidden"}},
            {"type": "text", "data": {"text": step.said}},
        ]
        if step.tool:
            said.append({"type": "tool_call", "data": {"id": step.tool[0], "name": "ls", "input": f'{{"at": {at}}}'}})
        add(at, 5, "assistant", *said, {"type": "finish", "data": {"reason": "end_turn"}})
        if step.tool:
            data = {"tool_call_id": step.tool[0], "content": step.tool[1]}
            add(at, 6, "tool", {"type": "tool_result", "data": data})


WRITERS = {"opencode": opencode, "goose": goose, "crush": crush}


def texts(steps: list[Step]) -> list[list[str]]:
    """What each call of a session sends, its calls of tools left out."""
    sent: list[str] = []
    found = []
    for step in steps:
        sent = [*sent, *([step.asked] if step.asked else [])]
        found.append(sent)
        sent = [*sent, step.said, *([step.tool[1]] if step.tool else [])]
    return found


@pytest.mark.parametrize("agent", WRITERS)
@pytest.mark.parametrize("seed", some(range(4), 2))
def test_each_session_of_a_database_is_read(tmp_path: Path, agent: str, seed: int) -> None:
    path = tmp_path / "store.db"
    sessions = {f"s{at}": made(100 * seed + at, writes=True) for at in range(Random(seed).randint(1, 4))}
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES[agent])
        for name, steps in sessions.items():
            WRITERS[agent](database, name, steps)
        database.commit()
    read = Read(path)
    for name, steps in sessions.items():
        rows = [row for row in read.rows if row["session"] == name]
        plain = [[text for _, text in row["messages"] if not text.startswith("[{")] for row in rows]
        assert plain == [[text for text in each if not text.startswith("[{")] for each in texts(steps)]
        assert {row["model"] for row in rows} == {MODEL}
        if agent == "opencode":
            assert [(row["prompt_tokens"], row["cached_tokens"]) for row in rows] == [
                (step.prompt, step.cached) for step in steps
            ]
    assert len(read.rows) == sum(map(len, sessions.values()))


@pytest.mark.parametrize("rows", [2, 3])
def test_the_ledger_of_goose_reports_each_call_where_it_has_as_many(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "sessions.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES["goose"])
        database.execute(
            """CREATE TABLE usage_ledger (id INTEGER PRIMARY KEY, session_id TEXT, model TEXT, input_tokens INTEGER,
            output_tokens INTEGER, cache_read_tokens INTEGER, cache_write_tokens INTEGER, cost REAL, cost_source TEXT,
            is_compaction INTEGER)"""
        )
        insert(database, "sessions", "s", "/srv/shop", "user", "2026-01-01", json.dumps({"model_name": MODEL}))
        for at, (role, text) in enumerate([("user", "a"), ("assistant", "b"), ("assistant", "c"), ("user", "d")]):
            insert(database, "messages", "s", role, json.dumps([{"type": "text", "text": text}]), START + at, "{}")
        insert(database, "messages", "s", "assistant", json.dumps([{"type": "text", "text": "e"}]), START + 9, "{}")
        insert(database, "usage_ledger", "s", None, 900, 90, 0, 0, 9.0, "carried_forward", 0)
        insert(database, "usage_ledger", "s", "m", 800, 80, 0, 0, 8.0, "estimated", 1)
        for at in range(rows):
            insert(database, "usage_ledger", "s", "other", 100 + at, 7, 60, 30, 0.5, "estimated", 0)
        database.commit()
    read = Read(path)
    told = (
        [(100, 60, 30, 7, "other"), (101, 60, 30, 7, "other")] if rows == 2 else [(None, None, None, None, MODEL)] * 2
    )
    names = ("prompt_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "model")
    assert [tuple(row.get(name) for name in names) for row in read.rows] == told
    assert [row["call"].cost for row in read.rows] == ([Decimal("0.5")] * 2 if rows == 2 else [None, None])


@pytest.mark.parametrize("seed", range(3))
def test_a_storage_folder_of_opencode_is_as_its_database(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "store.db"
    sessions = {f"ses_{at}": made(100 * seed + at, writes=True) for at in range(2)}
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES["opencode"])
        for name, steps in sessions.items():
            opencode(database, name, steps)
        database.commit()
        storage = tmp_path / "storage"

        def write(at: Path, value: dict[str, Any]) -> None:
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_text(json.dumps(value))

        for name in sessions:
            facts = {"id": name, "projectID": "p", "directory": "/srv/shop", "version": "1", "time": {"created": START}}
            write(storage / "session" / "p" / f"{name}.json", facts)
        for id_, session, data in database.execute("SELECT id, session_id, data FROM message"):
            number = "-".join(f"{int(part):03}" if part.isdigit() else part for part in id_.split("-"))
            info = {**json.loads(data), "id": id_, "sessionID": session}
            write(storage / "message" / session / f"{number}.json", info)
            for part, text in database.execute("SELECT id, data FROM part WHERE message_id = ?", (id_,)).fetchall():
                of = {**json.loads(text), "id": part, "sessionID": session, "messageID": id_}
                write(storage / "part" / number / f"{part}.json", of)
    stored, kept = Read(*sorted(storage.rglob("*.json"))), Read(path)
    assert kept.rows
    for name in ("session", "messages", "model", "prompt_tokens", "cached_tokens", "output_tokens", "time"):
        assert sorted(map(str, stored.of(name))) == sorted(map(str, kept.of(name)))
    assert not stored.left_out


def test_a_storage_folder_of_opencode_that_is_damaged_is_refused(tmp_path: Path) -> None:
    facts = {"id": "ses_1", "projectID": "p", "directory": "/srv/shop", "version": "1", "time": {"created": START}}
    for name, text in {"session/p/ses_1": json.dumps(facts), "message/ses_1/msg_1": "{"}.items():
        at = tmp_path / f"{name}.json"
        at.parent.mkdir(parents=True)
        at.write_text(text)
    assert "message `msg_1` cannot be read" in refusal(tmp_path / "session" / "p" / "ses_1.json").message


def test_files_commands_and_pictures_of_crush_are_sent_as_it_writes_them(tmp_path: Path) -> None:
    """The texts of `ToAIMessage` in Crush's own source, for each part of a message that is no plain text."""
    parts = [
        {"type": "text", "data": {"text": " Look. "}},
        {"type": "binary", "data": {"Path": "a.md", "MIMEType": "text/markdown", "Data": "SGk="}},
        {"type": "binary", "data": {"Path": "b.txt", "MIMEType": "text/plain", "Data": "SG8="}},
        {"type": "binary", "data": {"Path": "c.png", "MIMEType": "image/png", "Data": "SG8="}},
        {"type": "shell_command", "data": {"command": "ls", "output": "\x1b[1mx\x1b[0m", "exit_code": 1}},
    ]
    seen = {
        "type": "tool_result",
        "data": {"tool_call_id": "t", "content": "x", "data": "SG8=", "mime_type": "image/png"},
    }
    asked = {"type": "tool_call", "data": {"id": "t", "name": "view", "input": "{}"}}
    answer = {"type": "text", "data": {"text": "Yes."}}
    with closing(sqlite3.connect(tmp_path / "crush.db")) as database:
        database.executescript(TABLES["crush"])
        insert(database, "sessions", "s", None, START)
        rows = (("user", parts), ("assistant", [asked]), ("tool", [seen]), ("assistant", [answer]))
        for at, (role, inside) in enumerate(rows):
            insert(database, "messages", str(at), "s", role, json.dumps(inside), MODEL, "p", START + at, START + at, 0)
        database.commit()
    first, second = Read(tmp_path / "crush.db").rows
    note = (
        "\n<system_info>The files below have been attached by the user, consider them in your response</system_info>\n"
    )
    files = "<file path='a.md'>\n\nHi\n</file>\n<file path='b.txt'>\n\nHo\n</file>\n"
    assert first["messages"][0][1] == f"Look.{note}{files}\n\n$ ls\nx\n(exit code 1)"
    assert "x" not in [text for _, text in second["messages"]]
    assert [row["call"].uncounted for row in (first, second)] == [(("image", 1),), (("image", 2),)]


def test_a_summary_of_crush_replaces_what_was_before(tmp_path: Path) -> None:
    path = tmp_path / "crush.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES["crush"])
        crush(database, "s", made(1, writes=False)[:1])
        part = json.dumps([{"type": "text", "data": {"text": "SUMMARY"}}])
        insert(database, "messages", "m8", "s", "assistant", part, MODEL, "p", START + 100, START + 100, 1)
        part = json.dumps([{"type": "text", "data": {"text": "go on"}}])
        insert(database, "messages", "m9", "s", "user", part, MODEL, "p", START + 101, START + 101, 0)
        insert(database, "messages", "n0", "s", "assistant", part, MODEL, "p", START + 102, START + 102, 0)
        database.commit()
    assert [text for _, text in Read(path).rows[-1]["messages"]] == ["SUMMARY", "go on"]


def test_other_databases_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE users (name TEXT); CREATE VIEW messages AS SELECT * FROM users;")
    assert refusal(path).message == "the SQLite database contains no sessions of a known agent"
    with closing(sqlite3.connect(path)) as database:  # as the history of threads of Codex
        database.executescript("CREATE TABLE items (j TEXT); CREATE INDEX i ON items (json_extract(j, '$.a'));")
    assert ".codex/sessions" in str(refusal(path).hint)
    path.write_bytes(path.read_bytes()[:600])
    assert "SQLite database" in refusal(path).message
    with closing(sqlite3.connect(tmp_path / "bad.db")) as database:
        database.executescript(TABLES["crush"])
        insert(database, "sessions", "s", None, START)
        insert(database, "messages", "m", "s", "user", b"\x28\xb5\x2f\xfdnonsense", MODEL, "p", START, START, 0)
        database.commit()
    assert refusal(tmp_path / "bad.db").message.startswith("a message of the session is no JSON")
