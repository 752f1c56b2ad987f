"""A run as it is recorded without text: what can be told from it is who shares which blocks with whom, and no word of a prompt.

Every token is for a keyed digest of its block and all that is before it, so that two prompts have the same tokens as far as
they share blocks, and other ones from there on. The key is forgotten with the run: nobody can try what a text would give.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from kvtool.measure.servers.exchange import Exchange
from kvtool.measure.servers.kv_events.event_batches import (
    ClearedBlocks,
    EventBatch,
    KVEvent,
    RemovedBlocks,
    ServedHash,
    StoredBlocks,
)
from kvtool.measure.servers.request_body import COMPLETIONS
from kvtool.profiler.reconcile.twin import Ask

_DIGEST = 16
_SAID = ("max_tokens", "temperature", "n")
"""What is kept of a request beside its prompt."""


class BlindedRun:
    """Takes the text out of a run; `block_size` is that of the server, whose blocks are what is kept apart."""

    def __init__(self, block_size: int, ours: Iterable[str], key: bytes | None = None) -> None:
        """`ours` are the names of our sessions, which are no secret."""
        self.block_size = block_size
        self._ours = frozenset(ours)
        self._key = secrets.token_bytes(32) if key is None else key
        self._chains: dict[ServedHash, bytes] = {}
        """The digest of each block of the server that was stored."""

    def _digest(self, *parts: bytes) -> bytes:
        found = hashlib.blake2b(key=self._key, digest_size=_DIGEST)
        for part in parts:
            found.update(len(part).to_bytes(4, "big") + part)
        return found.digest()

    def _blocks(self, ids: Sequence[int], before: bytes, size: int) -> Iterator[tuple[bytes, list[int]]]:
        """Yield each block's digest, and the tokens that are for its own; the last one may be shorter."""
        for start in range(0, len(ids), size):
            own = ids[start : start + size]
            before = self._digest(before, np.asarray(own, dtype=np.int32).tobytes())
            yield before, _tokens_of(before, len(own))

    def _tokens(self, ids: Sequence[int], salt: str | None) -> list[int]:
        return [token for _, tokens in self._blocks(ids, self._root(salt), self.block_size) for token in tokens]

    def _root(self, salt: str | None) -> bytes:
        """Return what is before the first block: a salt parts prompts as it does on the server."""
        return self._digest(b"root" if salt is None else b"salt" + salt.encode())

    def _name(self, text: str) -> str:
        return self._digest(b"name", text.encode()).hex()

    def exchanges(self, exchanges: Iterable[Exchange], asked: Mapping[int, Sequence[Ask]]) -> Iterator[Exchange]:
        """Yield requests of tokens with the answers' counts; of those that nobody asks for only that they were sent."""
        for each in exchanges:
            asks = asked.get(each.number, ())
            body: dict[str, Any] = {name: each.body[name] for name in _SAID if type(each.body.get(name)) is int}
            response = None if each.response is None else _counts(each)
            if asks and response is not None:
                ask = asks[0]
                wholes = [self._tokens([*one.prompt.tolist(), *one.output], ask.salt) for one in asks]
                pairs = list(zip(asks, wholes, strict=True))
                prompts = [whole[: len(one.prompt)] for one, whole in pairs if not one.again]
                body["prompt"] = prompts if len(prompts) > 1 else prompts[0]
                if not ask.reads:
                    body["prompt_logprobs"] = 0
                response["choices"] = [
                    {"index": index, "finish_reason": "length", "token_ids": whole[len(one.prompt) :]}
                    for index, (one, whole) in enumerate(pairs)
                ]
                if len(prompts) == 1 and (theirs := each.prompt_ids) is not None:
                    whole = self._tokens([*theirs, *ask.output], ask.salt)
                    response["prompt_token_ids"] = whole[: len(theirs)]
                if ask.salt is not None:
                    body["cache_salt"] = self._name(ask.salt)
            else:
                body["prompt"] = [0]
            yield replace(each, body=body, endpoint=COMPLETIONS, response=response)

    def batches(self, batches: Iterable[EventBatch]) -> Iterator[EventBatch]:
        """Yield events with the same tokens as the prompts; hashes, salts and the names of others' sessions are digests."""
        for batch in batches:
            events = tuple(self._event(event) for event in batch.events)
            yield replace(batch, events=events)

    def _event(self, event: KVEvent) -> KVEvent:
        if isinstance(event, ClearedBlocks):
            return event
        hashes = tuple(self._hash(each) for each in event.block_hashes)
        if isinstance(event, RemovedBlocks):
            return msgspec.structs.replace(event, block_hashes=hashes)
        return self._stored(event, hashes)

    def _stored(self, event: StoredBlocks, hashes: tuple[ServedHash, ...]) -> StoredBlocks:
        parent, ids = event.parent_block_hash, event.token_ids
        keys = event.extra_keys or ()
        tokens: list[int] | None = None
        if ids is not None:
            if parent is None:
                before = self._root(_salt(keys))
            else:
                before = self._chains.get(parent) or self._digest(b"unknown", _bytes_of(parent))
            tokens = []
            size = event.block_size
            for each, (digest, own) in zip(event.block_hashes, self._blocks(ids, before, size), strict=False):
                self._chains[each] = digest
                tokens += own
        session = event.session_id
        return msgspec.structs.replace(
            event,
            block_hashes=hashes,
            parent_block_hash=None if parent is None else self._hash(parent),
            token_ids=None if tokens is None else tuple(tokens),
            extra_keys=tuple(None if each is None else (self._name(repr(each)),) for each in keys) or None,
            lora_name=None if event.lora_name is None else self._name(event.lora_name),
            session_id=session if session is None or session in self._ours else self._name(session),
        )

    def _hash(self, served: ServedHash) -> int:
        return int.from_bytes(self._digest(b"hash", _bytes_of(served))[:8], "big")


def _tokens_of(digest: bytes, count: int) -> list[int]:
    """Return so many tokens that are for a block: the digest, and zeros."""
    words = [int.from_bytes(digest[at : at + 4], "big") >> 1 for at in range(0, _DIGEST, 4)]
    return [*words, *[0] * count][:count]


def _bytes_of(served: ServedHash) -> bytes:
    return served if isinstance(served, bytes) else served.to_bytes(8, "big")


def _salt(keys: Sequence[tuple[Any, ...] | None]) -> str | None:
    """Return the salt of a first block, which stands last in its keys, by itself or after its name."""
    found: Any = keys[0] if keys else None
    while isinstance(found, list | tuple):
        found = found[-1] if found else None
    return found if isinstance(found, str) else None


def _counts(each: Exchange) -> dict[str, Any]:
    """Return an answer's usage, in the words of the completions API; `timings` shows that it is llama.cpp's."""
    usage, timings = each.usage, (each.response or {}).get("timings")
    said: dict[str, Any] = {"timings": {}} if isinstance(timings, dict) else {}
    if usage is None:
        return {**said, "usage": None}
    counts: dict[str, Any] = {"prompt_tokens": usage.prompt, "completion_tokens": usage.output}
    if usage.cached is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cached}
    return {**said, "usage": {name: value for name, value in counts.items() if value is not None}}
