"""KV events in files: messages of a server as a recording holds them, or the lines of `kvtool profile --events`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvtool.errors import KvtoolError, Place
from kvtool.measure.servers.kv_events import (
    MAX_PAYLOAD,
    MAX_SEQUENCE,
    EventBatch,
    KVEvent,
    read_json_event,
    read_payload,
)
from kvtool.text.bounded_number import whole_number
from kvtool.text.files.compressed import open_bytes
from kvtool.text.files.json_stream import NotJSONError, parse

RECORDED_EVENTS = "kv_events.jsonl.gz"
"""The file of a recording's folder that holds them."""
_MAX_LINE = 8 * MAX_PAYLOAD
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
        number = 0
        while line := lines.readline(_MAX_LINE):
            number += 1
            if line.isspace():
                continue
            place = Place(shown, number, 1)
            if len(line) >= _MAX_LINE:
                raise KvtoolError(f"a line of more than {_MAX_LINE:,} bytes is no KV events", hint=_HINT, place=place)
            yield _batch(line, place)


def _batch(line: bytes, place: Place) -> EventBatch:
    try:
        value = parse(line)
    except NotJSONError as error:
        said = Place(place.path, place.line, error.index + 1)
        raise KvtoolError(f"not JSON: {error.reason}", hint=_HINT, place=said) from None
    if isinstance(value, dict) and "payload_b64" in value:
        return _message(value, place)
    try:
        event: KVEvent = read_json_event(line)
    except ValueError as error:
        raise KvtoolError(f"no KV event: {error}", hint=_HINT, place=place) from None
    return EventBatch((event,))


def _message(value: dict[str, Any], place: Place) -> EventBatch:
    """A message as it was received: its number and its payload in base64."""
    seq, payload = whole_number(value.get("seq"), most=MAX_SEQUENCE), value["payload_b64"]
    if seq is None:
        raise KvtoolError("`seq` is no number of a batch", hint=_HINT, place=place)
    try:
        data = base64.b64decode(payload, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise KvtoolError("`payload_b64` is not base64", hint=_HINT, place=place) from None
    return read_payload(data, seq)
