"""The book in which every request is entered when it is submitted and settled when it is done."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvtool.accounting.ledger.alignment import Attributed, DonorAlignment, Rung, attribute
from kvtool.accounting.ledger.booked_fates import after_gaps, replace_moved
from kvtool.accounting.ledger.comparer import Comparer, Compares
from kvtool.accounting.ledger.donors import KeptFor
from kvtool.accounting.ledger.fates import FATES, OF_TEXT, OF_TOKENS, block_rungs
from kvtool.accounting.ledger.ranges import Ranges
from kvtool.accounting.ledger.sums import Booked, SumBook, SumTotals
from kvtool.accounting.ledger.totals import GroupTotals, TurnTotals
from kvtool.accounting.ledger.trace_book import TraceBook
from kvtool.accounting.ledger.traced_batch import TracedBatch, settle, traced_rungs
from kvtool.accounting.ledger.watcher import Watcher
from kvtool.accounting.prefix_tree import Ids, RadixTree, with_answer
from kvtool.accounting.token_store import TokenStore
from kvtool.engine.blocks.chain_numbers import Chain, TraceNumbers
from kvtool.results.choices import TokensBy
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.turn import Turn

_UNREACHABLE = frozenset(("below_minimum", "partial_block"))
"""Fates of tokens that a provider never caches in these prompts, whatever else is changed."""


@dataclass(slots=True)
class LedgerEntry:
    """A request in the ledger, from its submission until its fate is settled."""

    owner: int
    group: GroupTotals
    num_tokens: int
    rungs: list[tuple[str, int]]
    reachable: int
    known: int
    own: int
    """The part that the same tenant had computed."""
    turn: Turn
    prompt: Prompt | None
    alignment: DonorAlignment | None
    attributed: list[Attributed] | None
    """The tokens that the gaps block; None until they are explained: then all of it is `blocked`."""
    repeated: list[tuple[int, int]]
    """Ranges of lines after `known` that an earlier prompt contains anywhere."""
    traced: bool = False
    """True if only ids of its blocks are known."""


class Ledger:
    """Take every request at its submission, and its hits when it is done; keep totals, never requests.

    Lengths are tokens. For a trace of block hashes `unit` is its block size: each id is that many tokens.
    """

    def __init__(
        self,
        block_size: int,
        *,
        newline: Callable[[], npt.NDArray[np.bool_]] | None = None,
        caching: bool = True,
        whole_prompt_may_hit: bool = False,
        find_gaps: bool = True,
        fates: bool = True,
        salted: bool = True,
        moves: bool = False,
        by: TokensBy | None = None,
        watcher: Watcher | None = None,
        kept_for: KeptFor | None = None,
    ) -> None:
        """Create the ledger. `newline` returns the mask of token ids that end a line. Without `find_gaps` differences are not
        searched. Without `salted` the cache ignores salts and senders. If it `moves` its content, text after the first difference
        may hit.

        Without `fates` requests are submitted for comparison, and then counted: none is settled.

        `whole_prompt_may_hit` is the rule of trace studies: no token of a prompt must be computed. `by` requests `sums`. `watcher`
        receives the entries. `kept_for` returns for how many seconds a cache keeps a request: prompts are compared with those that
        it still keeps, if there are any.
        """
        self.block_size = block_size
        self.newline = newline
        self.kept_for = kept_for
        self.caching = caching
        self.whole_prompt_may_hit = whole_prompt_may_hit
        self.find_gaps = find_gaps
        self._has_fates = fates
        self._salted = salted
        self._moves = moves
        self.watcher = watcher
        self.groups: dict[str, GroupTotals] = {}
        self._store = TokenStore()
        self._trees: dict[int | None, RadixTree] = {}
        """All submitted prompts, by the unit of a trace's blocks, None for tokens: a token and a block may have the same number.

        For traces only if a watcher needs it.
        """
        self._traces: dict[int, TraceBook] = {}
        """The same of traces by the unit of their blocks, and numbers for those that come without."""
        self._numbers: dict[int, TraceNumbers] = {}
        self._tenants: dict[str, RadixTree] | None = None
        """All submitted prompts of each salt; None while all requests have one salt, `_only`."""
        self._only: str | None = None
        self._owner_group: list[GroupTotals] = []
        self._owner_tokens = array("q")
        self._unsettled = array("q")
        """Tokens whose fate `close` finds, by owner with any; not for traces."""
        self._taken = Ranges()
        """New text that already has a fate, by owner."""
        self.comparer: Compares = Comparer(newline, kept_for=kept_for, lines=fates)
        self._sums = None if by is None else SumBook(by)
        self._had: set[str] = set()
        """`tokens` and `text`, where any prompt had them."""

    def group(self, name: str) -> GroupTotals:
        """Return the totals of a group, made where it is new."""
        if name not in self.groups:
            self.groups[name] = GroupTotals(name=name)
        return self.groups[name]

    def submit(
        self,
        turn: Turn,
        ids: Ids,
        output: Ids,
        *,
        prompt: Prompt | None = None,
        unit: int | None = None,
        num_tokens: int | None = None,
        compare: bool = True,
        chain: Chain | None = None,
        scope: str | None = None,
        reads: bool = True,
    ) -> LedgerEntry:
        """Enter a request: `ids` of its prompt and the computed `output` of its answer.

        With `unit` the ids are a trace's blocks of so many tokens. They may leave out a partial last block; `chain` has their
        numbers, if there are any already. `scope` names the cache that the request can read, if that is not its salt's. Without
        `reads` no token can hit: the request looks nothing up. Without `compare` it is neither compared nor kept for comparison.
        """
        totals = self.group(turn.group)
        count = len(ids) if num_tokens is None else num_tokens
        owner = len(self._owner_group)
        self._owner_group.append(totals)
        self._owner_tokens.append(count)
        if unit is not None:
            return self._submit_traced(turn, totals, owner, ids, unit, count, chain)
        sequence = with_answer(ids, output)
        salt, tree = scope or (turn.salt if self._salted else None) or "", self._tree()
        self._only = salt if self._only is None else self._only
        if salt != self._only and self._tenants is None:
            self._tenants = {self._only: tree.copy()}
        match = tree.match(ids)
        known = min(match.length, count)
        if self.watcher is not None and match.length == len(ids):
            self.watcher.known(match.node, turn.group)
        self._had.update(("tokens", "text") if prompt is not None and prompt.text is not None else ("tokens",))
        alignment, repeated = None, list[tuple[int, int]]()
        if self.find_gaps and compare:
            compared = Prompt(ids) if prompt is None else prompt
            alignment, repeated = self.comparer.compare(tree, match, turn, compared, sequence)
        tree.insert(sequence, owner, match)
        own = known
        if self._tenants is not None:
            tenant = self._tenants.setdefault(salt, RadixTree(self._store))
            own = min(tenant.grow(ids, sequence), count)
        rungs = self._rungs(count, own, known)
        reachable = rungs[0][1] if reads else 0
        if not reads:
            rungs[0] = ("not_read", rungs[0][1])
        totals.shared(known)
        return LedgerEntry(owner, totals, count, rungs, reachable, known, own, turn, prompt, alignment, None, repeated)

    def _submit_traced(
        self, turn: Turn, totals: GroupTotals, owner: int, ids: Ids, unit: int, count: int, chain: Chain | None
    ) -> LedgerEntry:
        if unit not in self._traces:
            self._traces[unit] = TraceBook(unit)
            self._numbers[unit] = TraceNumbers()
        if chain is None:
            chain = self._numbers[unit].number(ids.tolist(), turn.salt)
        self._traces[unit].enter(owner, chain, count)
        if self.watcher is not None and self.watcher.details:
            self._watch_traced(self.watcher, turn, owner, ids, unit, count)
        known, own = min(chain.known * unit, count), min(chain.own * unit, count)
        rungs = self._rungs(count, own, known, traced=True)
        totals.shared(known)
        return LedgerEntry(owner, totals, count, rungs, rungs[0][1], known, own, turn, None, None, None, [], True)

    def enter_traced(self, batch: TracedBatch, *, evicts: bool) -> None:
        """Enter finished requests, as `submit` and `settle` would one by one, for a watcher without details and without sums.
        `evicts`: the cache is limited."""
        assert self._sums is None
        book = self._traces.get(batch.unit)
        if book is None:
            book = self._traces[batch.unit] = TraceBook(batch.unit)
            self._numbers[batch.unit] = TraceNumbers()
        rows = batch.rows()
        book.enter_all(len(self._owner_group), batch)
        groups = [self.group(name) for name in batch.groups]
        self._owner_group += map(groups.__getitem__, rows.group.tolist())
        self._owner_tokens.extend(rows.tokens.tolist())
        relaxed = "evicted" if evicts else None
        for name, part in batch.of_groups(rows):
            rungs = traced_rungs(part, self.block_size, whole_prompt_may_hit=self.whole_prompt_may_hit)
            settle(self.group(name), part, relaxed if self.caching else "caching_off", rungs)
        if self.watcher is not None:
            self.watcher.settled_traced(batch)

    def _watch_traced(self, watcher: Watcher, turn: Turn, owner: int, ids: Ids, unit: int, count: int) -> None:
        """Grow the tree that a watcher wants."""
        if len(ids) * unit < count:  # a last block that the trace leaves out is unique
            ids = np.append(ids, np.int32(-1 - owner))
        tree = self._tree(unit)
        match = tree.match(ids)
        if match.length == len(ids):
            watcher.known(match.node, turn.group)
        tree.insert(ids, owner, match)

    def _tree(self, unit: int | None = None) -> RadixTree:
        """Return the tree of all prompts of a unit, made where it is new."""
        if unit not in self._trees:
            self._trees[unit] = RadixTree(self._store)
        return self._trees[unit]

    def explain(self, entry: LedgerEntry, rungs: tuple[Rung, ...]) -> None:
        """Set the rung of each gap of the entry's alignment; the entry must not be settled yet."""
        if entry.alignment is not None and self._has_fates:
            entry.attributed = attribute(entry.alignment, rungs)

    def _rungs(self, count: int, own: int, known: int, *, traced: bool = False) -> list[tuple[str, int]]:
        """Return the hits on the rungs of an unlimited cache, each with the fate of its extra hits."""
        size = self.block_size
        if self.whole_prompt_may_hit:
            size = 1 if traced else size  # a trace's partial block counts too
            return [("in_flight", own // size * size), ("isolated", known // size * size), ("partial_block", known)]
        return block_rungs(count, own, known, size)

    def settle(
        self, entry: LedgerEntry, hit: int, *, relaxed: Sequence[tuple[str, int]] | None = None
    ) -> dict[str, int]:
        """Close a request that `hit` so many tokens with the configured engine.

        `relaxed` are its hits with the same engine under relaxed rules, each with the fate of its extra hits, and none less relaxed
        than the one before. None: only the cache's size limits hits.

        Return the request's fates so far; `close` splits the rest into first_use and unique.
        """
        moved = self._moves and entry.known < hit < entry.num_tokens
        assert moved or hit <= entry.reachable, "the engine hit more than there was"
        booked = self._climbed(entry, min(hit, entry.reachable), relaxed)
        if not entry.traced:
            booked += after_gaps(entry.attributed, entry.alignment, entry.repeated)
        if moved:
            booked = replace_moved(booked, entry.known, hit)
        fates = {"hit": 0}
        at, left = 0, entry.num_tokens
        for start, stop, fate in booked:
            assert at <= start <= stop <= entry.num_tokens, "a token with two fates"
            fates[fate] = fates.get(fate, 0) + stop - start
            left -= stop - start
            at = stop
        group = entry.group
        for fate, tokens in fates.items():
            group.fates[fate] += tokens
        if entry.traced:
            group.fates["unique"] += left  # until `close` knows better
        else:
            self._unsettled.extend([0] * (entry.owner + 1 - len(self._unsettled)))
            self._unsettled[entry.owner] = left
            self._taken.put(entry.owner, ((start, stop) for start, stop, _ in booked if start >= entry.known))
        if self._sums is not None:
            self._sums.enter(entry.owner, entry.turn, entry.prompt, entry.num_tokens, entry.known, booked)
        group.add(entry.num_tokens, hit)
        never = (min(stop, entry.reachable) - start for start, stop, fate in booked if fate in _UNREACHABLE)
        group.reachable_tokens += entry.reachable - sum(tokens for tokens in never if tokens > 0)
        turn = group.turns.get(entry.turn.index)
        if turn is None:
            turn = group.turns[entry.turn.index] = TurnTotals()
        turn.requests += 1
        turn.prompt_tokens += entry.num_tokens
        turn.hit_tokens += hit
        if self.watcher is not None:
            self.watcher.settled(entry.owner, entry.turn, entry.prompt, entry.num_tokens, hit, booked)
        return fates

    def count(self, name: str, num_tokens: int, hit: int) -> None:
        """Add a request to the sums of its group only; then there is nothing to `close`."""
        self.group(name).add(num_tokens, hit)

    def _climbed(self, entry: LedgerEntry, hit: int, relaxed: Sequence[tuple[str, int]] | None) -> list[Booked]:
        """Return the known part of the prompt, rung by rung."""
        if not self.caching:
            relaxed = [("caching_off", entry.reachable)]
        elif relaxed is None:
            relaxed = [("evicted", entry.reachable)]
        booked = [Booked(0, hit, "hit")] if hit else []
        at = hit
        # Another run may have another order of requests: take no more than this run's order allows.
        for fate, most in relaxed:
            tokens = min(most, entry.reachable)
            if tokens > at:
                booked.append(Booked(at, tokens, fate))
                at = tokens
        for fate, tokens in entry.rungs:
            if tokens > at:
                booked.append(Booked(at, tokens, fate))
                at = tokens
        assert at == entry.known, "the ladder does not end where the known text does"
        return booked

    def drop(self, entry: LedgerEntry) -> None:
        """Leave an interrupted request out of the books."""
        self._owner_tokens[entry.owner] = 0

    def close(self) -> None:
        """Split the tokens computed for the first time by whether later prompts reused them; then check the sums."""
        for book in self._traces.values():
            self._close_trace(book)
        tree = self._trees.get(None)
        for node in tree.nodes() if tree is not None else ():
            group = self._owner_group[node.owner]
            start, stop = node.start, min(node.stop, self._owner_tokens[node.owner])
            if start >= stop:
                continue
            fate = "first_use" if node.reused else "unique"
            for left, right in self._taken.outside(node.owner, start, stop):
                group.fates[fate] += right - left
                self._unsettled[node.owner] -= right - left
                if self._sums is not None:
                    self._sums.book(node.owner, Booked(left, right, fate))
                if self.watcher is not None:
                    self.watcher.closed(node.owner, Booked(left, right, fate))
        assert not any(self._unsettled), "a request whose fates do not sum to its tokens"
        for group in self.groups.values():
            total = sum(group.fates.values())
            assert total == group.prompt_tokens, f"{group.name}: fates sum to {total}, not {group.prompt_tokens}"
        if self._sums is not None:
            self._sums.check(sum(group.prompt_tokens for group in self.groups.values()))

    def _close_trace(self, book: TraceBook) -> None:
        for owner, tokens in book.first_uses(self._owner_tokens):
            fates = self._owner_group[owner].fates
            fates["first_use"] += tokens
            fates["unique"] -= tokens
        if self._sums is None and (self.watcher is None or not self.watcher.details):
            return
        for owner, booked in book.fates(self._owner_tokens):
            if self._sums is not None:
                self._sums.book(owner, booked)
            if self.watcher is not None:
                self.watcher.closed(owner, booked)

    def forget_requests(self) -> None:
        """Keep the totals alone; nothing can be submitted any more, and there are no trees and no examples."""
        self._store, self._trees, self._tenants = TokenStore(), {}, None
        self._traces, self._numbers = {}, {}
        self._owner_group, self._owner_tokens, self._unsettled = [], array("q"), array("q")
        self._taken, self.comparer = Ranges(), Comparer(self.newline, lines=self._has_fates)

    def fates(self) -> dict[str, int]:
        """Return tokens of each fate over all groups, in the order of the ladder; fates without tokens are left out."""
        sums: Counter[str] = Counter()
        for group in self.groups.values():
            sums.update(group.fates)
        return {name: sums[name] for name in FATES if sums[name] or name == "hit"}

    def sums(self) -> list[SumTotals]:
        """Return the fates by the constructor's `by`, in order of lost tokens; complete after `close`."""
        return [] if self._sums is None else self._sums.rows()

    def absent(self) -> tuple[str, ...]:
        """Return fates that this workload cannot have, because no prompt came with its tokens or none with its text."""
        return tuple(
            fate
            for fate in FATES
            if (fate in OF_TOKENS and "tokens" not in self._had) or (fate in OF_TEXT and "text" not in self._had)
        )

    @property
    def trees(self) -> Mapping[int | None, RadixTree]:
        """All tenants' prompts, by the unit of a trace's blocks, None for tokens; an edge's owner is the number of a request.

        For a trace they are there only if the watcher needs details.
        """
        return self._trees

    def owner(self, number: int) -> tuple[str, int]:
        """Return the group of a request and its prompt tokens (0 where it was dropped), by the order of submission."""
        return self._owner_group[number].name, self._owner_tokens[number]

    def examples(self) -> Iterator[Prompt]:
        """Return kept prompts to compare others with: of each group and session the last, and others; bounded in tokens."""
        return self.comparer.examples()

    def totals(self) -> Iterator[GroupTotals]:
        """Return the groups in the order of their first request."""
        return iter(self.groups.values())
