"""Requests of a trace that ran, one after another, on their way into the books together: numbers in arrays, no objects."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kvtool.accounting.counts import Counts
from kvtool.accounting.ledger.totals import GroupTotals, TurnTotals
from kvtool.engine.blocks.chain_numbers import Chain

_FIELDS = 9
"""Number of fields of `TracedRows`."""


class TracedRows(NamedTuple):
    """Some requests, with a number of each in each array. Lengths are tokens, except fields of blocks."""

    group: Counts
    """A number of `TracedBatch.groups`."""
    tokens: Counts
    own: Counts
    """Tokens of the prompt that the same tenant had sent before; `known`: that anybody had."""
    known: Counts
    hit: Counts
    outputs: Counts
    blocks: Counts
    """Blocks of the trace; `known_blocks` of them were known; the number of the first new one (0: none)."""
    known_blocks: Counts
    first_new: Counts


class TracedBatch:
    """Collect requests, all with blocks of `unit` tokens, without sessions."""

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self.groups: list[str] = []
        self._numbers: dict[str, int] = {}
        self._rows = array("q")
        self.again = array("i")
        """The numbers of blocks that were known."""

    def __len__(self) -> int:
        return len(self._rows) // _FIELDS

    def number(self, group: str) -> int:
        """Return the number of a group, counted from 0."""
        number = self._numbers.get(group)
        if number is None:
            number = self._numbers[group] = len(self.groups)
            self.groups.append(group)
        return number

    def add(self, group: int, tokens: int, chain: Chain, hit: int, outputs: int) -> None:
        """Add the next finished request."""
        content, known, unit = chain.content, chain.known, self.unit
        blocks = len(content)
        first = 0
        if known < blocks:
            first = content[known]
            self.again.extend(content[:known])
        else:
            self.again.extend(content)
        own = min(chain.own * unit, tokens)
        self._rows.extend((group, tokens, own, min(known * unit, tokens), hit, outputs, blocks, known, first))

    def rows(self) -> TracedRows:
        """Return all requests, in order."""
        return TracedRows(*np.frombuffer(self._rows, np.int64).reshape(-1, _FIELDS).T)

    def of_groups(self, rows: TracedRows) -> Iterator[tuple[str, TracedRows]]:
        """Return the rows of each group, in the order of the groups."""
        present = np.unique(rows.group).tolist()
        if len(present) == 1:
            yield self.groups[present[0]], rows
            return
        for number in present:
            mask = rows.group == number
            yield self.groups[number], TracedRows(*(each[mask] for each in rows))

    def clear(self) -> None:
        """Forget the requests, and keep the numbers of groups."""
        self._rows, self.again = array("q"), array("i")


def settle(totals: GroupTotals, rows: TracedRows, relaxed: str | None, rungs: Sequence[tuple[str, Counts]]) -> None:
    """Close requests of a group, as `Ledger.settle` does one by one: unknown tokens count as unique until more is known.

    `relaxed` is the fate of reachable tokens that did not hit, None if there are none; `rungs` come from `traced_rungs`.
    """
    reachable = rungs[0][1]
    at, hit = rows.hit, int(rows.hit.sum())
    assert bool((at <= reachable).all()), "the engine hit more than there was"
    climbed = [*([] if relaxed is None else [(relaxed, reachable)]), *rungs]
    fates = totals.fates
    fates["hit"] += hit
    for fate, most in climbed:
        above = np.maximum(most, at)
        if gained := int((above - at).sum()):
            fates[fate] += gained
        at = above
    assert bool((at == rows.known).all()), "the ladder does not end where the known text does"
    tokens = int(rows.tokens.sum())
    fates["unique"] += tokens - int(at.sum())
    totals.add_all(rows.tokens, rows.hit)
    totals.reachable_tokens += int(reachable.sum())
    for known in rows.known.tolist():
        totals.shared(known)
    turn = totals.turns.setdefault(0, TurnTotals())
    turn.requests += len(at)
    turn.prompt_tokens += tokens
    turn.hit_tokens += hit


def traced_rungs(rows: TracedRows, size: int, *, whole_prompt_may_hit: bool) -> list[tuple[str, Counts]]:
    """Return the hits on the rungs of an unlimited cache of blocks of `size`, as `block_rungs` does for one request; by the rule
    of trace studies a partial block counts, too."""
    if whole_prompt_may_hit:
        return [("in_flight", rows.own), ("isolated", rows.known), ("partial_block", rows.known)]
    last = rows.tokens - 1
    return [
        ("in_flight", np.minimum(rows.own, last) // size * size),
        ("isolated", np.minimum(rows.known, last) // size * size),
        ("last_token", rows.known // size * size),
        ("partial_block", rows.known),
    ]
