"""A plan of `cache_control` breakpoints for the chat requests of a workload, and its computed cost against other ways."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.diagnose.compare.json_forms import ordered
from kvtool.results.documents.optimize import Costs, GroupBreakpoints, Placement, Prices
from kvtool.text.message import role_of
from kvtool.workload.turn import Turn

_Matrix = npt.NDArray[np.float64]
_READ, _WRITE = 0.1, 1.25
"""Prices of a token that is read from the cache and of one that is written to it, where one outside it costs 1."""
PRICES = Prices(read=_READ, write=_WRITE, outside=1.0)
MINIMUM = 1024
"""Tokens below which a prefix is not stored."""
MOST = 4
_LOOKBACK = 20
"""How many content blocks before a breakpoint a stored prefix is found."""
_SYSTEM = frozenset({"system", "developer"})
_LEAST_GAIN = 0.001

Request = list[tuple[bytes, int]]
"""The content blocks of a request: what is in each, and its tokens."""


class _Priced(NamedTuple):
    """A placement, and what the sampled requests cost with it, in tokens at the full price."""

    placement: Placement
    cost: float


def plan_breakpoints(
    group: str, turns: Sequence[Turn], count: Callable[[str], int], most: int
) -> GroupBreakpoints | None:
    """Return the cheapest breakpoints (at most `most`); None where no request has messages. `count` gives the tokens of a text.

    Fixed places come from an exact dynamic program; tried too is one fewer of them and one that moves with the end of the request,
    and what it is compared with: a breakpoint after the last system block (with one alone: none) and after the last message.
    Every placement is then priced by the same rules: the longest stored prefix that a breakpoint finds is read, the rest up to the
    last breakpoint written, what follows costs the full price.
    """
    named = [_blocks(turn, count) for turn in turns if turn.messages]
    requests = [[(key, tokens) for _, key, tokens in blocks] for blocks in named]
    if not requests:
        return None
    longest = max(named, key=len)
    names = [name for name, _, _ in longest]
    tokens = sum(size for request in requests for _, size in request)
    system = max((number for number, name in enumerate(names, 1) if name.startswith(("tools", "system"))), default=0)

    def placed(marks: Sequence[int], last: bool) -> _Priced:
        where = [f"after {names[mark - 1]}" for mark in marks] + (["after the last message"] if last else [])
        placement = Placement(after_blocks=list(marks), last_message=last, where=where)
        return _Priced(placement, _cost(requests, marks, last))

    naive = placed([system] if system and most > 1 else [], True)
    found = [placed((), False), naive]
    for fixed, last in ((most, False), (most - 1, True)):
        marks = place_breakpoints(requests, read=_READ, write=_WRITE, minimum=MINIMUM, most=fixed)[0] if fixed else []
        found.append(placed(marks, last))
    best = found[0]
    for other in found[1:]:
        if other.cost < best.cost - _LEAST_GAIN * tokens:
            best = other
    return GroupBreakpoints(
        name=group,
        requests=len(requests),
        cost=Costs(no_caching=tokens, naive=naive.cost, best=best.cost),
        best=best.placement,
        naive=naive.placement,
    )


def _blocks(turn: Turn, count: Callable[[str], int]) -> list[tuple[str, bytes, int]]:
    """Return name, content and tokens of each block of a request, in the order in which they are sent."""
    blocks: list[tuple[str, bytes, int]] = []

    def add(name: str, role: str, content: object) -> None:
        data = ordered(content)
        text = str.__str__(content) if isinstance(content, str) else data.decode(errors="replace")
        blocks.append((name, role.encode() + b"\0" + data, count(text)))

    if turn.tools:
        add("tools", "tools", turn.tools)
    messages = turn.messages or []
    roles = [role_of(message) for message in messages]
    for kind in (True, False):  # system blocks are sent before all messages
        number = 0
        for message, role in zip(messages, roles, strict=True):
            if (role in _SYSTEM) != kind:
                continue
            for content in _contents(message.get("content")):
                number += 1
                name = f"system block {number}" if kind else f"message block {number} ({role or 'no role'})"
                add(name, role, content)
    return blocks


def _contents(content: object) -> Iterator[object]:
    if not isinstance(content, list):
        yield content if content is not None else ""
        return
    for part in content:
        text = part.get("text") if isinstance(part, dict) else None
        yield text if isinstance(text, str) else part


def _cost(requests: Sequence[Request], marks: Sequence[int], last: bool) -> float:
    """Return what requests cost one after the other, in tokens at the full price; nothing that is stored is forgotten."""
    nodes: dict[tuple[int, tuple[bytes, int]], int] = {}
    stored: set[int] = set()
    total = 0.0
    for request in requests:
        path, lengths = [0], [0]
        for block in request:
            path.append(nodes.setdefault((path[-1], block), len(nodes) + 1))
            lengths.append(lengths[-1] + block[1])
        ends = {mark for mark in marks if mark <= len(request)} | ({len(request)} if last else set())
        ends = {end for end in ends if lengths[end] >= MINIMUM}
        looked = {at for end in ends for at in range(max(end - _LOOKBACK, 0), end + 1) if path[at] in stored}
        hit, written = max(looked, default=0), max(ends, default=0)
        written = max(written, hit)
        total += _READ * lengths[hit] + _WRITE * (lengths[written] - lengths[hit]) + lengths[-1] - lengths[written]
        stored.update(path[end] for end in ends)
    return total


def place_breakpoints(
    requests: Sequence[Sequence[tuple[Hashable, int]]], *, read: float, write: float, minimum: int, most: int = 4
) -> tuple[list[int], float]:
    """Return after how many blocks to set breakpoints, the same for all requests, and what the workload then costs.

    A request is a sequence of blocks, each with a key (equal keys: equal text) and its tokens. Prices are per token, where a token
    outside the cache costs 1; `minimum` is the length in tokens below which a prefix is not stored, `most` how many breakpoints
    are allowed. Requests come one after the other; what is stored stays. Least cost by f(k, j) = min over i of f(k - 1, i) plus,
    for each request, the tokens from i to j times `read` (prefix j was seen) or `write`, and in the end what is after the last
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
    """Return tokens of each request's first j blocks (`[request, j]`; all of them beyond its end), and
    whether these came before.
    """
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
    """Return the cheapest way; `cost[i, j]` is that of going from breakpoint i to j, and the cost after the last one."""
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
