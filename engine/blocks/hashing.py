"""Chained block hashes: equal hashes mean equal tokens from the start of the prompt to the end of the block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import numpy.typing as npt
import xxhash

from kvtool.engine.blocks.block_keys import BlockHash, ExtraKeys, Lora
from kvtool.engine.blocks.extra_keys import content_keys

if TYPE_CHECKING:
    from kvtool.engine.config import HashAlgorithm
    from kvtool.engine.request import Request

_ROOT = b"kvtool"
_ID_BYTES = 16
"""Bytes of an id in a hash; larger ids take more."""


class BlockHasher(Protocol):
    """A way to hash blocks."""

    def chain(
        self,
        tokens: npt.NDArray[np.int32],
        block_size: int,
        parent: BlockHash | None,
        cache_salt: str | None,
        lora: Lora | None,
        lookahead: int = 0,
    ) -> list[BlockHash]:
        """Return the hashes of consecutive full blocks; `parent` is the hash before, None at the start of a prompt.

        Each also covers `lookahead` tokens after its block; `tokens` includes those of the last block.
        """
        ...

    def block(
        self,
        tokens: npt.NDArray[np.int32],
        block_size: int,
        parent: BlockHash | None,
        cache_salt: str | None,
        lora: Lora | None,
        content: tuple[ExtraKeys, ExtraKeys],
    ) -> BlockHash:
        """Return the hash of one block and the tokens after it that it covers, with the keys of its images and embeddings."""
        ...


def root_hash(cache_salt: str | None, lora: Lora | None = None) -> BlockHash:
    """Return the parent of a prompt's first block. An empty salt is no salt, as in vLLM."""
    root = xxhash.xxh3_128_digest(_ROOT + cache_salt.encode(errors="surrogatepass") if cache_salt else _ROOT)
    if lora is not None:
        root = xxhash.xxh3_128_digest(root + ascii((lora.name, lora.path)).encode())
    return BlockHash(root)


class NativeHasher:
    """The fastest hashes, compatible with no server."""

    def chain(
        self,
        tokens: npt.NDArray[np.int32],
        block_size: int,
        parent: BlockHash | None,
        cache_salt: str | None,
        lora: Lora | None,
        lookahead: int = 0,
    ) -> list[BlockHash]:
        digest = xxhash.xxh3_128_digest
        last: bytes = root_hash(cache_salt, lora) if parent is None else parent
        if lookahead:
            width = block_size + lookahead
            tokens = np.lib.stride_tricks.sliding_window_view(tokens, width)[::block_size].ravel()
            block_size = width
        blocks: list[bytes] = np.ascontiguousarray(tokens, dtype="<i4").view(f"V{4 * block_size}").tolist()
        return cast("list[BlockHash]", [last := digest(last + block) for block in blocks])

    def block(
        self,
        tokens: npt.NDArray[np.int32],
        block_size: int,
        parent: BlockHash | None,
        cache_salt: str | None,
        lora: Lora | None,
        content: tuple[ExtraKeys, ExtraKeys],
    ) -> BlockHash:
        (block,) = self.chain(tokens, block_size, parent, cache_salt, lora, len(tokens) - block_size)
        keys = content[0] + content[1]
        return BlockHash(xxhash.xxh3_128_digest(block + ascii(keys).encode())) if keys else block


NATIVE = NativeHasher()


def block_hasher(algorithm: HashAlgorithm, seed: str | None = None) -> BlockHasher:
    """Return the hasher of `EngineConfig.hash_algo` and `hash_seed`."""
    if algorithm == "native":
        return NATIVE
    from kvtool.engine.blocks.vllm_hashing import VllmHasher

    return VllmHasher(algorithm, seed)


def hash_ids(ids: list[int], cache_salt: str | None = None) -> list[BlockHash]:
    """Hash the chain of blocks that a trace names by id only. An id may be of any size; all of its bits count.

    The chain begins apart: an id may have the very bytes of a block of tokens.
    """
    digest = xxhash.xxh3_128_digest
    parent: bytes = digest(b"ids" + root_hash(cache_salt))
    hashes: list[BlockHash] = []
    for block in ids:
        try:
            name = block.to_bytes(_ID_BYTES, "little", signed=True)
        except OverflowError:  # a name longer than any other, so none is like it
            name = block.to_bytes(block.bit_length() // 8 + 1, "little", signed=True)
        parent = digest(parent + name)
        hashes.append(BlockHash(parent))
    return hashes


def extend_hashes(request: Request, block_size: int, hasher: BlockHasher = NATIVE, lookahead: int = 0) -> None:
    """Append to `request.block_hashes` the hashes of blocks that have become full, with the `lookahead` tokens after them known."""
    hashes = request.block_hashes
    have, full = len(hashes), (request.num_tokens - lookahead) // block_size
    if full <= have:
        return
    if request.prompt_ids is None:
        known = (request.prompt_hashes or [])[: request.num_prompt_tokens // block_size]
        known += request.answer_hashes or []
        hashes.extend(known[have:full])
        for index in range(len(hashes), full):  # blocks of unknown output: no request can hit them
            hashes.append(BlockHash(xxhash.xxh3_128_digest(f"{request.id}\0{request.order}\0{index}".encode())))
        return
    tokens = request.token_ids(have * block_size, full * block_size + lookahead)
    last = hashes[-1] if hashes else None
    if not request.images and request.prompt_embeds is None:
        hashes += hasher.chain(tokens, block_size, last, request.cache_salt, request.lora, lookahead)
        return
    for start in range(have * block_size, full * block_size, block_size):
        stop = start + block_size + lookahead
        content = content_keys(request, start, stop)
        covered = tokens[start - have * block_size : stop - have * block_size]
        last = hasher.block(covered, block_size, last, request.cache_salt, request.lora, content)
        hashes.append(last)
