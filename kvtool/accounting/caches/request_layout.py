"""Requests as marks see them, and what a set of marks reads and writes: by the rules of `ProviderCache`, without prompts."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kvtool.accounting.caches.breakpoints import looked_up
from kvtool.accounting.caches.timed_tree import SHORT, StoredPrefix, Use
from kvtool.workload.call import Call
from kvtool.workload.turn import RequestName

if TYPE_CHECKING:
    from kvtool.accounting.caches.providers import Provider

MOST_REPLAYED = 400
"""Requests of a scope by which marks are chosen: its first ones."""
_MOST_BLOCKS = 4_000_000
"""Blocks that are kept, a bound on memory: about 100 MB."""


@dataclass(slots=True)
class PromptLayout:
    """A request of a provider that stores marked prefixes, by its content blocks, in the provider's tokens.

    Of most requests of a long log only the leading blocks have `keys`, and none is in `reads`, `ends` and `messages`.

    For each block: `keys` name the prefix that ends with it, `reads` are its tokens as they are read, and `ends` as they are
    written; both are 0 below the minimum. The first `lead` blocks are those of tools (`tools` of them) and the leading system text,
    `messages` are the last blocks of the messages after them, and blocks that are `unmarkable` take no mark. `kept`: for how many
    seconds a mark keeps a prefix, by the time that it asks for.
    """

    scope: str
    group: str
    name: RequestName | None
    call: Call
    rules: Provider
    use: Use
    keys: array[int]
    reads: array[int]
    ends: array[int]
    prompt: int
    tools: int
    lead: int
    messages: list[int]
    unmarkable: frozenset[int]
    kept: Mapping[float | None, float | None]
    numbers: Mapping[int, int] = field(default_factory=dict)
    """The number of the block with which a prefix ends, of prefixes that other requests have, too: no other one is ever read."""

    def block_name(self, number: int) -> str:
        """Return the place of a block in the body, as the provider's API has it: `tools[0]`, `system[1]`,
        `messages[2].content[0]`."""
        if number < self.tools:
            return f"tools[{number}]"
        if number < self.lead:
            return f"system[{number - self.tools + self.call.headers}]"
        message = bisect_left(self.messages, number)
        first = self.messages[message - 1] + 1 if message else self.lead
        return f"messages[{message}].content[{number - first}]"


class WholeLayouts:
    """Choose the requests of which all blocks are kept: marks are chosen by the first ones of a scope, and shown in the longest."""

    def __init__(self, each: int) -> None:
        """Create the choice: of each scope the first `each` requests, and those that are longer than any before with their lead."""
        self._each = each
        self._requests: Counter[str] = Counter()
        self._longest: dict[tuple[str, int], int] = {}
        self._blocks = 0
        self._calls: dict[Call, Call] = {}

    def takes(self, scope: str, lead: Sequence[int], blocks: int) -> bool:
        """Count the next request of a scope, and return whether all its blocks are kept. `lead`: keys of its leading prefixes."""
        self._requests[scope] += 1
        key = scope, lead[-1] if lead else -1
        longest = self._longest.get(key, -1)
        whole = self._blocks < _MOST_BLOCKS and (self._requests[scope] <= self._each or blocks > longest)
        if whole:
            self._longest[key] = max(longest, blocks)
            self._blocks += blocks
        return whole

    def priced_call(self, call: Call) -> Call:
        """Return what decides the prices of a call, one object for equal ones."""
        priced = Call(call.model, call.provider, settings=call.settings, summed=call.summed, headers=call.headers)
        return self._calls.setdefault(priced, priced)


class CachedTokens(NamedTuple):
    """Tokens of a request that are read, and those that are written, `written_1h` of them for an hour."""

    read: int
    written: int
    written_1h: int


def is_charged_for_an_hour(rules: Provider, ttl: float | None) -> bool:
    """Return whether a prefix that is kept for so many seconds is written at the price of an hour, or of longer than usual."""
    return rules.keeps == "breakpoints" and (ttl or 0) > (rules.ttl or SHORT)


def written_tokens(read: int, prompt: int, end: int, end_1h: int) -> tuple[int, int]:
    """Return the tokens that a request stores at a separate price, and how many of them for an hour, by the ends of its last marks
    (0: none)."""
    return max(min(max(end, end_1h), prompt) - read, 0), max(min(end_1h, prompt) - read, 0)


def share_keys(layouts: Sequence[PromptLayout]) -> None:
    """Number the prefixes of each request that others have, too, before a replay of these requests."""
    requests = Counter(key for layout in layouts for key in layout.keys)
    for layout in layouts:
        layout.numbers = {key: at for at, key in enumerate(layout.keys) if requests[key] > 1}


def replay(layouts: Sequence[PromptLayout], marks: Sequence[Mapping[int, float | None]]) -> list[CachedTokens]:
    """Return what each request reads and writes, one after another; its marks are by the number of their block, rising."""
    stored: dict[int, StoredPrefix] = {}
    found: list[CachedTokens] = []
    for layout, marked in zip(layouts, marks, strict=True):
        numbers, use, now, read = layout.numbers, layout.use, layout.use.now, 0
        known = sorted([numbers[key] for key in stored.keys() & numbers.keys()], reverse=True)
        if known:
            looked = [looked_up(mark, layout.rules.lookback) for mark in marked]
            for place, at in enumerate(known):
                if layout.reads[at] and _is_in(at, looked) and stored[layout.keys[at]].can_be_read(now):
                    read = layout.reads[at]
                    for number in known[place:]:
                        stored[layout.keys[number]].entry = now
                    break
        end = end_1h = 0
        for mark, ttl in marked.items():
            kept, key = layout.kept[ttl], layout.keys[mark]
            if is_charged_for_an_hour(layout.rules, kept):
                end_1h = max(end_1h, layout.ends[mark])
            else:
                end = max(end, layout.ends[mark])
            if key in numbers:
                if key not in stored:
                    stored[key] = StoredPrefix(now)
                stored[key].store(use, kept)
        found.append(CachedTokens(read, *written_tokens(read, layout.prompt, end, end_1h)))
    return found


def _is_in(at: int, ranges: Sequence[range]) -> bool:
    for each in ranges:  # noqa: SIM110 - a generator takes three times as long
        if at in each:
            return True
    return False
