"""Positions at which states of linear attention can be kept."""

from __future__ import annotations


def state_boundary(num_tokens: int, unit: int, *, drops: bool, lookahead: int) -> int:
    """Return the last multiple of `unit` at which a state is of use to a prompt of so many tokens.

    Behind it a token is left to compute, and those that the hash of the unit covers; where the last block of a hit is dropped
    (`drops`), a whole unit.
    """
    if drops:
        return max(num_tokens // unit * unit - unit, 0)
    return max((num_tokens - max(1, lookahead)) // unit * unit, 0)


def can_export(start: int, end: int, position: int, *, unit: int, block: int, every: int | None) -> bool:
    """Whether a prefill of tokens [start, end) can export the state at `position` from its inside, which it can `every` so many
    tokens (None: never)."""
    if every is None:
        return False
    return (
        start % unit == 0
        and -(-end // block) - 2 > (start - 1) // block
        and start + unit <= position < end
        and (position - start) % every == 0
    )
