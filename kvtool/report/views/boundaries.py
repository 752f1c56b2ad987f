"""Block sizes: hits with another one, and the smallest edit that gains a block."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.accounting.boundary import padding_sentence
from kvtool.results.report import Boundary, SizeHits
from kvtool.text.terminal.numbers import percent, plural

_LARGER = (528, 784, 1600)
"""Block sizes that an engine chooses by itself for hybrid models."""
_MUCH = 0.1
"""Share of the prompt tokens from which a loss is worth a hint."""
_MOST_RANGES = 16


def histogram(group: Boundary) -> list[tuple[int, int, int]]:
    """Return (first, last, requests) for at most 16 ranges of tokens left over, which cover 0 to block size - 1."""
    width = -(-group.block_size // _MOST_RANGES)
    bins = [0] * -(-group.block_size // width)
    for each in group.left_over:
        bins[each.tokens // width] += each.requests
    return [(at * width, min((at + 1) * width, group.block_size) - 1, count) for at, count in enumerate(bins)]


def edit_sentence(group: Boundary) -> str:
    """Name the smallest edit that gains a block, or say that there is none."""
    if group.edit is None:
        return f"Padding at the front saves nothing with blocks of {plural(group.block_size, 'token')}."
    return padding_sentence(group.edit, group.requests)


def boundary_hint(groups: Iterable[Boundary]) -> str | None:
    """Say what a larger block size that engines use would cost all groups together; None where that is not much.

    The gain of an addition at the front is a finding of its own (KV204).
    """
    shown = list(groups)
    sizes = [_by_size(group) for group in shown]
    tokens = sum(group.prompt_tokens for group in shown)
    if not tokens or any(group.block_size not in known for group, known in zip(shown, sizes, strict=True)):
        return None
    now = sum(known[group.block_size].hit_tokens for group, known in zip(shown, sizes, strict=True))
    for size in _LARGER:
        if all(size > group.block_size and size in known for group, known in zip(shown, sizes, strict=True)):
            hit = sum(known[size].hit_tokens for known in sizes)
            if now - hit >= _MUCH * tokens:
                return f"With blocks of {size:,} tokens: {percent(hit / tokens)}, not {percent(now / tokens)} (--boundaries)."
    return None


def _by_size(group: Boundary) -> dict[int, SizeHits]:
    return {size.block_size: size for size in group.sizes}
