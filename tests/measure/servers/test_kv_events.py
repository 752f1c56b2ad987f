from __future__ import annotations

import base64
import json
import random
import tracemalloc
from pathlib import Path

import pytest

pytest.importorskip("msgspec")

import msgspec
import numpy as np

from kvtool.accounting.event_writer import EventWriter
from kvtool.engine.blocks.vllm_hashing import VllmHasher, event_hash
from kvtool.engine.events import AllBlocksCleared, BlockRemoved, BlockStored
from kvtool.errors import KvtoolError
from kvtool.measure.servers.kv_events import event_batches
from kvtool.measure.servers.kv_events import event_batches as kv_events
from kvtool.measure.servers.kv_events.event_batches import (
    MAX_PAYLOAD,
    MOST_PROBLEMS,
    ClearedBlocks,
    FollowedGroup,
    RemovedBlocks,
    StoredBlocks,
    low_64,
    read_event_file,
    read_payload,
)
from tests.measure.servers.published import CLEARED, as_rows, payload, removed, stored, write_recorded

SECRET = "hunter2-secret"


def test_an_event_is_the_same_as_map_and_as_array() -> None:
    events = [stored([7, 2**64 - 1], [1, 2, 3, 4], 5, extra_keys=[["salt"], None]), removed(7), CLEARED]
    maps = read_payload(payload(events), 3)
    rows = read_payload(payload(as_rows(events)), 3)
    assert maps.problems == rows.problems == ()
    first = maps.events[0]
    assert isinstance(first, StoredBlocks)
    assert (first.block_hashes, first.parent_block_hash, first.token_ids) == ((7, 2**64 - 1), 5, (1, 2, 3, 4))
    assert (first.block_size, first.extra_keys) == (2, (("salt",), None))
    for mapped, row in zip(maps.events, rows.events, strict=True):
        assert isinstance(row, type(mapped))
        same = [name for name in mapped.__struct_fields__ if name != "group_idx"]
        assert [getattr(mapped, name) for name in same] == [getattr(row, name) for name in same]
    assert [type(each) for each in maps.events[1:]] == [RemovedBlocks, ClearedBlocks]


def test_a_group_that_leaves_blocks_out_names_the_tokens_of_all() -> None:
    window = {**stored([7], list(range(8))), "kv_cache_spec_kind": "sliding_window", "group_idx": 0}
    none = {**window, "block_hashes": []}
    whole = {**stored([8, 9, 10, 11], list(range(8))), "kv_cache_spec_kind": "full_attention", "group_idx": 1}
    batch = read_payload(payload([none, window, whole]), 0)
    assert batch.problems == ()
    assert [getattr(each, "leaves_out_blocks", None) for each in batch.events] == [True, True, False]
    assert read_payload(payload([{**window, "token_ids": [1]}]), 0).problems  # less than its own blocks
    assert read_payload(payload([{**whole, "block_hashes": [8]}]), 0).problems  # this group leaves none out

    followed = FollowedGroup()
    gone = [read_payload(payload([{**removed(7), "group_idx": group}]), 0).events[0] for group in (0, 1)]
    takes = [followed.takes(each) for each in (*batch.events, *gone) if not isinstance(each, ClearedBlocks)]
    assert takes == [False, False, True, False, True]


def test_a_hash_of_bytes_has_the_bits_of_the_number() -> None:
    (whole,) = VllmHasher("sha256_cbor", "0").chain(np.arange(16, dtype="int32"), 16, None, None, None)
    batch = read_payload(payload([stored([bytes(whole)], list(range(16)))]), 0)
    (event,) = batch.events
    assert isinstance(event, StoredBlocks)
    assert low_64(event.block_hashes[0]) == event_hash(whole) == low_64(event_hash(whole))


def test_a_batch_of_newer_and_of_older_servers() -> None:
    assert read_payload(msgspec.msgpack.encode([1.5, []]), 0, rank=2).rank == 2
    later = read_payload(msgspec.msgpack.encode([1.5, [{**removed(1), "new": [1, 2]}], 3, "more"]), 0)
    assert (later.rank, later.problems, len(later.events)) == (3, (), 1)


WRONG = [
    ["BlockLost", [1]],
    {"type": SECRET},
    SECRET,
    7,
    None,
    [],
    {},
    {SECRET: 1},
    {"type": 5},
    {"type": "BlockStored"},
    {"type": "BlockStored", "block_hashes": [SECRET]},
    {"type": "BlockStored", "block_hashes": [-1]},
    {"type": "BlockStored", "block_hashes": [b"short"]},
    {"type": "BlockRemoved", "block_hashes": SECRET},
    stored([1], [1, 2]) | {"token_ids": [1, 2, 3], "block_size": 2},
    stored([1], [1, 2]) | {"token_ids": [SECRET, 2]},
    stored([1], [1, 2**40]),
    stored([1], [-1, 2]),
    stored([1], [1]) | {"block_size": 0},
    stored([1], [1], medium=SECRET * 1000),
    stored([1], [1], extra_keys=[None, None]),
    stored([1], [1], extra_keys=[[{SECRET: 1}]]),
    stored([1], [1], extra_keys=[[[[SECRET]]]]),
    stored([1], [1], session_id=b"\xff\xfe"),
]


def test_a_wrong_event_is_a_sentence_and_the_others_are_read() -> None:
    for event in WRONG:
        batch = read_payload(payload([removed(1), event, CLEARED]), 0)
        assert [type(each) for each in batch.events] == [RemovedBlocks, ClearedBlocks]
        assert batch.lost
        (said,) = batch.problems
        assert said.startswith("cannot read an event: ")
        assert SECRET not in said
        assert len(said) < 200


def test_a_payload_that_is_no_batch_is_a_sentence() -> None:
    for data in [
        b"",
        b"\xc1",
        b"\x93",
        SECRET.encode(),
        msgspec.msgpack.encode({"ts": 1, "events": []}),
        b"\x93\x01\xdd\xff\xff\xff\xff",  # four billion events are announced
        b"\x93\x01\x91\x82\xa4type\xabBlockStored\xacblock_hashes\xdd\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff\x01",
        b"\x93\x01\x91" + b"\x91" * 1_000_000,
        b"\x93\x01\x91" + b"\x81\x01" * 1_000_000,
        b"\x93\x01\x91\x82\xa4type\xabBlockStored\xaaextra_keys" + b"\x91" * 100_000,
        b"\x93\x01\x90\x00\x00",
    ]:
        batch = read_payload(data, 9)
        assert (batch.events, batch.seq, batch.lost) == ((), 9, True)
        assert batch.problems[0].startswith("cannot read a batch: ")
        assert "secret" not in batch.problems[0]


def test_a_payload_of_100_megabytes_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_events, "_batch", None)
    batch = read_payload(memoryview(bytes(100 << 20)), 1)
    assert batch.problems == ("a batch of 104,857,600 bytes is too large: 2,097,152 is the most",)
    assert batch.lost


def test_what_a_payload_costs_is_bounded(tmp_path: Path) -> None:
    for data, said in [
        (b"\x93\x01\xdd" + (2_000_000).to_bytes(4, "big") + b"\xc0" * 2_000_000, "cannot read a batch"),
        (b"\x93\x01\x91\xdd" + (1_000_000).to_bytes(4, "big") + b"\x91\xc0" * 1_000_000, "cannot read an event"),
        (b"\x93\x01\xdd" + (60_000).to_bytes(4, "big") + b"\xc0" * 60_000, "cannot read an event"),
    ]:
        line = json.dumps({"seq": 0, "payload_b64": base64.b64encode(data + b"\xc0").decode()})
        path = tmp_path / "events.jsonl"
        path.write_text(line)
        tracemalloc.start()
        (batch,) = read_event_file(path)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert said in batch.problems[0]
        assert batch.lost
        assert len(batch.problems) <= MOST_PROBLEMS
        assert peak < 8 * MAX_PAYLOAD


def test_more_batches_than_a_file_may_have_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_batches, "_MOST_FILE_BATCHES", 2)
    path = write_recorded(tmp_path / "kv_events.jsonl.gz", [payload([CLEARED])] * 3)
    with pytest.raises(KvtoolError, match="more than 2 batches") as caught:
        list(read_event_file(path))
    assert caught.value.place is not None
    assert caught.value.place.line == 3


def test_random_damage_never_raises() -> None:
    rng = random.Random(5)
    good = payload([stored([1, 2], list(range(8)), 9, extra_keys=[["a", ("b", 1)], None]), removed(3), CLEARED])
    for _ in range(3_000):
        data = bytearray(good)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        batch = read_payload(bytes(data[: rng.randint(0, len(data))]) if rng.random() < 0.3 else bytes(data), 0)
        assert batch.lost == bool(batch.problems)
        assert abs(batch.at) < 1e12


def test_what_profile_writes_is_read(tmp_path: Path) -> None:
    hashes = tuple(VllmHasher("sha256_cbor").chain(np.arange(32, dtype="int32"), 16, None, None, None))
    tokens = np.arange(32, dtype="int32")
    path = tmp_path / "events.jsonl"
    with EventWriter(path, block_size=16) as writer:
        writer.write([BlockStored(hashes, None, tokens, "salt"), BlockRemoved(hashes[1]), AllBlocksCleared()])
    batches = list(read_event_file(path))
    assert [batch.seq for batch in batches] == [None] * 3
    event = batches[0].events[0]
    assert isinstance(event, StoredBlocks)
    assert event.block_hashes == tuple(map(event_hash, hashes))
    assert event.extra_keys == (("salt",), None)


def test_a_recording_is_read_by_its_folder_and_by_its_file(tmp_path: Path) -> None:
    path = write_recorded(
        tmp_path / "kv_events.jsonl.gz", [payload([CLEARED]), b"\xc1", payload([removed(1)])], first=5
    )
    for given in (path, tmp_path):
        batches = list(read_event_file(given))
        assert [(batch.seq, batch.lost, len(batch.events)) for batch in batches] == [
            (5, False, 1),
            (6, True, 0),
            (7, False, 1),
        ]


def test_a_line_that_is_none_has_its_place(tmp_path: Path) -> None:
    for line, said in [
        ("{", "not JSON"),
        ("[1]", "not a KV event"),
        ('{"type": "hunter2-secret"}', "not a KV event"),
        ('{"payload_b64": "!", "seq": 1}', "not base64"),
        ('{"payload_b64": "", "seq": -1}', "`seq`"),
        ('{"payload_b64": "", "seq": true}', "`seq`"),
        ('{"payload_b64": 5, "seq": 1}', "not base64"),
        ('{"x": ' + "[" * 100_000, "nested too deeply"),
        ("[" * 100_000, "not a KV event"),
        ('{"payload_b64": "\udccf", "seq": 1}', "byte 0xcf is not UTF-8"),
        ('{"type": "\udccf"}', "not JSON|not a KV event"),
    ]:
        path = tmp_path / "events.jsonl"
        path.write_text(json.dumps(CLEARED) + "\n\n" + line + "\n", errors="surrogateescape")
        with pytest.raises(KvtoolError, match=said) as caught:
            list(read_event_file(path))
        assert caught.value.place is not None
        assert (caught.value.place.path, caught.value.place.line) == (str(path), 3)
        assert SECRET not in str(caught.value)
