"""KV events as JSON lines: what a consumer of vLLM's events would read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.event_writer import EventWriter, event_fields
from kvtool.engine.blocks.block_keys import BlockHash, Lora
from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.blocks.hashing import hash_ids
from kvtool.engine.blocks.vllm_hashing import VllmHasher, event_hash
from kvtool.engine.config import EngineConfig, HashAlgorithm
from kvtool.engine.events import AllBlocksCleared, BlockRemoved, BlockStored
from kvtool.engine.groups.kv_group import KVGroup
from kvtool.engine.request import Request
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account
from kvtool.errors import KvtoolError

BLOCK = 4
SQL = Lora("sql", "/a/b", id=3)


def scheduler(num_blocks: int | None, algorithm: HashAlgorithm = "sha256_cbor") -> Scheduler:
    config = EngineConfig(block_size=BLOCK, num_blocks=num_blocks, hash_algo=algorithm)
    return Scheduler(config, BlockManager(config, record_events=True))


def request(ids: list[int], outputs: list[int], **options: object) -> Request:
    return Request("r", len(ids), prompt_ids=np.array(ids, np.int32), output_ids=outputs, **options)  # type: ignore[arg-type]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_is_written_in_vllms_fields(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    engine = scheduler(4)
    with EventWriter(path, block_size=BLOCK) as writer:
        account(engine, request(list(range(6)), [7, 8, 9], cache_salt="s", lora=SQL))
        writer.write(engine.cache.take_events())
        account(engine, request([5] * 9, [1]))
        writer.write(engine.cache.take_events())
        assert engine.reset_prefix_cache()
        writer.write(engine.cache.take_events())
    hasher = VllmHasher("sha256_cbor")
    ids = np.array([0, 1, 2, 3, 4, 5, 7, 8], np.int32)
    own = [event_hash(one) for one in hasher.chain(ids, BLOCK, None, "s", SQL)]
    other = [event_hash(one) for one in hasher.chain(np.full(8, 5, np.int32), BLOCK, None, None, None)]
    group = {"medium": "GPU", "group_idx": 0}
    stored = {"type": "BlockStored", "block_size": 4, **group, "kv_cache_spec_kind": "full_attention"}
    assert lines(path) == [
        {
            **stored,
            "block_hashes": own[:1],
            "parent_block_hash": None,
            "token_ids": [0, 1, 2, 3],
            "lora_id": 3,
            "lora_name": "sql",
            "extra_keys": [["sql", "s"]],
        },
        {
            **stored,
            "block_hashes": own[1:],
            "parent_block_hash": own[0],
            "token_ids": [4, 5, 7, 8],
            "lora_id": 3,
            "lora_name": "sql",
            "extra_keys": [["sql"]],
        },
        {"type": "BlockRemoved", "block_hashes": own[1:], **group},
        {"type": "BlockRemoved", "block_hashes": own[:1], **group},
        {
            **stored,
            "block_hashes": other,
            "parent_block_hash": None,
            "token_ids": [5] * 8,
            "lora_id": None,
            "lora_name": None,
            "extra_keys": [None, None],
        },
        {"type": "AllBlocksCleared"},
    ]


def test_fields_stand_as_a_server_writes_them() -> None:
    """The order of vLLM 0.32, as recorded."""
    one = BlockHash(b"a" * 16)
    assert [*event_fields(BlockStored((one,), None), 4)] == [
        *("type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"),
        *("extra_keys", "group_idx", "kv_cache_spec_kind"),
    ]
    assert [*event_fields(BlockRemoved(one), 4)] == ["type", "block_hashes", "medium", "group_idx"]


def test_only_the_first_block_of_a_prompt_has_the_salt() -> None:
    first = BlockStored((BlockHash(b"a" * 16), BlockHash(b"b" * 16)), None, None, "s")
    later = BlockStored((BlockHash(b"c" * 16),), BlockHash(b"b" * 16), None, "s")
    assert event_fields(first, 4)["extra_keys"] == [["s"], None]
    assert event_fields(later, 4)["extra_keys"] == [None]


def test_a_trace_of_hashes_has_no_tokens(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    engine = scheduler(None)
    account(engine, Request("r", 8, prompt_hashes=hash_ids([1, 2]), max_tokens=1))
    with EventWriter(path, block_size=BLOCK) as writer:
        writer.write(engine.cache.take_events())
    (event,) = lines(path)
    assert event["token_ids"] is None
    assert event["block_hashes"] == [event_hash(one) for one in hash_ids([1, 2])]


@given(
    prompts=st.lists(
        st.tuples(
            st.lists(st.integers(0, 2), min_size=1, max_size=20),
            st.integers(1, 8),
            st.sampled_from([None, "s", "\udc80"]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_a_consumer_can_follow_the_cache(tmp_path_factory: pytest.TempPathFactory, prompts: list[Any]) -> None:
    """Stored minus removed is what the cache holds, and every stored block can be hashed again from its event."""
    path = tmp_path_factory.mktemp("events") / "e.jsonl"
    engine = scheduler(9)
    with EventWriter(path, block_size=BLOCK) as writer:
        for ids, outputs, salt in prompts:
            account(engine, request(ids, [1] * outputs, cache_salt=salt))
            writer.write(engine.cache.take_events())
    held: dict[int, int] = {}
    full: dict[int, BlockHash] = {event_hash(one): one for one in engine.cache.cached}
    for event in lines(path):
        for index, block in enumerate(event["block_hashes"]):
            held[block] = held.get(block, 0) + (1 if event["type"] == "BlockStored" else -1)
            if event["type"] == "BlockStored":
                above = event["block_hashes"][index - 1] if index else event["parent_block_hash"]
                tokens = np.array(event["token_ids"][index * BLOCK : (index + 1) * BLOCK], np.int32)
                salt = (event["extra_keys"][index] or [None])[0]
                if above is None:
                    (again,) = VllmHasher("sha256_cbor").chain(tokens, BLOCK, None, salt, None)
                elif above in full:
                    assert salt is None
                    (again,) = VllmHasher("sha256_cbor").chain(tokens, BLOCK, full[above], None, None)
                else:
                    continue  # evicted since; only 64 bits of it are known
                assert event_hash(again) == block
                full[block] = again
    assert {block for block, copies in held.items() if copies} == {event_hash(one) for one in engine.cache.cached}
    assert sum(held.values()) == sum(one is not None for one in engine.cache.hashes)


def test_events_that_nobody_asked_for_cost_nothing() -> None:
    config = EngineConfig(block_size=BLOCK)
    cache = BlockManager(config)
    account(Scheduler(config, cache), request(list(range(9)), [1]))
    assert cache.events is None
    assert cache.take_events() == []


def test_what_was_stored_is_told_apart_by_its_hashes_alone() -> None:
    block_hash = (BlockHash(b"a" * 16),)
    assert BlockStored(block_hash, None, np.zeros(4, np.int32), "s", SQL) == BlockStored(block_hash, None)


def test_the_file_appears_when_the_writer_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("old")
    writer = EventWriter(path, block_size=4)
    writer.write([AllBlocksCleared(), BlockRemoved(BlockHash(b"a" * 16))] * 50_000)
    assert path.read_text() == "old"
    writer.close()
    assert len(lines(path)) == 100_000
    assert [entry.name for entry in tmp_path.iterdir()] == ["events.jsonl"]


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("old")

    def interrupted() -> None:
        with EventWriter(path, block_size=4) as writer:
            writer.write([AllBlocksCleared()])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["events.jsonl"]


def test_a_path_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "no" / "e.jsonl", tmp_path / "file" / "e.jsonl", tmp_path / ("x" * 300)):
        with pytest.raises(KvtoolError, match="cannot write ") as caught:
            EventWriter(path, block_size=4).close()
        assert caught.value.exit_code == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_groups_of_layers_are_told_apart() -> None:
    """A store may have no block at all, also of a prompt with a salt; windows, images and tokens behind a block are told."""
    groups = (KVGroup(kind="sliding", block_size=4, window=9), KVGroup(kind="mamba", block_size=8))
    one = BlockHash(b"a" * 16)
    keys = ((("lora", "x", "/x"), ("mm", "cat", -2), ("cache_salt", "s"), ("prompt_embeds", b"\x01")),)
    stored = BlockStored(
        (one,), None, None, "s", group=1, block_size=8, extra_keys=keys, lookahead_ids=(np.array([5], dtype=np.int32),)
    )
    fields = event_fields(stored, 4, groups=groups)
    assert fields["group_idx"] == 1
    assert fields["kv_cache_spec_kind"] == "mamba"
    assert fields["block_size"] == 8
    assert fields["extra_keys"] == [["x", ["cat", -2], "s", "01"]]
    assert fields["lookahead_token_ids"] == [[5]]
    quiet = event_fields(stored, 4, groups=groups, tokens=False)
    assert quiet["extra_keys"] == [["x", ["cat", -2], "01"]]
    assert "lookahead_token_ids" not in quiet
    empty = event_fields(BlockStored((), None, None, "s", group=0, extra_keys=()), 4, groups=groups)
    assert empty["extra_keys"] == []
    assert empty["kv_cache_spec_sliding_window"] == 9
    assert event_fields(BlockRemoved(one, 1), 4, groups=groups)["group_idx"] == 1
