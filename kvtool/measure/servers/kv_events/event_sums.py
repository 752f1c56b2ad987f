"""Sums of KV events over time: how much is stored and evicted, how old it was, what was stored again, and for whom.

A block that is stored again after it was evicted was computed twice: its tokens are hits that more room would have given.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass

from kvtool.accounting.quantiles import quantiles
from kvtool.measure.servers.kv_events.event_batches import (
    ClearedBlocks,
    EventBatch,
    FollowedGroup,
    RemovedBlocks,
    ServedHash,
    StoredBlocks,
)
from kvtool.measure.servers.kv_events.event_state import Break, SequenceCheck
from kvtool.results.run_times import Quantiles

MOST_REMEMBERED = 500_000
"""Evicted blocks that are remembered, the last ones of each rank; a block that comes back later counts as new."""
MOST_HELD = 1_000_000
"""Copies of blocks that all ranks together may hold; beyond, what they hold is not known."""
MOST_RANKS = 256
"""Data-parallel ranks that are counted."""
MOST_SESSIONS = 10_000
"""Sessions that are counted by themselves; those after them count as one without a name."""
MOST_AGES = 100_000
"""Evictions of which the ages are kept, the last ones."""


@dataclass(frozen=True, slots=True)
class EventSums:
    """Since the first batch. Ages are seconds by the server's clock between storing and evicting, of the last evictions; None where
    nothing was evicted, and for a file without times.

    `lost_tokens` are those of the blocks that were `stored_again` after an eviction, by the session that had to compute them again
    (None: the server names no session). `held` is None where batches are missing.
    """

    batches: int = 0
    stored: int = 0
    evicted: int = 0
    stored_again: int = 0
    lost_tokens: int = 0
    stored_tokens: int = 0
    held: int | None = None
    age: Quantiles | None = None
    losers: tuple[tuple[str | None, int], ...] = ()
    """Sessions with the tokens that they lost, most first."""
    cleared: int = 0
    restarts: int = 0
    gaps: int = 0
    problems: int = 0
    last_problem: str | None = None
    notes: tuple[str, ...] = ()
    """What is not counted, as there is too much of it."""


class EventCounter:
    """Takes batches in as they come and says their sums at any time; memory is bounded whatever a publisher sends."""

    def __init__(self) -> None:
        self._ranks: dict[int, _RankCounter] = {}
        self._batches = self._problems = 0
        self._last_problem: str | None = None
        self._losers: Counter[str | None] = Counter()
        self._ages: deque[float] = deque(maxlen=MOST_AGES)
        self._notes: dict[str, None] = {}

    def add(self, batch: EventBatch) -> None:
        """Take a batch in."""
        self._batches += 1
        self._problems += max(batch.unread, len(batch.problems))
        if batch.problems:
            self._last_problem = batch.problems[-1]
        rank = self._ranks.get(batch.rank)
        if rank is None:
            if len(self._ranks) == MOST_RANKS:
                self._notes[f"events of more than {MOST_RANKS} ranks are not counted"] = None
                return
            rank = self._ranks[batch.rank] = _RankCounter(self._losers, self._ages)
        for each in self._ranks.values():
            each.room = MOST_REMEMBERED // len(self._ranks)
        rank.add(batch)
        if sum(each.held for each in self._ranks.values()) > MOST_HELD:
            rank.lose()
            self._notes[f"more than {MOST_HELD:,} blocks are held: ages and blocks stored again are incomplete"] = None
        if rank.forgot:
            self._notes["blocks evicted long ago are forgotten: they count as new when stored again"] = None

    def sums(self) -> EventSums:
        """Return the sums of all ranks together."""
        ranks = self._ranks.values()
        return EventSums(
            batches=self._batches,
            stored=sum(rank.stored for rank in ranks),
            evicted=sum(rank.evicted for rank in ranks),
            stored_again=sum(rank.again for rank in ranks),
            lost_tokens=sum(rank.lost_tokens for rank in ranks),
            stored_tokens=sum(rank.stored_tokens for rank in ranks),
            held=sum(rank.held for rank in ranks) if ranks and all(rank.check.known for rank in ranks) else None,
            age=quantiles(self._ages),
            losers=tuple(self._losers.most_common()),
            cleared=sum(rank.check.cleared for rank in ranks),
            restarts=sum(rank.check.restarts for rank in ranks),
            gaps=sum(rank.check.gaps for rank in ranks),
            problems=self._problems,
            last_problem=self._last_problem,
            notes=tuple(self._notes),
        )


class _RankCounter:
    def __init__(self, losers: Counter[str | None], ages: deque[float]) -> None:
        self.stored = self.evicted = self.again = self.lost_tokens = self.stored_tokens = self.held = 0
        self.check = SequenceCheck()
        self._followed = FollowedGroup()
        self._losers, self._ages = losers, ages
        self._since: dict[ServedHash, float | deque[float]] = {}
        """When a held block was stored; of several copies all times."""
        self._evicted: OrderedDict[ServedHash, None] = OrderedDict()
        self.room, self.forgot = MOST_REMEMBERED, False
        """How many evicted blocks may be remembered, and whether there were more."""

    def add(self, batch: EventBatch) -> None:
        for event in self.check.take(batch):
            if isinstance(event, Break):
                if event.restarted:
                    self._forget()
            elif isinstance(event, ClearedBlocks):
                self._forget()
            elif self._followed.takes(event):
                if isinstance(event, StoredBlocks):
                    self._store(event, batch.at)
                else:
                    self._remove(event, batch.at, timed=batch.seq is not None)

    def _forget(self) -> None:
        """Forget all blocks, and those that were evicted."""
        self.held = 0
        self._since.clear()
        self._evicted.clear()

    def lose(self) -> None:
        """Count on without knowing what is held."""
        self._forget()
        self.check.known = False

    def _store(self, event: StoredBlocks, at: float) -> None:
        self.stored += len(event.block_hashes)
        self.stored_tokens += len(event.block_hashes) * event.block_size
        self.held += len(event.block_hashes)
        again = 0
        for each in event.block_hashes:
            if each in self._evicted:
                del self._evicted[each]
                again += 1
            since = self._since.get(each)
            if since is None:
                self._since[each] = at
            elif isinstance(since, deque):
                since.append(at)
            else:
                self._since[each] = deque([since, at])
        if again:
            self.again += again
            tokens = again * event.block_size
            self.lost_tokens += tokens
            session = event.session_id
            self._losers[session if session in self._losers or len(self._losers) < MOST_SESSIONS else None] += tokens

    def _remove(self, event: RemovedBlocks, at: float, *, timed: bool) -> None:
        self.evicted += len(event.block_hashes)
        for each in event.block_hashes:
            since = self._since.pop(each, None)
            if since is not None:
                self.held -= 1
                age = max(at - (since.popleft() if isinstance(since, deque) else since), 0.0)
                if timed:
                    self._ages.append(age)
            if isinstance(since, deque) and since:
                self._since[each] = since
            else:
                self._evicted[each] = None
        while len(self._evicted) > self.room:
            self._evicted.popitem(last=False)
            self.forgot = True
