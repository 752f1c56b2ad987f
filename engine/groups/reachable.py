"""Which blocks of windows and states are worth keeping: those that a hit could need."""

from __future__ import annotations

from kvtool.engine.groups.kv_group import KVGroup


def replay_boundaries(num_prompt_tokens: int, scheduler_block_size: int, drops: bool) -> list[int]:
    """Where a request ends its hit that repeats a prompt, or goes on behind it.

    Where the last block of a hit is dropped (`drops`), that is one block before the last boundary of either.
    """
    if not drops:
        return [num_prompt_tokens - 1]
    size = scheduler_block_size
    again = (num_prompt_tokens - 1) // size * size
    longer = num_prompt_tokens // size * size
    return sorted({max(again - size, 0), max(longer - size, 0)})


def reachable_blocks(
    group: KVGroup, blocks: range, align: int, retention: int | None, boundaries: list[int], *, drops: bool
) -> list[int] | None:
    """Return the places in a table that are to be registered, among `blocks`; None for all of them.

    With a `retention` of None every multiple of `align` may end a hit; else only the `boundaries` and the multiples of `retention`,
    where that is not 0.
    """
    if group.kind == "sliding":
        return _of_windows(group, blocks, align, retention, boundaries, drops=drops)
    if group.kind == "mamba":
        return _of_states(group, blocks, align, retention, boundaries)
    return None


def _of_windows(
    group: KVGroup, blocks: range, align: int, retention: int | None, boundaries: list[int], *, drops: bool
) -> list[int] | None:
    assert group.window is not None
    size, shift = group.block_size, int(drops)
    if align % size:
        return None
    needed = -(-(group.window - 1) // size) + shift
    kept: set[int] = set()
    segment = align if retention is None else retention
    if segment:
        per_segment = segment // size
        if needed >= per_segment:
            return None
        kept = {i for i in blocks if i >= shift and (i - shift) % per_segment >= per_segment - needed}
    if retention is not None:
        for boundary in boundaries:
            end = boundary // align * align // size + shift
            kept.update(range(max(blocks.start, end - needed), min(blocks.stop, end)))
    return sorted(kept)


def _of_states(
    group: KVGroup, blocks: range, align: int, retention: int | None, boundaries: list[int]
) -> list[int] | None:
    if retention is None:
        return None
    size = group.block_size
    kept: set[int] = set()
    if retention:
        per_segment = retention // size
        if per_segment <= 1:
            return None
        kept.update(range((blocks.start + per_segment) // per_segment * per_segment - 1, blocks.stop, per_segment))
    kept.update(block for boundary in boundaries if (block := boundary // align * align // size - 1) in blocks)
    return sorted(kept)
