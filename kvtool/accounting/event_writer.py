"""KV events as JSON lines, in the fields of vLLM's own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

from kvtool.engine.blocks.extra_keys import untagged
from kvtool.engine.blocks.vllm_hashing import event_hash
from kvtool.engine.events import AllBlocksCleared, BlockRemoved, BlockStored, Event
from kvtool.engine.groups.kv_group import KVGroup
from kvtool.text.files.atomic_file import PRIVATE, AtomicFile

MEDIUM = "GPU"
_PLAIN = KVGroup(kind="full", block_size=1)
"""The group of an engine without a plan."""
_KINDS = {
    "full": "full_attention",
    "mla": "mla_attention",
    "sliding": "sliding_window",
    "chunked": "chunked_local_attention",
    "mamba": "mamba",
}
"""Kinds of layers by vLLM's names in events."""


class EventWriter:
    """Stream a cache's events to a file, one JSON object a line; the file appears when the writer is closed.

    With `tokens` it contains every prompt as token ids, and the salts, as vLLM's events do; a new file is private either way. As a
    context manager it leaves no file if the block ends with an error.
    """

    def __init__(
        self, path: str | Path, *, block_size: int, tokens: bool = True, groups: Sequence[KVGroup] = ()
    ) -> None:
        """Open the file; KvtoolError if it cannot be written. `groups` are those of the engine's plan, if it has one."""
        self.block_size = block_size
        self._groups = groups
        self.tells_prompts = False
        """True if token ids or salts were written so far."""
        self._tokens = tokens
        self._file = AtomicFile(path, mode=PRIVATE)

    def write(self, events: Iterable[Event]) -> None:
        """Append the result of `BlockManager.take_events`; called after each request or step, this keeps memory flat."""
        for event in events:
            fields = event_fields(event, self.block_size, tokens=self._tokens, groups=self._groups)
            if self._tokens and isinstance(event, BlockStored):
                self.tells_prompts |= event.token_ids is not None or bool(event.cache_salt)
            line = json.dumps(fields, separators=(",", ":"))
            self._file.write(f"{line}\n".encode())

    def close(self) -> None:
        """Put the file in its place."""
        self._file.close()

    def __enter__(self) -> EventWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.__exit__(kind, error, traceback)


def event_fields(
    event: Event, block_size: int, *, tokens: bool = True, groups: Sequence[KVGroup] = ()
) -> dict[str, object]:
    """Return an event in vLLM's fields; a hash is its low 64 bits. `token_ids` is null where the input has hashes only, and without
    `tokens`, where salts are left out, too."""
    match event:
        case BlockStored(hashes, parent, ids, _, lora):
            return {
                "type": "BlockStored",
                "block_hashes": [event_hash(block_hash) for block_hash in hashes],
                "parent_block_hash": None if parent is None else event_hash(parent),
                "token_ids": ids.tolist() if tokens and ids is not None else None,
                "block_size": event.block_size or block_size,
                "lora_id": None if lora is None else lora.id,
                "medium": MEDIUM,
                "lora_name": None if lora is None else lora.name,
                "extra_keys": _extra_keys(event, salts=tokens),
                "group_idx": event.group,
                **_spec(groups[event.group] if groups else _PLAIN),
                **_lookahead(event, tokens=tokens),
            }
        case BlockRemoved(block_hash):
            gone = [event_hash(block_hash)]
            return {"type": "BlockRemoved", "block_hashes": gone, "medium": MEDIUM, "group_idx": event.group}
        case AllBlocksCleared():
            return {"type": "AllBlocksCleared"}


def _spec(group: KVGroup) -> dict[str, object]:
    kind: dict[str, object] = {"kv_cache_spec_kind": _KINDS[group.kind]}
    return kind | {"kv_cache_spec_sliding_window": group.window} if group.window is not None else kind


def _lookahead(event: BlockStored, *, tokens: bool) -> dict[str, object]:
    """Return the tokens after the blocks that their hashes cover, if any."""
    if event.lookahead_ids is None or not tokens:
        return {}
    return {"lookahead_token_ids": [ids.tolist() for ids in event.lookahead_ids]}


def _extra_keys(event: BlockStored, *, salts: bool) -> list[list[object] | None]:
    """Return the inputs of each block's hash other than its tokens: the adapter's name, images with their offsets, the salt of a
    prompt's first block, and the digest of its embeddings.

    vLLM publishes these without the tags, and without the adapter's path, which enter the hash.
    """
    if event.extra_keys is not None:
        return [[untagged(key) for key in keys if salts or key[0] != "cache_salt"] or None for keys in event.extra_keys]
    every: list[object] = [] if event.lora is None else [event.lora.name]
    keys: list[list[object] | None] = [every or None] * len(event.block_hashes)
    if salts and event.cache_salt and event.parent_block_hash is None:
        keys[0] = [*every, event.cache_salt]
    return keys
