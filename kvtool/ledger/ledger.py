"""The book in which every request is entered when it is submitted and settled when it is done."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvtool.align import align, common_prefix
from kvtool.ledger.fates import FATES
from kvtool.ledger.totals import GroupTotals, TurnTotals
from kvtool.prefix_tree import Ids, Match, PrefixTree

MIN_RUN = 8
"""Tokens in a row that must agree behind a difference to count as the same text (shorter runs agree by chance)."""

_MOST_ALIGNED = 200_000


@dataclass(frozen=True, slots=True)
class Gap:
    """Tokens [start, stop) of a prompt differ from its closest predecessor, and `blocked` tokens of the same text come after."""

    start: int
    stop: int
    blocked: int


@dataclass(slots=True)
class Entry:
    """A request in the ledger, from its submission until its fate is settled."""

    owner: int
    group: GroupTotals
    num_tokens: int
    rungs: list[tuple[str, int]]
    reachable: int
    gap: Gap | None
    turn: int


class Ledger:
    """Takes every request as it is submitted, and its hits when it is done; holds totals, never requests.

    Lengths are tokens. For a trace of block hashes `unit` is its block size: ids then stand for that many tokens each.
    """

    def __init__(
        self,
        block_size: int,
        *,
        newline: Callable[[], npt.NDArray[np.bool_]] | None = None,
        caching: bool = True,
        whole_prompt_may_hit: bool = False,
        find_gaps: bool = True,
    ) -> None:
        """`newline` gives the mask of the token ids that end a line; without `find_gaps` nothing is looked for behind differences.

        `whole_prompt_may_hit` is the rule of trace studies: no token of a prompt has to be computed.
        """
        self.block_size = block_size
        self.newline = newline
        self.caching = caching
        self.whole_prompt_may_hit = whole_prompt_may_hit
        self.find_gaps = find_gaps
        self.groups: dict[str, GroupTotals] = {}
        self._trees: dict[int, PrefixTree] = {}
        """Everything that was submitted, by the unit of its ids: what a token and what a block is called may be one number."""
        self._tenants: dict[tuple[int, str], PrefixTree] | None = None
        """The same for each salt; None while nobody has one."""
        self._owner_group: list[GroupTotals] = []
        self._owner_tokens = array("q")
        self._blocked: dict[int, list[tuple[int, int]]] = {}

    def group(self, name: str) -> GroupTotals:
        """The totals of a group, made where it is new."""
        if name not in self.groups:
            self.groups[name] = GroupTotals(name=name)
        return self.groups[name]

    def submit(
        self,
        group: str,
        ids: Ids,
        output: Ids,
        *,
        salt: str | None = None,
        unit: int = 1,
        num_tokens: int | None = None,
        turn: int = 0,
        has_text: bool = True,
    ) -> Entry:
        """Enter a request: `ids` of its prompt and `output` of its answer as far as it is computed."""
        totals = self.group(group)
        count = len(ids) if num_tokens is None else num_tokens
        owner = len(self._owner_group)
        self._owner_group.append(totals)
        self._owner_tokens.append(count)
        sequence = np.concatenate([ids, output]) if len(output) else ids
        if salt and self._tenants is None:  # all before were of one tenant
            self._tenants = {(of, ""): tree.copy() for of, tree in self._trees.items()}
        if unit not in self._trees:
            self._trees[unit] = PrefixTree()
        tree = self._trees[unit]
        match = tree.match(ids)
        known = min(match.length * unit, count)
        gap = self._find_gap(tree, totals, ids, match, owner, has_text) if unit == 1 and self.find_gaps else None
        tree.insert(sequence, owner, match)
        own = known
        if self._tenants is not None:
            own = min(_grow(self._tenants.setdefault((unit, salt or ""), PrefixTree()), ids, sequence) * unit, count)
        rungs = self._rungs(count, own, known, unit)
        totals.shared_prefixes[known] += 1
        if len(totals.shared_prefixes) > 4096:
            totals.shared_prefixes = Counter(dict(totals.shared_prefixes.most_common(1024)))
        totals.last_prompt = ids if unit == 1 else None
        return Entry(owner, totals, count, rungs, rungs[0][1], gap, turn)

    def _rungs(self, count: int, own: int, known: int, unit: int) -> list[tuple[str, int]]:
        """Tokens that hit on the rungs of an unlimited cache, each with the fate of what it adds."""
        size = self.block_size
        if self.whole_prompt_may_hit:
            size = 1 if unit > 1 else size  # a trace's partial block counts too
            return [("in_flight", own // size * size), ("isolated", known // size * size), ("partial_block", known)]
        return [
            ("in_flight", min(own, count - 1) // size * size),
            ("isolated", min(known, count - 1) // size * size),
            ("last_token", known // size * size),
            ("partial_block", known),
        ]

    def _find_gap(
        self, tree: PrefixTree, totals: GroupTotals, ids: Ids, match: Match, owner: int, has_text: bool
    ) -> Gap | None:
        """Align what is left of a prompt with what followed in its closest predecessor."""
        rest = ids[match.length :]
        if not MIN_RUN <= len(rest) <= _MOST_ALIGNED:
            return None
        last = totals.last_prompt
        if last is not None and common_prefix(last, ids) >= match.length:
            before = last[match.length :]
        else:
            before = tree.continuation(match, 2 * len(rest) + 4096)
        if len(before) < MIN_RUN:
            return None
        runs = align(
            rest, before, newline=self.newline() if has_text and self.newline is not None else None, min_run=MIN_RUN
        )
        if not runs:
            return None
        blocked = [(match.length + run.a_start, match.length + run.a_start + run.length) for run in runs]
        self._blocked[owner] = blocked
        return Gap(match.length, blocked[0][0], sum(stop - start for start, stop in blocked))

    def settle(self, entry: Entry, hit: int, *, unlimited_hit: int | None = None) -> dict[str, int]:
        """Close a request: `hit` tokens with the engine as configured, `unlimited_hit` with the same engine and an unlimited cache.

        Returns the request's fates so far; what is neither hit nor blocked is split into first_use and unique by `close`.
        """
        group = entry.group
        fates: dict[str, int] = {"hit": hit}
        at = hit
        lost = "evicted" if self.caching else "caching_off"
        if unlimited_hit is None or not self.caching:
            unlimited_hit = entry.reachable
        # In the other run requests may have come in another order: no more than what this one's order allows.
        ladder = [(lost, min(unlimited_hit, entry.reachable)), *entry.rungs]
        for name, tokens in ladder:
            if tokens > at:
                fates[name] = fates.get(name, 0) + tokens - at
                at = tokens
        if entry.gap is not None:
            fates["blocked"] = entry.gap.blocked
        assert at + fates.get("blocked", 0) <= entry.num_tokens, "the ladder climbed past the prompt"
        group.requests += 1
        group.prompt_tokens += entry.num_tokens
        group.hit_tokens += hit
        assert hit <= entry.reachable, "the engine hit more than there was"
        group.reachable_tokens += entry.reachable
        group.request_rates += hit / entry.num_tokens if entry.num_tokens else 0.0
        group.fates.update(fates)
        turn = group.turns.setdefault(entry.turn, TurnTotals())
        turn.requests += 1
        turn.prompt_tokens += entry.num_tokens
        turn.hit_tokens += hit
        return fates

    def drop(self, entry: Entry) -> None:
        """Leave an interrupted request out of the books."""
        self._owner_tokens[entry.owner] = 0

    def close(self) -> None:
        """Split what nobody had computed before into what later prompts reused and what they did not; then check the sums."""
        for unit, node in ((unit, node) for unit, tree in self._trees.items() for node in tree.nodes()):
            group = self._owner_group[node.owner]
            start, stop = node.start * unit, min(node.stop * unit, self._owner_tokens[node.owner])
            if start >= stop:
                continue
            blocked = sum(
                max(min(stop, right) - max(start, left), 0) for left, right in self._blocked.get(node.owner, ())
            )
            group.fates["first_use" if node.reused else "unique"] += stop - start - blocked
        for group in self.groups.values():
            total = sum(group.fates.values())
            assert total == group.prompt_tokens, f"{group.name}: fates sum to {total}, not {group.prompt_tokens}"

    def fates(self) -> dict[str, int]:
        """Tokens of each fate over all groups, in the order of the ladder; fates without tokens are left out."""
        sums: Counter[str] = Counter()
        for group in self.groups.values():
            sums.update(group.fates)
        return {name: sums[name] for name in FATES if sums[name] or name == "hit"}

    def totals(self) -> Iterator[GroupTotals]:
        """The groups in the order of their first request."""
        return iter(self.groups.values())


def _grow(tree: PrefixTree, ids: Ids, sequence: Ids) -> int:
    """Add a sequence to a tenant's tree; returns how much of its prompt was there."""
    match = tree.match(ids)
    tree.insert(sequence, 0, match)
    return match.length
