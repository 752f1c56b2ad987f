"""Where to set a provider's cache breakpoints so that a workload costs least: an exact dynamic program."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

_Matrix = npt.NDArray[np.float64]


def place_breakpoints(
    requests: Sequence[Sequence[tuple[Hashable, int]]], *, read: float, write: float, minimum: int, most: int = 4
) -> tuple[list[int], float]:
    """After how many blocks to set breakpoints, the same for all requests, and what the workload then costs.

    A request is a sequence of blocks, each with a key (equal keys: equal text) and its tokens. Prices are per token, where a token
    outside the cache costs 1; `minimum` is the length in tokens below which a prefix is not stored, `most` how many breakpoints
    are allowed. Requests come one after the other; what is stored stays. Least cost by f(k, j) = min over i of f(k - 1, i) plus,
    for each request, the tokens from i to j times `read` (prefix j was seen) or `write`, and in the end what is behind the last
    breakpoint; of equal costs the one with fewer breakpoints. O(requests · m² + most · m²) for m blocks.
    """
    m = max((len(request) for request in requests), default=0)
    lengths, seen = _prefixes(requests, m)
    total = lengths[:, -1]
    ends = np.array([len(request) for request in requests], dtype=np.int64)
    inside = np.arange(m + 1)[None, :] <= ends[:, None]
    stored = inside & (lengths >= max(minimum, 1))
    paid = np.where(stored, lengths, 0.0)  # [request, j]: tokens that are paid for up to breakpoint j
    price = np.where(stored, np.where(seen, read, write), 0.0)
    # From i to j: tokens between them at the price of j; where the request ends before j, the rest after i at the full price.
    leaves = inside.astype(np.float64)
    rest = (total[:, None] - paid) * leaves
    cost: _Matrix = (price * paid).sum(axis=0)[None, :] - paid.T @ price + rest.T @ (1.0 - leaves)
    tail = rest.sum(axis=0)
    return _cheapest(cost, tail, most)


def _prefixes(requests: Sequence[Sequence[tuple[Hashable, int]]], m: int) -> tuple[_Matrix, npt.NDArray[np.bool_]]:
    """Tokens of each request's first j blocks (`[request, j]`; all of them beyond its end), and whether these came before."""
    lengths = np.zeros((len(requests), m + 1))
    seen = np.zeros((len(requests), m + 1), dtype=np.bool_)
    nodes: dict[tuple[int, Hashable], int] = {}
    for row, request in enumerate(requests):
        node = 0
        for at, (key, tokens) in enumerate(request, 1):
            lengths[row, at] = lengths[row, at - 1] + tokens
            known = nodes.get((node, (key, tokens)))
            seen[row, at] = known is not None
            node = nodes.setdefault((node, (key, tokens)), len(nodes) + 1)
        lengths[row, len(request) + 1 :] = lengths[row, len(request)]
    return lengths, seen


def _cheapest(cost: _Matrix, tail: _Matrix, most: int) -> tuple[list[int], float]:
    """`cost[i, j]` of going from breakpoint i to j, and the cost behind the last one."""
    m = len(tail) - 1
    best, chosen = float(tail[0]), [0]
    reached = np.full(m + 1, np.inf)
    reached[0] = 0.0
    paths: list[list[int]] = [[0] for _ in range(m + 1)]
    later = np.triu(np.ones_like(cost, dtype=np.bool_), k=1)
    for _ in range(min(most, m)):
        steps = np.where(later, reached[:, None] + cost, np.inf)
        before = steps.argmin(axis=0)
        reached = steps.min(axis=0)
        paths = [[*paths[int(before[j])], j] for j in range(m + 1)]
        at = int((reached + tail).argmin())
        if reached[at] + tail[at] < best - 1e-9:
            best, chosen = float(reached[at] + tail[at]), paths[at]
    return chosen[1:], best
