"""Lines of a log that something else wrote down: Docker's `json-file`, Kubernetes' CRI, a logger's time before JSON.

Docker cuts lines at 16 KiB and CRI marks the pieces; they are put together, at the place of the first one. What was written is
a line of JSON, which some record format reads, or one of a server's log.
"""

from __future__ import annotations

import io
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kvtool.text.files.json_stream import RawRecord
from kvtool.workload.logs.files.file_kinds import FileKind
from kvtool.workload.logs.formats.servers import sglang_log, vllm_log
from kvtool.workload.logs.formats.servers.server_lines import LogClock, front_of, lines_of
from kvtool.workload.logs.records.record import Record, parsed_text
from kvtool.workload.logs.records.record_format import LeftOut, RecordFormat

_CRI = re.compile(r"(\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([FP])(?:: | |$)")
_DOCKER_LINE = re.compile(r'\s*\{"log": ?"')
_DOCKER = frozenset(("log", "stream", "time"))
_DOCKER_PIECE = 1 << 14
"""Bytes at which Docker cuts a line."""
_MOST_PIECES = 1 << 14  # of one line: 256 MiB of Docker's pieces
_SERVERS = (vllm_log, sglang_log)
_TIMES = (
    *("time", "timestamp", "@timestamp", "ts", "date", "__REALTIME_TIMESTAMP", "ingestionTime", "datetime"),
    "asctime",
)
OTHERS = "other lines"
_TEXTS = ("message", "@message", "msg", "MESSAGE", "log", "line", "textPayload", "event")
_ABOUT = frozenset(
    (
        *("kubernetes", "docker", "container", "labels", "host", "agent", "ecs", "service", "process", "resource"),
        *("log", "tags", "metadata", "input", "attrs", "stream", "structured_metadata", "fields", "event"),
        "data_stream",
    )
)
"""What collectors of logs say of a line in objects of their own."""
OTHER_LINE = LeftOut(
    "other line", hint="server lines without a request; if they contain one, add --map messages=a.b (or prompt=a.b)"
)


class _Written(NamedTuple):
    """A line as it was written down; a piece of one is not `whole`."""

    text: str
    time: str | float | None
    stream: str
    whole: bool


def begins(head: bytes, path: str) -> bool:
    """Return whether a file has such lines."""
    del path
    return (
        not head.lstrip().startswith(b"[")
        and b"\0" not in head
        and _form(head.decode(errors="replace").split("\n")) is not None
    )


def records(reader: io.BufferedReader, file: str, path: str) -> Iterator[RawRecord]:
    """Yield the lines that were written down: with the time around it, where it is JSON; else what a server's log is read as."""
    lines = reader.peek(1 << 16).decode(errors="replace").split("\n")
    unwrap = _form(lines)
    assert unwrap is not None
    inside = io.BufferedReader(_Inside(reader, unwrap))
    server = next((each for each in _SERVERS if _is_of(each, lines, unwrap, path)), None)
    if server is not None:
        yield from server.records(inside, file, path)
        return
    others, place = 0, (0, 0)
    for number, offset, line in _whole_lines(reader, unwrap):
        text = line.text.rstrip()
        if not text:
            continue
        if text[0] != "{":
            place = place if others else (number, offset)
            others += 1
            continue
        if others:
            yield _others(others, *place)
            others = 0
        if parsed_text(text) is None:
            yield RawRecord(b"", number, 1, True, "the JSON in this line is cut off or broken", offset, value={})
            continue
        yield RawRecord(
            b"", number, 1, True, None, offset, value={"time": line.time, "log": text, "stream": line.stream}
        )
    if others:
        yield _others(others, *place)


def _others(count: int, number: int, offset: int) -> RawRecord:
    """Return lines one after another that hold no JSON."""
    return RawRecord(b"", number, 1, True, None, offset, value={OTHERS: count})


def is_other(fields: dict[str, Any]) -> bool:
    """Return whether it is a line of a server, written down with its time, that holds no JSON of a request."""
    if OTHERS in fields:
        return True
    text = next((fields[name] for name in _TEXTS if isinstance(fields.get(name), str)), None)
    if text is None or all(fields.get(name) is None for name in _TIMES):
        return False
    if any(isinstance(value, dict | list) and name not in _ABOUT for name, value in fields.items()):
        return False
    inside = parsed_text(text)
    if not isinstance(inside, dict):
        return True
    from kvtool.workload.logs.records.records import is_known

    return not any(isinstance(value, dict | list) for value in inside.values()) and not is_known(inside)


def leave_out(record: Record) -> LeftOut:
    """Leave out such a line, or as many as there are one after another."""
    count = record.fields.get(OTHERS)
    return OTHER_LINE._replace(number=count) if isinstance(count, int) else OTHER_LINE


Unwrap = Callable[[str], _Written | None]


def _form(lines: list[str]) -> Unwrap | None:
    """Return how lines were written down; None: not in any of these ways."""
    first = next((each for each in lines if each.strip()), "")
    if _CRI.match(first):
        return _cri
    if first.lstrip().startswith("{"):
        cut = len(lines) == 1 and _DOCKER_LINE.match(first) is not None  # of a long line only the beginning was seen
        return _docker if cut or _docker(first) is not None else None
    from kvtool.workload.logs.records.records import is_known

    for line in lines:
        if (found := _logger(line)) is not None and is_known(parsed_text(found.text)):
            return _Logger()
    return None


def _docker(line: str) -> _Written | None:
    if not line.lstrip().startswith('{"'):
        return None
    said = parsed_text(line)
    if not isinstance(said, dict) or not said.keys() >= _DOCKER or not isinstance(said["log"], str):
        return None
    text, stream = said["log"], str(said["stream"])
    return _Written(text.rstrip("\r\n"), said["time"], stream, text.endswith("\n") or len(text) < _DOCKER_PIECE)


def _cri(line: str) -> _Written | None:
    found = _CRI.match(line)
    return None if found is None else _Written(line[found.end() :], found[1], found[2], found[3] == "F")


def _logger(line: str) -> _Written | None:
    at = line.find("{")
    if at < 1 or not line.rstrip().endswith("}") or front_of(line, at) is None:
        return None
    return _Written(line[at:], None, "", True)


class _Logger:
    """JSON after what a logger writes before it."""

    def __init__(self) -> None:
        self._clock = LogClock()

    def __call__(self, line: str) -> _Written | None:
        at = line.find("{")
        front = front_of(line, at) if at > 0 else None
        if front is None or not front.strip():
            return _Written(line, None, "", True) if line.lstrip().startswith("{") else _Written(line, 0.0, "", True)
        return _Written(line[at:], self._clock.read(front), "", True)


def _is_of(server: Any, lines: list[str], unwrap: Unwrap, path: str) -> bool:
    texts = [line.text for each in lines if (line := unwrap(each)) is not None and not line.text.startswith("{")]
    return bool(server.begins("\n".join(texts).encode(), path))


def _whole_lines(reader: io.BufferedReader, unwrap: Unwrap) -> Iterator[tuple[int, int, _Written]]:
    """Yield each line as it was before it was cut, with the number and offset of its first piece; streams are distinguished."""
    open_: OrderedDict[str, tuple[int, int, _Written, list[str]]] = OrderedDict()
    for line in lines_of(reader):
        written = unwrap(line.text)
        if written is None:
            written = _Written(line.text, None, "", True)
        if written.whole and written.stream not in open_:
            yield line.number, line.offset, written
            continue
        begun = open_.pop(written.stream, None)
        number, offset, first, pieces = begun or (line.number, line.offset, written, [])
        pieces.append(written.text)
        if written.whole or len(pieces) >= _MOST_PIECES:
            yield number, offset, first._replace(text="".join(pieces))
        else:
            open_[written.stream] = (number, offset, first, pieces)
    for number, offset, first, pieces in open_.values():
        yield number, offset, first._replace(text="".join(pieces))


class _Inside(io.RawIOBase):
    """Lines without the time before them, each at the place of its first piece, so that lines keep their numbers."""

    def __init__(self, reader: io.BufferedReader, unwrap: Unwrap) -> None:
        super().__init__()
        self._pieces = self._read(reader, unwrap)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override] # typeshed: a wider Buffer
        if not self._rest:
            self._rest = next(self._pieces, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    @staticmethod
    def _read(reader: io.BufferedReader, unwrap: Unwrap) -> Iterator[bytes]:
        at = 1
        for number, _, line in _whole_lines(reader, unwrap):
            front = "" if line.time is None or line.text.startswith("{") else f"{line.time} "
            yield b"\n" * (number - at) + f"{front}{line.text}\n".encode(errors="replace")
            at = max(number, at) + 1


_EXAMPLE = r"""
{"timestamp": "2026-02-02T09:00:00Z", "line": "GET /health 200"}
{"timestamp": "2026-02-02T09:00:00Z",
 "line": "{\"model\": \"gpt-5.5\", \"messages\": [{\"role\": \"system\", \"content\": \"You are Mina.\"}, {\"role\": \"user\", \"content\": \"Is it open?\"}]}"}
"""  # noqa: E501 # JSON in a text cannot be broken
FORMAT = RecordFormat(
    "server-line", "a text in message, msg, log or line beside a time", is_other, leave_out, example=_EXAMPLE
)
FILE_KINDS = (
    FileKind(
        "written-lines",
        "lines with the prefix of Docker, Kubernetes or a logger",
        begins,
        records,
        example=(
            "2026-02-02T09:00:00.000000000Z stdout F ready\n"
            '2026-02-02T09:00:01.000000000Z stdout F {"model": "gpt-5.5", "messages": [{"role": "system", "content": '
            '"You are Mina."}, {"role": "user", "content": "Is it open?"}]}\n'
        ),
        file="pod.log",
    ),
)
