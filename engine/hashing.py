"""Chained block hashes: equal hashes mean equal tokens from the start of the prompt to the end of the block."""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType

import numpy as np
import xxhash

if TYPE_CHECKING:
    from kvtool.engine.request import Request

BlockHash = NewType("BlockHash", bytes)
"""128 bits of xxh3 over the parent's hash and the block's tokens (int32, little endian)."""

_ROOT = b"kvtool"


def root_hash(cache_salt: str | None) -> BlockHash:
    """The parent of a prompt's first block. An empty salt is no salt, as in vLLM."""
    return BlockHash(xxhash.xxh3_128_digest(_ROOT + cache_salt.encode(errors="surrogatepass") if cache_salt else _ROOT))


def hash_ids(ids: list[int], cache_salt: str | None = None) -> list[BlockHash]:
    """The chain over blocks that a trace names by id only."""
    digest = xxhash.xxh3_128_digest
    parent: bytes = root_hash(cache_salt)
    hashes: list[BlockHash] = []
    for block in ids:
        parent = digest(parent + block.to_bytes(16, "little", signed=True))
        hashes.append(BlockHash(parent))
    return hashes


def extend_hashes(request: Request, block_size: int) -> None:
    """Append to `request.block_hashes` those of the blocks that have become full."""
    hashes = request.block_hashes
    have, full = len(hashes), request.num_tokens // block_size
    if full <= have:
        return
    digest = xxhash.xxh3_128_digest
    parent: bytes = hashes[-1] if hashes else root_hash(request.cache_salt)
    if request.prompt_ids is None:
        known = (request.prompt_hashes or [])[: request.num_prompt_tokens // block_size]
        hashes.extend(known[have:])
        for index in range(len(hashes), full):  # blocks of unknown output: nobody can ask for them again
            hashes.append(BlockHash(digest(f"{request.id}\0{request.order}\0{index}".encode())))
        return
    tokens = request.token_ids(have * block_size, full * block_size)
    data = np.ascontiguousarray(tokens, dtype="<i4").tobytes()
    width = 4 * block_size
    for at in range(0, len(data), width):
        parent = digest(parent + data[at : at + width])
        hashes.append(BlockHash(parent))
