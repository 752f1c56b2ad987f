"""Where to set `cache_control` breakpoints in the chat requests of a workload, and what that costs against other ways: computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kvtool.diagnose.compare.json_forms import ordered
from kvtool.fixes.breakpoint_places import place_breakpoints
from kvtool.text.message import role_of
from kvtool.workload.turn import Turn

READ, WRITE = 0.1, 1.25
"""Prices of a token that is read from the cache and of one that is written to it, where one outside it costs 1."""
MINIMUM = 1024
"""Tokens below which a prefix is not stored."""
MOST = 4
_LOOKBACK = 20
"""How many content blocks before a breakpoint a stored prefix is found."""
_SYSTEM = frozenset({"system", "developer"})
_LEAST_GAIN = 0.001

Request = list[tuple[bytes, int]]
"""The content blocks of a request: what is in each, and its tokens."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Breakpoints and what the sampled requests cost with them, in tokens at the full price.

    `marks` are numbers of content blocks (from 1) behind which a breakpoint stands, the same in all requests; `last` is one more
    behind the last block of each request. `where` says both in words.
    """

    marks: tuple[int, ...]
    last: bool
    where: tuple[str, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class BreakpointPlan:
    """The breakpoints of a group, from its first `requests` requests; without caching they cost their `tokens`."""

    group: str
    requests: int
    tokens: int
    best: Placement
    naive: Placement


def plan_breakpoints(
    group: str, turns: Sequence[Turn], count: Callable[[str], int], most: int
) -> BreakpointPlan | None:
    """The cheapest breakpoints (at most `most`); None where no request has messages. `count` gives the tokens of a text.

    Fixed places come from an exact dynamic program; tried too is one fewer of them and one that moves with the end of the request,
    and what it is compared with: a breakpoint behind the last system block (with one alone: none) and behind the last message.
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

    def placed(marks: Sequence[int], last: bool) -> Placement:
        where = [f"after {names[mark - 1]}" for mark in marks] + (["after the last message"] if last else [])
        return Placement(tuple(marks), last, tuple(where), _cost(requests, marks, last))

    naive = placed([system] if system and most > 1 else [], True)
    found = [placed((), False), naive]
    for fixed, last in ((most, False), (most - 1, True)):
        marks = place_breakpoints(requests, read=READ, write=WRITE, minimum=MINIMUM, most=fixed)[0] if fixed else []
        found.append(placed(marks, last))
    best = found[0]
    for other in found[1:]:
        if other.cost < best.cost - _LEAST_GAIN * tokens:
            best = other
    return BreakpointPlan(group, len(requests), tokens, best, naive)


def _blocks(turn: Turn, count: Callable[[str], int]) -> list[tuple[str, bytes, int]]:
    """Name, content and tokens of each block of a request, in the order in which they are sent."""
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
    """What requests cost one after the other, in tokens at the full price; nothing that is stored is forgotten."""
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
        total += READ * lengths[hit] + WRITE * (lengths[written] - lengths[hit]) + lengths[-1] - lengths[written]
        stored.update(path[end] for end in ends)
    return total
