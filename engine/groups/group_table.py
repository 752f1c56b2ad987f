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
    """A block table. Block 0, the null block, stands where nothing is kept: tables keep positions."""

    blocks: list[int] = field(default_factory=list)
    registered: int = 0
    """Leading blocks that need not be looked at any more to be registered."""
    gone: int = 0
    """Leading blocks that were given back, or never were there."""
    tail: SharedTail | None = None
    begun: bool = False
    """Of states: whether the request has taken blocks since it was admitted."""
    last_state: int | None = None
    """Of states: the place of the block that the step before last wrote."""
    checkpoint: ExportedState | None = None
