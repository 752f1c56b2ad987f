"""vLLM's own block hashes, so that events can be matched with those of a live server.

A block's hash is the digest of the triple (parent's hash, tokens, extras), written in CBOR or pickled. Extras are None or, in this
order, ("lora", name, path) for every block, ("mm", id, offset) for images, ("cache_salt", salt) for a prompt's first block and
("prompt_embeds", digest). Where a hash covers tokens after its block, extras are (those or None, *tokens). Pickles are only as
stable as Python and vLLM make them; they agree with vLLM 0.33.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import xxhash

from kvtool.engine.blocks.block_keys import BlockHash, ExtraKeys, Lora
from kvtool.engine.config import HashAlgorithm
from kvtool.engine.engine_error import EngineError

Extras = tuple[object, ...] | None
"""Type of the triple's third item."""

DEFAULT_SEED = "vllm-none-hash"
"""vLLM's where PYTHONHASHSEED is not set. It then draws a random one for xxhash: such a server's hashes cannot be matched."""

_NEGATIVE, _BYTES, _TEXT, _ARRAY = 0x20, 0x40, 0x60, 0x80


def event_hash(block_hash: BlockHash) -> int:
    """Return the hash as KV events publish it: its low 64 bits."""
    return int.from_bytes(block_hash[-8:], "big")


def none_hash(algorithm: HashAlgorithm, seed: str | None = None) -> BlockHash:
    """Return the parent of a prompt's first block."""
    text = DEFAULT_SEED if seed is None else seed
    return BlockHash(_digest(algorithm)(_cbor_text(text) if algorithm.endswith("_cbor") else _pickled(text)))


class VllmHasher:
    """Hash blocks as a vLLM server with this algorithm and this PYTHONHASHSEED does (None: not set)."""

    def __init__(self, algorithm: HashAlgorithm, seed: str | None = None) -> None:
        self.none_hash = none_hash(algorithm, seed)
        self._hash = _digest(algorithm)
        self._encode = _cbor_blocks if algorithm.endswith("_cbor") else _pickled_blocks

    def chain(
        self,
        tokens: npt.NDArray[np.int32],
        block_size: int,
        parent: BlockHash | None,
        cache_salt: str | None,
        lora: Lora | None,
        lookahead: int = 0,
    ) -> list[BlockHash]:
        last = self.none_hash if parent is None else parent
        hashes: list[BlockHash] = []
        every: ExtraKeys = (("lora", lora.name, lora.path),) if lora is not None else ()
        first: ExtraKeys = (*every, ("cache_salt", cache_salt)) if cache_salt and parent is None else every
        encode = self._encode(tokens, block_size)
        ahead: list[int] = tokens[block_size:].tolist() if lookahead else []
        for index in range((len(tokens) - lookahead) // block_size):
            extras: Extras = (first if index == 0 else every) or None
            if lookahead:
                extras = (extras, *ahead[index * block_size : index * block_size + lookahead])
            last = BlockHash(self._hash(encode(index, last, extras)))
            hashes.append(last)
        return hashes

    def block(
        self,
        tokens: npt.NDArray[np.int32],
        block_size: int,
        parent: BlockHash | None,
        cache_salt: str | None,
        lora: Lora | None,
        content: tuple[ExtraKeys, ExtraKeys],
    ) -> BlockHash:
        images, embeds = content
        every: ExtraKeys = (("lora", lora.name, lora.path),) if lora is not None else ()
        salt: ExtraKeys = (("cache_salt", cache_salt),) if cache_salt and parent is None else ()
        extras: Extras = (*every, *images, *salt, *embeds) or None
        if len(tokens) > block_size:
            extras = (extras, *tokens[block_size:].tolist())
        encode = self._encode(tokens[:block_size], block_size)
        return BlockHash(self._hash(encode(0, self.none_hash if parent is None else parent, extras)))


Encode = Callable[[int, bytes, Extras], bytes]
"""Writer of a block's triple: its index among the given ones, its parent's hash, its extras."""


def _digest(algorithm: HashAlgorithm) -> Callable[[bytes], bytes]:
    if algorithm in ("sha256", "sha256_cbor"):
        return lambda data: hashlib.sha256(data).digest()
    if algorithm in ("xxhash", "xxhash_cbor"):
        return xxhash.xxh3_128_digest
    raise EngineError(f"vLLM has no hash algorithm `{algorithm}`")


def _pickled(value: object) -> bytes:
    return pickle.dumps(value, protocol=5)


def _pickled_blocks(tokens: npt.NDArray[np.int32], block_size: int) -> Encode:
    ids: list[int] = tokens.tolist()

    def encode(index: int, parent: bytes, extras: Extras) -> bytes:
        block = tuple(ids[index * block_size : (index + 1) * block_size])
        return _pickled((parent, block, extras))

    return encode


def _cbor_blocks(tokens: npt.NDArray[np.int32], block_size: int) -> Encode:
    data, starts = _cbor_integers(tokens)
    array = _cbor_head(_ARRAY, block_size)

    def encode(index: int, parent: bytes, extras: Extras) -> bytes:
        block = data[starts[index * block_size] : starts[(index + 1) * block_size]]
        return b"\x83" + _cbor_head(_BYTES, len(parent)) + parent + array + block + _cbor_extras(extras)

    return encode


def _cbor_extras(extras: object) -> bytes:
    """Encode an item of the extras with its contents: None, numbers, texts, bytes, and tuples of them."""
    if extras is None:
        return b"\xf6"
    if isinstance(extras, tuple):
        return _cbor_head(_ARRAY, len(extras)) + b"".join(map(_cbor_extras, extras))
    if isinstance(extras, int):
        return _cbor_head(_NEGATIVE, ~extras) if extras < 0 else _cbor_head(0, extras)
    if isinstance(extras, bytes):
        return _cbor_head(_BYTES, len(extras)) + extras
    assert isinstance(extras, str)
    return _cbor_text(extras)


def _cbor_text(text: str) -> bytes:
    data = text.encode(errors="surrogatepass")
    return _cbor_head(_TEXT, len(data)) + data


def _cbor_head(major: int, value: int) -> bytes:
    """Return a CBOR item's head: its major type and a number in as few bytes as it takes (RFC 8949, section 3)."""
    if value < 24:
        return bytes([major | value])
    for width, code in ((1, 24), (2, 25), (4, 26)):
        if value < 1 << 8 * width:
            return bytes([major | code]) + value.to_bytes(width, "big")
    return bytes([major | 27]) + value.to_bytes(8, "big")


def _cbor_integers(numbers: npt.NDArray[np.int32]) -> tuple[bytes, list[int]]:
    """Return all numbers as consecutive CBOR integers, with the start of each (and the end of the last)."""
    negative = numbers < 0
    values = np.where(negative, ~numbers, numbers).astype(np.int64)  # a negative n is written as -1 - n
    widths = np.select([values < 24, values < 1 << 8, values < 1 << 16], [0, 1, 2], default=4)
    codes = np.select([widths == 0, widths == 1, widths == 2], [values, 24, 25], default=26)
    rows = np.empty((len(numbers), 5), dtype=np.uint8)
    rows[:, 0] = codes + np.where(negative, 0x20, 0)
    rows[:, 1:] = values.astype(">u4").view(np.uint8).reshape(-1, 4)
    kept = np.arange(5) >= 5 - widths[:, None]  # the low bytes of the value
    kept[:, 0] = True
    ends = np.cumsum(1 + widths)
    return rows[kept].tobytes(), [0, *ends.tolist()]
