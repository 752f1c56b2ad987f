"""Block hashes: what they tell apart, and vLLM's byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.blocks.block_keys import BlockHash, Lora
from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.blocks.hashing import NATIVE, BlockHasher, block_hasher, extend_hashes, hash_ids
from kvtool.engine.blocks.vllm_hashing import VllmHasher, event_hash, none_hash
from kvtool.engine.config import EngineConfig, HashAlgorithm
from kvtool.engine.engine_error import EngineError
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.sequential import account

ALGORITHMS: list[HashAlgorithm] = ["native", "sha256", "sha256_cbor", "xxhash", "xxhash_cbor"]
CBOR: list[HashAlgorithm] = ["sha256_cbor", "xxhash_cbor"]
SQL = Lora("sql", "/a/b", id=3)

Value = int | str | bytes | None | Sequence["Value"]


def cbor(value: Value) -> bytes:
    """RFC 8949 in the plainest words, for what block hashes are made of."""
    if value is None:
        return b"\xf6"
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    return head(4, len(value)) + b"".join(cbor(item) for item in value)


def head(major: int, number: int) -> bytes:
    first = major << 5
    if number < 24:
        return bytes([first + number])
    if number < 0x100:
        return bytes([first + 24, number])
    if number < 0x10000:
        return bytes([first + 25]) + number.to_bytes(2, "big")
    return bytes([first + 26]) + number.to_bytes(4, "big")


def request(ids: Sequence[int], salt: str | None = None, lora: Lora | None = None) -> Request:
    return Request("r", len(ids), prompt_ids=np.array(ids, np.int32), cache_salt=salt, lora=lora)


def hashes(
    hasher: BlockHasher, ids: Sequence[int], block_size: int, salt: str | None = None, lora: Lora | None = None
) -> list[BlockHash]:
    whole = request(ids, salt, lora)
    extend_hashes(whole, block_size, hasher)
    return whole.block_hashes


# Made with cbor2 and pickle, as vLLM does, from tokens at the edges of CBOR's integer widths, an adapter and a salt.
EDGES = [0, 23, 24, 255, 256, 65535, 65536, 2**31 - 1]
KNOWN: dict[HashAlgorithm, list[str]] = {
    "sha256_cbor": [
        "6b1217ce4c711cd89a62ea009e50de06720dfe2c1350ee0a576718898d1cbc90",
        "40ee3295d4b8986fd295626c09a87c4ddeba54faff9bf8c5045235714226e2a3",
    ],
    "xxhash_cbor": ["d84468106fb1becfa7de8307b8d92e26", "512926a3908cab1d63b894d9e0b177f9"],
    "sha256": [
        "b47963dd71a7a8ddcc6919b24b3cb255420cf2633fb73e1b996dee3b3f644917",
        "af8973bc03ce0fa7dad91d30b21e2182a30c29c398479fedc52f83ce3efe7bd4",
    ],
    "xxhash": ["374c7374e28ee5e87a283c91aeec0afa", "6e5bc9a60b1bbd8b30a041f432cdaedb"],
}


def test_the_hashes_are_vllms() -> None:
    for algorithm in KNOWN:
        got = hashes(VllmHasher(algorithm, "7"), EDGES, 4, "t\u00e9", SQL)
        assert [block_hash.hex() for block_hash in got] == KNOWN[algorithm]


def test_the_parent_of_first_blocks_comes_from_the_seed() -> None:
    assert none_hash("sha256_cbor") == hashlib.sha256(cbor("vllm-none-hash")).digest()
    assert none_hash("sha256_cbor", "0") == hashlib.sha256(cbor("0")).digest()
    assert none_hash("xxhash_cbor", "0").hex() == "1ebe36576dcb573f26b99533a20aaeca"  # of a recorded vLLM 0.33
    assert none_hash("xxhash_cbor", "") != none_hash("xxhash_cbor")


@given(
    ids=st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(0, 70_000), min_size=1, max_size=60),
    block_size=st.sampled_from([1, 3, 16, 24, 30]),
    salt=st.sampled_from([None, "", "s", "x" * 300]),
    lora=st.sampled_from([None, SQL, Lora("é" * 30, "")]),
    algorithm=st.sampled_from(CBOR),
)
def test_cbor_hashes_are_digests_of_the_triple(
    ids: list[int], block_size: int, salt: str | None, lora: Lora | None, algorithm: HashAlgorithm
) -> None:
    expected: list[bytes] = []
    parent: bytes = none_hash(algorithm)
    for index in range(len(ids) // block_size):
        extras = [("lora", lora.name, lora.path)] if lora else []
        extras += [("cache_salt", salt)] if salt and not index else []  # type: ignore[list-item]
        data = cbor([parent, ids[index * block_size : (index + 1) * block_size], extras or None])
        parent = hashlib.sha256(data).digest() if algorithm == "sha256_cbor" else xxhash.xxh3_128_digest(data)
        expected.append(parent)
    assert hashes(VllmHasher(algorithm), ids, block_size, salt, lora) == expected


def test_what_must_not_be_shared_has_other_hashes() -> None:
    for algorithm in ALGORITHMS:
        hasher = block_hasher(algorithm)
        ids = list(range(8))
        seen = [
            *hashes(hasher, ids, 4),
            *hashes(hasher, [9, *ids[1:]], 4),
            *hashes(hasher, ids, 4, "salt"),
            *hashes(hasher, ids, 4, None, SQL),
            *hashes(hasher, ids, 4, "salt", SQL),
            *hashes(hasher, ids, 4, None, Lora("sql", "/a/c")),
            *hashes(hasher, ids, 4, None, Lora("sq", "l/a/b")),
        ]
        assert len(set(seen)) == len(seen) == 14
        assert hashes(hasher, ids, 4, "") == seen[:2]  # an empty salt is none
        assert hashes(hasher, ids, 4, None, Lora("sql", "/a/b", id=9)) == seen[6:8]  # an adapter's number is not hashed


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(ids=st.lists(st.integers(0, 300), min_size=1, max_size=40), cut=st.integers(0, 40))
def test_a_chain_goes_on_where_it_stopped(algorithm: HashAlgorithm, ids: list[int], cut: int) -> None:
    """Generated tokens fill blocks later; the chain must be that of a prompt which had them from the start."""
    hasher = block_hasher(algorithm)
    cut = min(max(cut, 1), len(ids))
    grown = request(ids[:cut], "salt", SQL)
    extend_hashes(grown, 4, hasher)
    for token in ids[cut:]:
        grown.append_output(token)
        extend_hashes(grown, 4, hasher)
    assert grown.block_hashes == hashes(hasher, ids, 4, "salt", SQL)


def test_events_publish_the_low_64_bits() -> None:
    block_hash = BlockHash(bytes.fromhex("00112233445566778899aabbccddeeff"))
    assert event_hash(block_hash) == 0x8899AABBCCDDEEFF


def test_the_engine_hits_alike_with_every_algorithm() -> None:
    for algorithm in ALGORITHMS:
        config = EngineConfig(block_size=4, num_blocks=20, hash_algo=algorithm)
        scheduler = Scheduler(config, BlockManager(config))
        hits = []
        for salt, lora in [(None, None), (None, None), ("s", None), (None, SQL), ("s", SQL), (None, SQL), ("s", None)]:
            one = request(range(10), salt, lora)
            account(scheduler, one)
            scheduler.check()
            hits.append(one.num_cached_tokens)
        assert hits == [0, 8, 0, 0, 0, 8, 8]


def test_traces_of_hashes_work_with_every_algorithm() -> None:
    for algorithm in ALGORITHMS:
        config = EngineConfig(block_size=4, num_blocks=20, hash_algo=algorithm)
        scheduler = Scheduler(config, BlockManager(config))
        hits = []
        for blocks in ([1, 2, 3], [1, 2, 4], [1, 2, 3]):
            one = Request("r", 12, prompt_hashes=hash_ids(blocks), max_tokens=6)
            scheduler.add(one)
            while len(scheduler):
                step = scheduler.schedule()
                scheduler.update(step, DryRunner().run(step))
            hits.append(one.num_cached_tokens)
        assert hits == [0, 8, 8]


def test_the_engine_takes_the_seed_of_its_configuration() -> None:
    config = EngineConfig(block_size=4, hash_algo="xxhash_cbor", hash_seed="0")
    cache = BlockManager(config, record_events=True)
    scheduler = Scheduler(config, cache)
    account(scheduler, request(range(9)))
    assert cache.hashes[1:3] == hashes(VllmHasher("xxhash_cbor", "0"), range(9), 4)


def test_the_seed_means_nothing_to_native_hashes() -> None:
    assert block_hasher("native", "1") is NATIVE


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(EngineError, match="unknown hash algorithm `md5`"):
        EngineConfig(hash_algo="md5")  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="vLLM has no hash algorithm `native`"):
        VllmHasher("native")


def test_ids_of_any_size_name_blocks() -> None:
    sizes = [1, 2**127 - 1, 2**127, 2**128 + 1, 2**255, -(2**200), -1, 16**64 - 1]
    found = [hash_ids([number])[0] for number in sizes]
    assert len(set(found)) == len(sizes)
    assert hash_ids([5, 2**300])[0] == hash_ids([5])[0]
    assert hash_ids([2**300 + 5])[0] != hash_ids([5])[0]
