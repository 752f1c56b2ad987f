"""KV events in files: messages of a server as a recording holds them, or the lines of `kvtool profile --events`."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kvtool.errors import KvtoolError, Place
from kvtool.measure.servers.kv_events.event_batches import (
    MAX_PAYLOAD,
    MAX_SEQUENCE,
    EventBatch,
    KVEvent,
    read_json_event,
    read_payload,
)
from kvtool.text.bounded_number import whole_number
from kvtool.text.files.compressed import open_bytes, refuse_bomb

RECORDED_EVENTS = "kv_events.jsonl.gz"
"""The file of a recording's folder that holds them."""
_MAX_LINE = 2 * MAX_PAYLOAD
_MOST_BATCHES, _MOST_EVENTS = 1 << 21, 1 << 23
"""Of a file: what is made of them stays in memory."""
_FREE = 64 << 20
"""Bytes that any file may unpack to."""
_HINT = "kvtool replay --record writes such files, and kvtool profile --events"


def read_event_file(path: str | Path) -> Iterator[EventBatch]:
    """The batches of a file, in order; KvtoolError with the line that is none. A payload that cannot be
    read is a batch that says so.

    A folder is that of a recording. The lines of `kvtool profile --events` come as one batch without a number for each event.
    """
    file = Path(path)
    if file.is_dir():
        file = file / RECORDED_EVENTS
    shown = str(file)
    with open_bytes(str(file), shown) as lines:
        number = size = batches = events = 0
        while line := lines.readline(_MAX_LINE):
            number += 1
            size += len(line)
            refuse_bomb(lines, shown, size, free=_FREE)
            if line.isspace():
                continue
            place = Place(shown, number, 1)
            if len(line) >= _MAX_LINE:
                raise KvtoolError(f"a line of more than {_MAX_LINE:,} bytes is no KV events", hint=_HINT, place=place)
            batch = _batch(line, place)
            batches += 1
            events += len(batch.events)
            if batches > _MOST_BATCHES or events > _MOST_EVENTS:
                many = f"{_MOST_BATCHES:,} batches or {_MOST_EVENTS:,} events"
                raise KvtoolError(f"more than {many} in one file of KV events", hint="cut it", place=place)
            yield batch


class _Message(msgspec.Struct):
    """A message as it was received: its payload in base64, and its number. What else the line says is passed over."""

    payload_b64: str
    seq: int | float | None = None


_message = msgspec.json.Decoder(_Message)


def _batch(line: bytes, place: Place) -> EventBatch:
    try:
        return _received(_message.decode(line), place)
    except msgspec.ValidationError as error:  # most often of a line of another form
        for name, wanted in (("seq", "no number of a batch"), ("payload_b64", "not base64")):
            if f"$.{name}`" in str(error):
                raise KvtoolError(f"`{name}` is {wanted}", hint=_HINT, place=place) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _not_json(error, place) from None
    try:
        event: KVEvent = read_json_event(line)
    except ValueError as error:
        raise KvtoolError(f"no KV event: {error}", hint=_HINT, place=place) from None
    return EventBatch((event,))


def _not_json(error: Exception, place: Place) -> KvtoolError:
    if isinstance(error, RecursionError):
        return KvtoolError("not JSON: nested too deeply", hint=_HINT, place=place)
    if isinstance(error, UnicodeDecodeError):
        return KvtoolError(f"not JSON: byte 0x{error.object[error.start]:02x} is not UTF-8", hint=_HINT, place=place)
    reason, _, rest = str(error).removeprefix("JSON is malformed: ").partition(" (byte ")
    column = whole_number(rest.removesuffix(")"), in_text=True) or 0
    return KvtoolError(f"not JSON: {reason}", hint=_HINT, place=Place(place.path, place.line, column + 1))


def _received(message: _Message, place: Place) -> EventBatch:
    seq, payload = whole_number(message.seq, most=MAX_SEQUENCE), message.payload_b64
    if seq is None:
        raise KvtoolError("`seq` is no number of a batch", hint=_HINT, place=place)
    try:
        data = base64.b64decode(payload, validate=True)
    except ValueError:
        raise KvtoolError("`payload_b64` is not base64", hint=_HINT, place=place) from None
    return read_payload(data, seq)
