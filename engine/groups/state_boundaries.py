"""Choose the places where states of linear attention can be kept."""

from __future__ import annotations


def state_boundary(num_tokens: int, unit: int, *, drops: bool, lookahead: int) -> int:
    """Return the last multiple of `unit` whose state is useful to a prompt of so many tokens.

    After it, one token is left to compute, plus those that the hash of the unit covers; if the last block of a hit is dropped
    (`drops`), a whole unit.
    """
    if drops:
        return max(num_tokens // unit * unit - unit, 0)
    return max((num_tokens - max(1, lookahead)) // unit * unit, 0)


def can_export(start: int, end: int, position: int, *, unit: int, block: int, every: int | None) -> bool:
    """Return whether a prefill of tokens [start, end) can export the state at `position` from its inside. It can at multiples of
    `every` tokens (None: never)."""
    if every is None:
        return False
    return (
        start % unit == 0
        and -(-end // block) - 2 > (start - 1) // block
        and start + unit <= position < end
        and (position - start) % every == 0
    )
