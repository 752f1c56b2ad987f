"""KV events as a server publishes them: batches of msgpack, read with a schema and limits, as what they hold is hostile input.

A payload is the array `[time, events, data-parallel rank]`; an event is a map that names its type, or, of older servers, an array
that begins with it. The names of the fields and their order are vLLM's.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.vllm_hashing import event_hash
from kvtool.errors import KvtoolError, Place
from kvtool.text.bounded_number import whole_number
from kvtool.text.files.compressed import open_bytes, refuse_bomb

MAX_PAYLOAD = 2 << 20
"""Bytes of one batch; a step of 8,192 tokens publishes about 0.1 MB."""
_MAX_LINE = 4 * MAX_PAYLOAD
"""Bytes of an event as JSON."""
_MOST_EVENTS = 1 << 16
"""Of one batch."""
MOST_PROBLEMS = 8
"""Of one batch that are kept; more are only counted."""
MAX_SEQUENCE = (1 << 64) - 2
"""The largest number of a batch; the next one, eight bytes of ones, ends a server's answer to a question for old batches."""
_MAX_PARTS = 16  # of a block's extra keys: a bound for hostile servers
MEDIUM = "GPU"
"""What a server calls the memory of its own prefix cache, on CPUs, too; other names are tiers below it."""

_KEEP_ALL = (None, "full_attention", "mla_attention")
"""Kinds of groups that keep every block, as servers name them; older ones name none."""
ServedHash = int | bytes
"""A block's hash: its low 64 bits, or all of it where the server publishes bytes."""
_Token = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
_Text = Annotated[str, msgspec.Meta(max_length=1024)]
RECORDED_EVENTS = "kv_events.jsonl.gz"
"""The file of a recording's folder that holds them."""
_MAX_FILE_LINE = 2 * MAX_PAYLOAD
_MOST_FILE_BATCHES, _MOST_FILE_EVENTS = 1 << 21, 1 << 23
"""Of a file: what is made of them stays in memory."""
_FREE = 64 << 20
"""Bytes that any file may unpack to."""
_HINT = "kvtool replay --record and kvtool profile --events write such files"


class StoredBlocks(msgspec.Struct, frozen=True, gc=False, tag="BlockStored", tag_field="type", omit_defaults=True):
    """Blocks that can be hit from now on; `token_ids` are those of all of them, `extra_keys` holds an entry a block."""

    block_hashes: tuple[ServedHash, ...]
    parent_block_hash: ServedHash | None = None
    token_ids: tuple[_Token, ...] | None = None
    block_size: Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)] = 1
    lora_id: int | None = None
    medium: _Text | None = None
    lora_name: _Text | None = None
    extra_keys: tuple[tuple[Any, ...] | None, ...] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: _Text | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: _Text | None = None
    ownership: _Text | None = None
    session_id: _Text | None = None

    @property
    def leaves_out_blocks(self) -> bool:
        """Return whether its group keeps only some blocks, as windows and states do: `token_ids` are then of all, without gaps."""
        return self.kv_cache_spec_kind not in _KEEP_ALL


class RemovedBlocks(msgspec.Struct, frozen=True, gc=False, tag="BlockRemoved", tag_field="type", omit_defaults=True):
    """One copy of each of these blocks was evicted."""

    block_hashes: tuple[ServedHash, ...]
    medium: _Text | None = None
    group_idx: int | None = None
    locality: _Text | None = None
    ownership: _Text | None = None


class ClearedBlocks(
    msgspec.Struct, frozen=True, gc=False, tag="AllBlocksCleared", tag_field="type", omit_defaults=True
):
    """The cache was reset."""


KVEvent = StoredBlocks | RemovedBlocks | ClearedBlocks


class FollowedGroup:
    """The group of a server's KV cache groups whose blocks are followed: the first one that keeps every block."""

    def __init__(self) -> None:
        self._group: int | None = None

    def takes(self, event: StoredBlocks | RemovedBlocks) -> bool:
        """Return whether an event is of this group, and of the server's own cache."""
        if event.medium not in (None, MEDIUM):
            return False
        group = event.group_idx or 0
        if isinstance(event, StoredBlocks):
            if event.leaves_out_blocks:
                return False
            self._group = group if self._group is None else self._group
        return group == (self._group or 0)


class _StoredRow(StoredBlocks, frozen=True, array_like=True, tag="BlockStored", tag_field="type"):
    pass


class _RemovedRow(RemovedBlocks, frozen=True, array_like=True, tag="BlockRemoved", tag_field="type"):
    pass


class _ClearedRow(ClearedBlocks, frozen=True, array_like=True, tag="AllBlocksCleared", tag_field="type"):
    pass


class _Payload(msgspec.Struct, array_like=True):
    ts: float
    events: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=_MOST_EVENTS)]
    data_parallel_rank: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)] | None = None


_batch = msgspec.msgpack.Decoder(_Payload)
_map = msgspec.msgpack.Decoder(KVEvent)
_row = msgspec.msgpack.Decoder(_StoredRow | _RemovedRow | _ClearedRow)
_json_line = msgspec.json.Decoder(KVEvent)


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events that one step of a server published, or that a file contains.

    `seq` counts the publisher's batches from 0 (None: from a file that holds every event); `at` is the server's clock, in seconds.
    `problems` says what could not be read, without any of its text; `more_problems` counts those that it leaves out. `lost`: what
    was stored or removed may be among them.
    """

    events: tuple[KVEvent, ...]
    seq: int | None = None
    at: float = 0.0
    rank: int = 0
    problems: tuple[str, ...] = ()
    lost: bool = False
    unread: int = 0
    """How many problems there were; not all are among `problems`."""


def read_payload(payload: bytes | memoryview, seq: int | None, *, rank: int = 0) -> EventBatch:
    """Return the batch of a message; never an exception, as a publisher may send anything. `rank` where the payload names none."""
    if len(payload) > MAX_PAYLOAD:
        said = f"a batch of {len(payload):,} bytes is too large: {MAX_PAYLOAD:,} is the most"
        return EventBatch((), seq, rank=rank, problems=(said,), lost=True)
    try:
        read = _batch.decode(payload)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        return EventBatch((), seq, rank=rank, problems=(f"cannot read a batch: {_why(error)}",), lost=True)
    events: list[KVEvent] = []
    problems: list[str] = []
    for raw in read.events:
        event = _event(raw)
        if not isinstance(event, str):
            events.append(event)
        elif len(problems) < MOST_PROBLEMS:
            problems.append(f"cannot read an event: {event}")
    at = read.ts if abs(read.ts) < 1e12 else 0.0  # also False for nan
    named = rank if read.data_parallel_rank is None else read.data_parallel_rank
    return EventBatch(tuple(events), seq, at, named, tuple(problems), bool(problems), len(read.events) - len(events))


def _event(raw: msgspec.Raw) -> KVEvent | str:
    """Return the event; what is wrong with it, where it is none."""
    data = memoryview(raw)
    try:
        event: KVEvent = (_row if _is_array(data[0]) else _map).decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        return _why(error)
    return _wrong(event) or event


def read_json_event(data: bytes) -> KVEvent:
    """Return the event that a line of JSON holds, as `kvtool profile --events` writes it; ValueError with what is wrong with it."""
    if len(data) > _MAX_LINE:
        raise ValueError(f"{len(data):,} bytes, {_MAX_LINE:,} is the most")
    try:
        event: KVEvent = _json_line.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(_why(error)) from None
    wrong = _wrong(event)
    if wrong is not None:
        raise ValueError(wrong)
    return event


def low_64(block_hash: ServedHash) -> int:
    """Return the 64 bits of a hash in which every server's events agree."""
    return event_hash(BlockHash(block_hash)) if isinstance(block_hash, bytes) else block_hash


def _is_array(first: int) -> bool:
    return first & 0xF0 == 0x90 or first in (0xDC, 0xDD)


def _wrong(event: KVEvent) -> str | None:
    """Return what is wrong beyond the schema: each block has its hash, its tokens and its keys."""
    if isinstance(event, ClearedBlocks):
        return None
    hashes = event.block_hashes
    if any(len(each) not in (16, 32) if isinstance(each, bytes) else not 0 <= each < 1 << 64 for each in hashes):
        return "a hash is neither a 64-bit number nor 16 or 32 bytes"
    if isinstance(event, RemovedBlocks):
        return None
    tokens = None if event.token_ids is None else len(event.token_ids)
    wanted = len(hashes) * event.block_size
    if tokens is not None and (tokens < wanted if event.leaves_out_blocks else tokens != wanted):
        return f"{tokens:,} tokens for {len(hashes):,} blocks of {event.block_size:,}"
    if event.extra_keys is not None and len(event.extra_keys) != len(hashes):
        return f"keys of {len(event.extra_keys):,} blocks for {len(hashes):,}"
    if any(_deep(key) for keys in event.extra_keys or () for key in keys or ()):
        return "a key of a block is nested"
    return None


def _deep(key: object) -> bool:
    """Return whether a key is more than a value, or a short list of values: a picture's hash with its place."""
    if isinstance(key, list | tuple):
        return len(key) > _MAX_PARTS or any(isinstance(part, list | tuple | dict) for part in key)
    return isinstance(key, dict)


def _why(error: Exception) -> str:
    """Return the decoder's reason: types and places by number, and none of a payload's text."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    said = str(error)
    if "Invalid value" in said:  # names the value
        return "of unknown type"
    return said.split("\n")[0][:120]


def read_event_file(path: str | Path) -> Iterator[EventBatch]:
    """Yield the batches of a file, in order; KvtoolError with the line that is none. A payload that cannot be read is a batch that
    says so.

    A folder is that of a recording. The lines of `kvtool profile --events` come as one batch without a number for each event.
    """
    file = Path(path)
    if file.is_dir():
        file = file / RECORDED_EVENTS
    shown = str(file)
    with open_bytes(str(file), shown) as lines:
        number = size = batches = events = 0
        while line := lines.readline(_MAX_FILE_LINE):
            number += 1
            size += len(line)
            refuse_bomb(lines, shown, size, free=_FREE)
            if line.isspace():
                continue
            place = Place(shown, number, 1)
            if len(line) >= _MAX_FILE_LINE:
                raise KvtoolError(
                    f"a line of more than {_MAX_FILE_LINE:,} bytes is no KV events", hint=_HINT, place=place
                )
            batch = _batch_of_line(line, place)
            batches += 1
            events += len(batch.events)
            if batches > _MOST_FILE_BATCHES or events > _MOST_FILE_EVENTS:
                many = f"{_MOST_FILE_BATCHES:,} batches or {_MOST_FILE_EVENTS:,} events"
                raise KvtoolError(f"more than {many} in one file of KV events", hint="cut it", place=place)
            yield batch


class _Message(msgspec.Struct):
    """A message as it was received: its payload in base64, and its number. What else the line says is passed over."""

    payload_b64: str
    seq: int | float | None = None


_message = msgspec.json.Decoder(_Message)


def _batch_of_line(line: bytes, place: Place) -> EventBatch:
    try:
        return _received(_message.decode(line), place)
    except msgspec.ValidationError as error:  # most often of a line of another form
        for name, wanted in (("seq", "not a batch number"), ("payload_b64", "not base64")):
            if f"$.{name}`" in str(error):
                raise KvtoolError(f"`{name}` is {wanted}", hint=_HINT, place=place) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _not_json(error, line, place) from None
    try:
        event: KVEvent = read_json_event(line)
    except ValueError as error:
        raise KvtoolError(f"not a KV event: {error}", hint=_HINT, place=place) from None
    return EventBatch((event,))


def _not_json(error: Exception, line: bytes, place: Place) -> KvtoolError:
    if isinstance(error, RecursionError):
        return KvtoolError("not JSON: nested too deeply", hint=_HINT, place=place)
    try:
        line.decode()
    except UnicodeDecodeError as other:  # what msgspec raises for it depends on its version
        return KvtoolError(f"not JSON: byte 0x{line[other.start]:02x} is not UTF-8", hint=_HINT, place=place)
    reason, _, rest = str(error).removeprefix("JSON is malformed: ").partition(" (byte ")
    column = whole_number(rest.removesuffix(")"), in_text=True) or 0
    return KvtoolError(f"not JSON: {reason}", hint=_HINT, place=Place(place.path, place.line, column + 1))


def _received(message: _Message, place: Place) -> EventBatch:
    seq, payload = whole_number(message.seq, most=MAX_SEQUENCE), message.payload_b64
    if seq is None:
        raise KvtoolError("`seq` is not a batch number", hint=_HINT, place=place)
    try:
        data = base64.b64decode(payload, validate=True)
    except ValueError:
        raise KvtoolError("`payload_b64` is not base64", hint=_HINT, place=place) from None
    return read_payload(data, seq)
