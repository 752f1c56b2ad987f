"""A recorded session with a server: a folder with its requests, and what else was kept of what the server said."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvtool.errors import KvtoolError, Place
from kvtool.measure.servers.exchange import Exchange
from kvtool.text.bounded_number import finite_number, whole_number
from kvtool.text.files.atomic_file import PRIVATE, AtomicFile
from kvtool.text.files.checkout_links import make_folders
from kvtool.text.files.compressed import open_bytes, refuse_bomb
from kvtool.text.files.json_stream import MAX_RECORD, NotJSONError, parse
from kvtool.text.files.text_files import file_bytes
from kvtool.workload.logs.records.call_fields import http_status

REQUESTS = "requests.jsonl"
EVENTS = "kv_events.jsonl"
METRICS_BEFORE, METRICS_AFTER = "metrics_before.txt", "metrics_after.txt"
WITHOUT_TEXT = "blocks_without_text"
"""Of the file of how a run was made: the tokens of a block, where prompts are kept as digests of their blocks alone."""
ENDINGS = ("", ".gz", ".zst")
_FREE = 512 << 20
"""Bytes that any file may unpack to: requests that begin with one long prompt are packed a hundredfold."""
_MOST_REQUESTS = 1_000_000  # a bound for hostile recordings, as are the next ones
_MOST_META = 16 << 20
_LONGEST_TIME = 1e9
_OPEN_TO_ONE = 0o700  # a recording contains prompts
META = "meta.json"


@dataclass(frozen=True, slots=True)
class Recording:
    """Contents of a folder; files that it lacks are None."""

    folder: str
    exchanges: list[Exchange]
    began: float | None = None
    """The moment from which the times of requests count, in seconds since 1970."""
    textless: int | None = None
    """Tokens of a block, where it was recorded without text; else None."""

    @classmethod
    def read(cls, folder: str) -> Recording:
        """Raise KvtoolError, with the place, for what is no recording."""
        if not Path(folder).is_dir():
            raise KvtoolError(f"{folder}: not a folder", hint="pass a folder that --record DIR wrote")
        path = recorded_file(folder, REQUESTS)
        if path is None:
            raise KvtoolError(f"{folder}: no {REQUESTS} in it", hint="pass a folder that --record DIR wrote")
        exchanges = sorted(_exchanges(path), key=lambda each: (each.sent is None, each.sent or 0.0, each.number))
        if not exchanges:
            raise KvtoolError(f"{path}: no request in it")
        meta = _meta(folder)
        textless = whole_number(meta.get(WITHOUT_TEXT), least=1, most=1 << 31)
        return cls(folder, exchanges, began=_seconds(meta.get("start_unix")), textless=textless)

    def file(self, name: str) -> str | None:
        """Return the path of a file, compressed or not; None where it was not kept."""
        return recorded_file(self.folder, name)

    @property
    def at_once(self) -> int:
        """Return how many requests were under way at the same time at most."""
        return most_at_once(self.exchanges)


def recorded_file(folder: str, name: str) -> str | None:
    """Return the path of a file of a recording, compressed or not; None where there is none."""
    return next((str(path) for end in ENDINGS if (path := Path(folder, name + end)).is_file()), None)


def most_at_once(exchanges: list[Exchange]) -> int:
    """Return how many requests were under way at the same time at most; 1 where nothing says it."""
    moments: list[tuple[float, int]] = []
    for each in exchanges:
        if each.sent is not None and each.done is not None and each.done > each.sent:
            moments += [(each.sent, 1), (each.done, -1)]
    now = most = 0
    for _, step in sorted(moments):  # at one moment those that end go before those that begin
        now += step
        most = max(most, now)
    return max(most, 1)


def _meta(folder: str) -> dict[str, object]:
    path = recorded_file(folder, "meta.json")
    if path is None:
        return {}
    try:
        value = parse(file_bytes(Path(path), shown=path, limit=_MOST_META))
    except (OSError, NotJSONError):
        return {}
    return value if isinstance(value, dict) else {}


def _exchanges(path: str) -> Iterator[Exchange]:
    with open_bytes(path, path) as reader:
        number = size = 0
        while line := reader.readline(MAX_RECORD):
            number += 1
            size += len(line)
            place = Place(path, number, 1)
            if len(line) >= MAX_RECORD:
                raise KvtoolError(f"a line of more than {MAX_RECORD >> 20} MiB", place=place)
            refuse_bomb(reader, path, size, free=_FREE)
            if not line.strip():
                continue
            if number > _MOST_REQUESTS:
                raise KvtoolError(f"more than {_MOST_REQUESTS:,} requests", place=place)
            try:
                value = parse(line)
            except NotJSONError as error:
                raise KvtoolError(
                    f"not JSON: {error.reason}",
                    hint="a recorded request must be an object",
                    place=Place(path, number, error.index + 1),
                ) from None
            yield _exchange(value, number, place)


def _exchange(value: Any, number: int, place: Place) -> Exchange:
    if not isinstance(value, dict) or not isinstance(value.get("body"), dict):
        raise KvtoolError("not a recorded request: `body` is missing", place=place)
    status, response = value.get("status"), value.get("response")
    session, trouble = value.get("session_id"), value.get("trouble")
    n = whole_number(value.get("n"))
    return Exchange(
        number - 1 if n is None else n,
        value["body"],
        endpoint=value["endpoint"] if isinstance(value.get("endpoint"), str) else "",
        session_id=session if isinstance(session, str) and session else None,
        sent=_seconds(value.get("sent")),
        first=_seconds(value.get("first")),
        done=_seconds(value.get("done")),
        status=http_status(status),
        response=response if isinstance(response, dict) else None,
        trouble=trouble if isinstance(trouble, str) else None,
    )


def _seconds(value: object) -> float | None:
    return finite_number(value, least=0, most=10 * _LONGEST_TIME)


class RecordFolder:
    """A folder that is made, or empty; KvtoolError for another one, before anything is sent."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        try:
            if any(make_folders(self.path, mode=_OPEN_TO_ONE).iterdir()):
                raise KvtoolError(f"--record {path}: the folder is not empty", hint="pass a new folder")
        except (OSError, ValueError) as error:  # the latter of a null character
            raise KvtoolError(f"--record {path}: {getattr(error, 'strerror', None) or error}") from None

    def keep(self, name: str, data: bytes) -> None:
        """Write a file, compressed where its name ends in .gz."""
        with AtomicFile(self.path / name, mode=PRIVATE) as file:
            file.write(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)

    def keep_exchanges(self, exchanges: Iterable[Exchange]) -> None:
        """Write every request with its answer, a line each."""
        lines = [json.dumps(_fields(each), separators=(",", ":")) for each in exchanges]
        self.keep(f"{REQUESTS}.gz", "".join(f"{line}\n" for line in lines).encode())

    def keep_meta(self, meta: Mapping[str, object]) -> None:
        """Write how the run was made."""
        self.keep(META, (json.dumps(meta, indent=1, sort_keys=True) + "\n").encode())


def _fields(each: Exchange) -> dict[str, object]:
    fields: dict[str, object] = {
        "n": each.number,
        "endpoint": each.endpoint,
        "body": each.body,
        "sent": each.sent,
        "first": each.first,
        "done": each.done,
        "status": each.status,
        "session_id": each.session_id,
        "response": each.response,
        "trouble": each.trouble,
    }
    return {name: value for name, value in fields.items() if value is not None}
