"""The parts of a block's key: its hash, and what is hashed beside its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NewType

BlockHash = NewType("BlockHash", bytes)
"""The native one: 128 bits of xxh3 over the parent's hash and the block's tokens (int32, little endian)."""

ExtraKey = tuple[str, str, str] | tuple[str, str, int] | tuple[str, str] | tuple[str, bytes]
"""("lora", name, path), ("mm", id, offset in the block), ("cache_salt", salt), or ("prompt_embeds", SHA-256 of the rows)."""
ExtraKeys = tuple[ExtraKey, ...]


class Image(NamedTuple):
    """An image, or another item that is no text: its id and its tokens in the prompt."""

    id: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Lora:
    """The adapter of a request; its keys and values are not shared with others. `id` is only reported, never hashed."""

    name: str
    path: str
    id: int = 1
