"""The order of segments in which an unlimited cache misses least."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np
import numpy.typing as npt

_MOST_EXACT = 15
_MOST_CELLS = 1 << 23
_Ints = npt.NDArray[np.int64]


def best_order(
    values: Sequence[Sequence[Hashable]],
    lengths: Sequence[Sequence[int]],
    precedence: Collection[tuple[int, int]] = (),
) -> tuple[list[int], int]:
    """The order of segments with the fewest missed tokens, and their number.

    `values[s][r]` is segment s in request r, and `lengths[s][r]` its tokens (equal values are equally long). `(a, b)` in
    `precedence` keeps segment a before b. Misses of an unlimited cache are the weighted size of the trie of values: exact by
    f(S + s) = f(S) + the lengths of s over the distinct tuples of S + s for up to 15 segments; beyond, the segments go by
    L·d/(d - 1), largest first (L: mean length, d: distinct values, d = 1 before all). Of equal orders the one nearest to the given.
    Raises ValueError where the precedence runs in a circle.
    """
    count = len(values)
    requests = len(values[0]) if count else 0
    names = np.zeros((count, requests), dtype=np.int64)
    for index, row in enumerate(values):
        known: dict[Hashable, int] = {}
        names[index] = [known.setdefault(value, len(known)) for value in row]
    tokens = np.asarray(lengths, dtype=np.int64).reshape(count, requests)
    _, rows = np.unique(names, axis=1, return_index=True)  # equal requests miss once
    rows = np.sort(rows)
    names, tokens = names[:, rows], tokens[:, rows]
    before = [0] * count
    for first, second in precedence:
        before[second] |= 1 << first
    if count <= _MOST_EXACT and (names.shape[1] << count) <= _MOST_CELLS:
        return _exact(names, tokens, before)
    order = _by_rule(names, tokens, before)
    return order, missed(names[order], tokens[order])


def missed(names: _Ints, tokens: _Ints) -> int:
    """Tokens that an unlimited cache misses: `names[s, r]` and `tokens[s, r]` of segments in their order."""
    total = 0
    parts = np.zeros(names.shape[1], dtype=np.int64)
    for row, length in zip(names, tokens, strict=True):
        parts, firsts = _split(parts, row)
        total += int(length[firsts].sum())
    return total


def _split(parts: _Ints, row: _Ints) -> tuple[_Ints, _Ints]:
    """Classes of requests that agree in `parts` and in `row`, and the first request of each."""
    width = int(row.max(initial=0)) + 1
    _, firsts, classes = np.unique(parts * width + row, return_index=True, return_inverse=True)
    return classes.reshape(-1).astype(np.int64), firsts.astype(np.int64)


def _exact(names: _Ints, tokens: _Ints, before: Sequence[int]) -> tuple[list[int], int]:
    count = len(names)
    best: list[int | None] = [0] + [None] * ((1 << count) - 1)
    last = [0] * (1 << count)
    parts: list[_Ints] = [np.zeros(names.shape[1], dtype=np.int64)]
    for chosen in range(1, 1 << count):
        top = chosen.bit_length() - 1
        classes, firsts = _split(parts[chosen & ~(1 << top)], names[top])
        parts.append(classes.astype(np.int64))
        added = tokens[:, firsts].sum(axis=1).tolist()
        for segment in range(count):
            rest = chosen & ~(1 << segment)
            so_far = best[rest]
            if rest == chosen or so_far is None or before[segment] & ~rest:
                continue
            value, least = so_far + added[segment], best[chosen]
            if least is None or value <= least:
                best[chosen], last[chosen] = value, segment
    order: list[int] = []
    chosen = (1 << count) - 1
    total = best[chosen]
    if total is None:
        raise ValueError("the precedence of segments runs in a circle")
    while chosen:
        order.append(last[chosen])
        chosen &= ~(1 << last[chosen])
    return order[::-1], total


def _by_rule(names: _Ints, tokens: _Ints, before: Sequence[int]) -> list[int]:
    weights: list[float] = []
    for row, length in zip(names, tokens, strict=True):
        distinct, firsts = np.unique(row, return_index=True)
        d = len(distinct)
        weights.append(float(length[firsts].mean()) * d / (d - 1) if d > 1 else float("inf"))
    order: list[int] = []
    placed = 0
    while len(order) < len(names):
        free = [each for each in range(len(names)) if not placed >> each & 1 and not before[each] & ~placed]
        if not free:
            raise ValueError("the precedence of segments runs in a circle")
        order.append(max(free, key=lambda each: (weights[each], -each)))
        placed |= 1 << order[-1]
    return order
