"""The blocks of one request in one group of layers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class SharedTail(NamedTuple):
    """A block that others may read up to where it is filled, so that it is copied before it is written to."""

    place: int
    block: int


class ExportedState(NamedTuple):
    """A state that is exported from inside a prefill: the tokens that it has seen, and the place of its block in the table."""

    position: int
    place: int


@dataclass(slots=True)
class GroupTable:
    """A block table. Block 0, the null block, fills empty places: tables keep positions."""

    blocks: list[int] = field(default_factory=list)
    registered: int = 0
    """Leading blocks that are registered or need not be."""
    gone: int = 0
    """Leading blocks that were freed or never existed."""
    tail: SharedTail | None = None
    begun: bool = False
    """States only: whether the request has taken blocks since its admission."""
    last_state: int | None = None
    """States only: the place of the block that the step before the last wrote."""
    checkpoint: ExportedState | None = None
