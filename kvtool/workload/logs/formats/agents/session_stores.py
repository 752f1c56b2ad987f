"""Databases (SQLite) in which agents keep their sessions: opencode, Goose, Crush, the OpenAI Agents SDK. Each session is a record,
as its agent exports it or as `crush.py` and `openai_agents.py` read it."""

from __future__ import annotations

import io
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from kvtool.errors import KvtoolError, Place
from kvtool.text.files.compressed import is_plain
from kvtool.text.files.json_stream import MAX_RECORD, RawRecord
from kvtool.workload.logs.files.file_kinds import FileKind

_MAGIC = b"SQLite format 3\0"
_ZSTD = b"\x28\xb5\x2f\xfd"
_WAIT = 5.0
"""Seconds for an agent that writes to its database."""
Row = dict[str, Any]


class _Store(NamedTuple):
    """The database of an agent: a table of sessions, those of what is in them, and how a session of all is made.

    Each inner table has the column that names its session, a column that no other agent's has, and the columns of its order.
    """

    agent: str
    sessions: str
    inner: tuple[tuple[str, str, str, str], ...]
    make: Callable[[Row, list[list[Row]]], Row]
    key: str = "id"
    """The column that identifies a session."""
    more: tuple[tuple[str, str, str, str], ...] = ()
    """Inner tables that only newer versions have."""


def _opencode(session: Row, tables: list[list[Row]]) -> Row:
    """Return what `opencode export` writes."""
    parts: defaultdict[Any, list[Row]] = defaultdict(list)
    for part in tables[1]:
        parts[part["message_id"]].append({**_json(part["data"], {}), "id": part["id"]})
    info = {"id": session["id"], "directory": session["directory"], "parentID": session["parent_id"]}
    messages = [
        {"info": {**_json(each["data"], {}), "id": each["id"]}, "parts": parts[each["id"]]} for each in tables[0]
    ]
    return {"info": info, "messages": messages}


def _goose(session: Row, tables: list[list[Row]]) -> Row:
    """Return what `goose session export --format json` writes."""
    conversation = [
        {
            "role": each["role"],
            "created": each["created_timestamp"],
            "content": _json(each["content_json"], []),
            "metadata": _json(each.get("metadata_json"), {}),
        }
        for each in tables[0]
    ]
    config = _json(session.get("model_config_json"), {})
    return {**session, "model_config": config, "conversation": conversation, "usage_ledger": [*chain(*tables[1:])]}


def _crush(session: Row, tables: list[list[Row]]) -> Row:
    messages = [{**each, "parts": _json(each["parts"], [])} for each in tables[0]]
    return {"crush_session": session, "messages": messages}


def _agents_sdk(session: Row, tables: list[list[Row]]) -> Row:
    return {"agents_session": session, "messages": tables[0]}


_STORES = (
    _Store(
        "opencode",
        "session",
        (("message", "session_id", "data", "time_created, id"), ("part", "session_id", "message_id", "id")),
        _opencode,
    ),
    _Store(
        "Goose",
        "sessions",
        (("messages", "session_id", "content_json", "id"),),
        _goose,
        more=(("usage_ledger", "session_id", "cost", "id"),),
    ),
    _Store("Crush", "sessions", (("messages", "session_id", "parts", "created_at, rowid"),), _crush),
    _Store(
        "the OpenAI Agents SDK",
        "agent_sessions",
        (("agent_messages", "session_id", "message_data", "id"),),
        _agents_sdk,
        key="session_id",
    ),
)
_UNSAFE = "unsafe use"
"""What SQLite says of a schema whose indexes call functions, which is not trusted; no agent above has one, Codex has."""
AGENTS = ", ".join(each.agent for each in _STORES)


def begins(head: bytes, _path: str) -> bool:
    """Return whether a file is an SQLite database."""
    return head.startswith(_MAGIC)


def records(reader: io.BufferedReader, file: str, path: str) -> Iterator[RawRecord]:
    """Yield the sessions of a database, by the time at which they began; KvtoolError where it is of no known agent, or damaged."""
    if not is_plain(reader):
        raise KvtoolError("an SQLite database must not be compressed", hint="decompress it first", place=Place(path))
    try:
        with closing(sqlite3.connect(f"file:{quote(file)}?mode=ro", uri=True, timeout=_WAIT)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_RECORD)
            database.row_factory = sqlite3.Row
            database.execute("PRAGMA trusted_schema = OFF")
            yield from _sessions(database, path)
    except sqlite3.Error as error:
        if _UNSAFE in str(error):
            raise _unknown(path) from error
        hint = "close the agent, and check whether the file is complete"
        raise KvtoolError("the SQLite database cannot be read", hint=hint, place=Place(path)) from error


def _sessions(database: sqlite3.Connection, path: str) -> Iterator[RawRecord]:
    columns = {
        name: {row["name"] for row in database.execute(f"PRAGMA table_info({_quoted(name)})")}
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    }
    store = next((each for each in _STORES if _fits(each, columns)), None)
    if store is None:
        raise _unknown(path)
    began = "time_created" if "time_created" in columns[store.sessions] else "created_at"
    order = began if began in columns[store.sessions] else store.key
    query = f"SELECT * FROM {store.sessions} ORDER BY {order}, {store.key}"  # noqa: S608 # names of the table above
    for number, session in enumerate(database.execute(query), 1):
        tables, size = list[list[Row]](), 0
        for name, key, _, by in (*store.inner, *(each for each in store.more if each[0] in columns)):
            rows = database.execute(f"SELECT * FROM {name} WHERE {key} = ? ORDER BY {by}", (session[store.key],))  # noqa: S608
            kept: list[Row] = []
            for row in rows:
                size += sum(len(value) for value in row if isinstance(value, str | bytes))
                if size > MAX_RECORD:
                    break
                kept.append(dict(row))
            tables.append(kept)
        if size > MAX_RECORD:
            problem = f"a session of more than {MAX_RECORD >> 20} MiB"
            yield RawRecord(b"", number, 1, True, problem, value={})
            continue
        try:
            yield RawRecord(b"", number, 1, True, value=store.make(dict(session), tables))
        except ValueError:
            yield RawRecord(b"", number, 1, True, "a message of the session is no JSON", value={})


def _unknown(path: str) -> KvtoolError:
    return KvtoolError(
        "the SQLite database contains no sessions of a known agent",
        hint=f"kvtool reads those of {AGENTS}; Codex has files below ~/.codex/sessions; of others, pass an export as JSON",
        place=Place(path),
    )


def _fits(store: _Store, columns: dict[str, set[str]]) -> bool:
    """Return whether tables and columns are those of an agent's database."""
    return store.key in columns.get(store.sessions, ()) and all(
        {"id", key, mark} <= columns.get(name, set()) for name, key, mark, _ in store.inner
    )


def _quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _json(text: Any, empty: Any) -> Any:
    """Return the value of a column with JSON, which may be compressed; `empty` where it has none, or one of another kind."""
    if isinstance(text, bytes) and text.startswith(_ZSTD):
        text = _decompressed(text)
    found = orjson.loads(text) if isinstance(text, str | bytes) and text else empty
    return found if isinstance(found, type(empty)) else empty


def _decompressed(data: bytes) -> bytes:
    import zstandard

    try:
        text = zstandard.ZstdDecompressor().stream_reader(data).read(MAX_RECORD + 1)
    except zstandard.ZstdError as error:
        raise ValueError("damaged") from error
    if len(text) > MAX_RECORD:
        raise ValueError("too long")
    return text


FILE_KINDS = (FileKind("session-store", f"SQLite databases of {AGENTS}", begins, records),)
