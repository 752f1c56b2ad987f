"""The engine's KV events beside a server's: by the server's hashes where its seed is known, else by what the blocks hold."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Literal

import numpy as np

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.vllm_hashing import VllmHasher, event_hash
from kvtool.engine.config import EngineConfig
from kvtool.engine.events import AllBlocksCleared, BlockRemoved, BlockStored, Event
from kvtool.measure.servers.kv_events.event_batches import low_64
from kvtool.profiler.reconcile.event_trace import ContentNames, EventTrace, named
from kvtool.results.documents.reconciliation import ComparedEvents

_TRIED_SEEDS = 4096
"""PYTHONHASHSEED is a small number where it is set: so many are tried."""
EarlierPrompt = tuple[str, int, tuple[int, ...]]


def seeded(config: EngineConfig, trace: EventTrace) -> EngineConfig | None:
    """Return the engine with the seed of the server's hashes, found by trying; None where none of them makes its first hash."""
    first = trace.first_stored
    if first is None or first.token_ids is None or config.hash_algo == "native":
        return None
    keys = first.extra_keys[0] if first.extra_keys else None
    salt = keys[0] if keys else None
    if first.block_size % config.block_size or (config.plan is not None and config.plan.num_hash_lookahead):
        return None
    if keys and (len(keys) > 1 or not isinstance(salt, str)):
        return None
    tokens = np.asarray(first.token_ids[: first.block_size], dtype=np.int32)
    wanted = low_64(first.block_hashes[0])
    for seed in _seeds():
        *_, made = VllmHasher(config.hash_algo, seed).chain(tokens, config.block_size, None, salt, None)
        if event_hash(made) == wanted:
            return replace(config, hash_seed=seed)
    return None


def _seeds() -> Iterator[str | None]:
    yield None
    if (given := os.environ.get("PYTHONHASHSEED")) is not None:
        yield given
    yield from map(str, range(_TRIED_SEEDS))


def compared(predicted: Sequence[Event], trace: EventTrace, *, by_hash: bool, in_order: bool) -> ComparedEvents:
    """Return how many are the same: in order those from both ends up to where they differ, else all that both have."""
    ours = [each for each in predicted if not isinstance(each, AllBlocksCleared)]
    mine = list(map(_by_hash, ours)) if by_hash else list(_by_content(ours))
    theirs = trace.by_hash() if by_hash else trace.by_content()
    if in_order:
        agree = _in_order(mine, theirs)
    else:
        agree = sum((Counter(_singly(mine)) & Counter(_singly(theirs))).values())
        return ComparedEvents(
            predicted=sum(1 for _ in _singly(mine)),
            recorded=sum(1 for _ in _singly(theirs)),
            agree=agree,
            in_order=False,
            by="hash" if by_hash else "content",
        )
    by: Literal["hash", "content"] = "hash" if by_hash else "content"
    return ComparedEvents(predicted=len(mine), recorded=len(theirs), agree=agree, in_order=True, by=by)


def _in_order(mine: Sequence[EarlierPrompt], theirs: Sequence[EarlierPrompt]) -> int:
    head = sum(1 for _ in takewhile(bool, map(tuple.__eq__, mine, theirs)))
    rest = min(len(mine), len(theirs)) - head
    tail = sum(1 for _ in takewhile(bool, map(tuple.__eq__, reversed(mine), reversed(theirs))))
    return head + min(tail, rest)


def _singly(events: Sequence[EarlierPrompt]) -> Iterator[tuple[str, int]]:
    """Yield each block by itself: what is stored together depends on who runs beside it."""
    for kind, _, blocks in events:
        for block in blocks:
            yield kind, block


def _by_hash(event: Event) -> EarlierPrompt:
    if isinstance(event, BlockStored):
        parent = 0 if event.parent_block_hash is None else event_hash(event.parent_block_hash)
        return named("stored", event.group), parent, tuple(event_hash(each) for each in event.block_hashes)
    assert isinstance(event, BlockRemoved)
    return named("removed", event.group), 0, (event_hash(event.block_hash),)


def _by_content(events: Sequence[Event]) -> Iterator[EarlierPrompt]:
    names = ContentNames()
    known: dict[BlockHash, int] = {}
    for event in events:
        if isinstance(event, BlockStored):
            parent = 0 if event.parent_block_hash is None else known.get(event.parent_block_hash, -1)
            ids = np.zeros(0, dtype=np.int32) if event.token_ids is None else event.token_ids
            made = names.of(parent, ids.astype("<i4").tobytes(), len(event.block_hashes))
            known.update(zip(event.block_hashes, made, strict=True))
            yield "stored", parent, made
        elif isinstance(event, BlockRemoved):
            yield "removed", 0, (known.get(event.block_hash, -1),)
