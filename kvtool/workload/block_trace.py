"""A workload as blocks and nothing else: columns, a row for each request, on which plans of caches are tried many times."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.chain_numbers import TraceNumbers
from kvtool.engine.blocks.hashing import NATIVE

if TYPE_CHECKING:
    from kvtool.errors import Place
    from kvtool.workload.jobs import Job
    from kvtool.workload.turn import HashedPrompt, Turn

Numbers = npt.NDArray[np.int64]
_AT_A_TIME = 1 << 20  # blocks that are worked out at a time
_DENSE = 4
"""Ids up to so many times their number are taken as numbers as they are."""
_LONGEST = 1 << 62  # ids beyond it are numbered anew, below all others
CLOCKS_APART = 366 * 86_400.0
"""Seconds: a pause that is longer is none, and the times before and after it are of two clocks."""


@dataclass(frozen=True, slots=True)
class BlockTrace:
    """n requests in the order in which they were read, r blocks in all.

    `numbers[starts[i]:starts[i + 1]]` are the blocks of request i: two of them are equal if they hold the same tokens from the
    start of their prompts on, for the same salt. Blocks of the prompt come first, a partial last one included where a trace names
    it (`whole` of them are full), then those of the answer as far as it is known and computed.
    """

    block_size: int
    numbers: Numbers
    starts: Numbers
    whole: Numbers
    """By request, the full blocks of its prompt."""
    named: Numbers
    """By request, all blocks of its prompt."""
    prompt_tokens: Numbers
    output_tokens: Numbers
    """0 where a trace does not say."""
    arrivals: npt.NDArray[np.float64]
    """Seconds; NaN where a log does not say."""
    sessions: npt.NDArray[np.int32]
    """Numbers of sessions; -1 where a request is of none."""
    salts: npt.NDArray[np.int32]
    """The same of salts."""
    traced: bool = False
    """Whether a trace names the blocks, partial ones, too, and says nothing of answers."""
    untimed: Place | None = None
    """Where the first request without an arrival time is written."""
    leap: Place | None = None
    """Where the first request is written whose time is of another clock than that of the one before it."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def references(self) -> int:
        """Return blocks of all prompts."""
        return int(self.named.sum())

    @property
    def distinct(self) -> int:
        """Return one more than the largest number."""
        return int(self.numbers.max(initial=-1)) + 1

    def of_studies(self) -> RequestedBlocks:
        """Count by the rule of trace studies: all blocks of a prompt may hit, a partial one, too, and answers are not kept."""
        return self._asked(self.named, self.named)

    def of_engine(self) -> RequestedBlocks:
        """Count by vLLM's rule: full blocks, of which the one with a prompt's last token is computed in any case."""
        ends = np.where(self.named == self.whole, np.diff(self.starts), self.whole)
        return self._asked(np.maximum(self.prompt_tokens - 1, 0) // self.block_size, ends)

    def coarser(self, times: int) -> BlockTrace:
        """Return the same requests in blocks so many times as long: a block is named by its last part."""
        if times == 1:
            return self
        counts = np.diff(self.starts)
        kept = -(-counts // times) if self.traced else counts // times
        starts = np.concatenate([[0], np.cumsum(kept)])
        place = np.arange(int(starts[-1])) - np.repeat(starts[:-1], kept)
        ends = np.minimum((place + 1) * times, np.repeat(counts, kept)) - 1
        return replace(
            self,
            block_size=self.block_size * times,
            numbers=self.numbers[np.repeat(self.starts[:-1], kept) + ends],
            starts=starts,
            whole=self.whole // times,
            named=-(-self.named // times) if self.traced else self.whole // times,
        )

    def only(self, kept: npt.NDArray[np.bool_]) -> BlockTrace:
        """Return the requests that are kept, in their order."""
        counts = np.diff(self.starts)
        columns = ("whole", "named", "prompt_tokens", "output_tokens", "arrivals", "sessions", "salts")
        return replace(
            self,
            numbers=self.numbers[np.repeat(kept, counts)],
            starts=np.concatenate([[0], np.cumsum(counts[kept])]),
            **{name: getattr(self, name)[kept] for name in columns},
        )

    def _asked(self, asked: Numbers, touched: Numbers) -> RequestedBlocks:
        if np.array_equal(touched, np.diff(self.starts)):
            return RequestedBlocks(self.numbers, self.starts, np.minimum(asked, touched))
        kept = RequestedBlocks(self.numbers, self.starts, touched).looked_up
        starts = np.concatenate([[0], np.cumsum(touched)])
        return RequestedBlocks(self.numbers[kept], starts, np.minimum(asked, touched))


@dataclass(frozen=True, slots=True)
class RequestedBlocks:
    """Blocks that requests touch: `numbers[starts[i]:starts[i + 1]]`, of which the first `asked[i]` are looked up."""

    numbers: Numbers
    starts: Numbers
    asked: Numbers

    @property
    def references(self) -> int:
        """Return blocks that are looked up."""
        return int(self.asked.sum())

    @property
    def looked_up(self) -> npt.NDArray[np.bool_]:
        """Return for each block whether its request looks it up."""
        found = np.empty(len(self.numbers), dtype=np.bool_)
        for first, stop in self._parts():
            begin, end = int(self.starts[first]), int(self.starts[stop])
            counts = np.diff(self.starts[first : stop + 1])
            places = np.arange(begin, end) - np.repeat(self.starts[first:stop], counts)
            found[begin:end] = places < np.repeat(self.asked[first:stop], counts)
        return found

    @property
    def reachable(self) -> int:
        """Return blocks that an unlimited cache hits: all that are looked up but where they come first."""
        earliest = np.empty(int(self.numbers.max(initial=-1)) + 1, dtype=np.int64)
        parts = [(int(self.starts[first]), int(self.starts[stop])) for first, stop in self._parts()]
        for begin, end in reversed(parts):
            earliest[self.numbers[begin:end][::-1]] = np.arange(end - 1, begin - 1, -1)
        looked_up = self.looked_up
        return sum(
            int(np.count_nonzero(looked_up[begin:end] & (earliest[self.numbers[begin:end]] < np.arange(begin, end))))
            for begin, end in parts
        )

    def _parts(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of requests with about `_AT_A_TIME` blocks: what is worked out for each block takes room for so many."""
        first, last = 0, len(self.asked)
        while first < last:
            stop = int(np.searchsorted(self.starts, self.starts[first] + _AT_A_TIME, side="right")) - 1
            yield first, (first := min(max(stop, first + 1), last))

    def requests(self) -> list[list[int]]:
        """Return the blocks of each request."""
        numbers, starts = self.numbers.tolist(), self.starts.tolist()
        return [numbers[first:stop] for first, stop in pairwise(starts)]


class BlockCollector:
    """Takes requests in their order and gives the trace.

    Ids of a trace are taken as they are where an id always follows the same other one; else chains of them are numbered. Blocks of
    tokens are numbered by their hashes.
    """

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._ids = array("q")
        self._counts = array("q")
        self._whole = array("q")
        self._named = array("q")
        self._prompts = array("q")
        self._outputs = array("q")
        self._arrivals = array("d")
        self._sessions = array("i")
        self._salts = array("i")
        self._session_numbers: dict[tuple[str, str], int] = {}
        self._salt_numbers: dict[str, int] = {}
        self._by_hash: dict[BlockHash | int | tuple[str, int], int] = {}
        """By hash or, in a trace, by id, with the salt where there is one."""
        self._long: dict[int, int] = {}
        self._hashed = True
        self._untimed: Place | None = None
        self._leap: Place | None = None

    def add_hashed(self, turn: Turn) -> None:
        """Add a request of which a trace gives the ids of its blocks."""
        hashed = turn.hashed
        assert hashed is not None
        assert hashed.block_size == self.block_size
        if hashed.answer is not None:
            self._add_made(turn, hashed, hashed.answer)
            return
        try:
            self._ids.extend(hashed.hash_ids)
        except OverflowError:
            del self._ids[sum(self._counts) :]
            self._ids.extend(self._short(block) for block in hashed.hash_ids)
        named = len(hashed.hash_ids)
        whole = min(hashed.num_tokens // self.block_size, named)
        self._add(turn, named, whole, named, hashed.num_tokens, turn.output_tokens or 0)

    def leave_out(self, turn: Turn) -> None:
        """Add a request that its server did not take: it asks for no block."""

    def _add_made(self, turn: Turn, prompt: HashedPrompt, answer: list[int]) -> None:
        """Add a request of a trace that was made of tokens; its blocks are numbered as those of the tokens are."""
        self._hashed = False
        known, salt = self._by_hash, turn.salt
        for block in (*prompt.hash_ids, *answer):
            self._ids.append(known.setdefault((salt, block) if salt else block, len(known)))
        whole = len(prompt.hash_ids)
        self._add(turn, whole + len(answer), whole, whole, prompt.num_tokens, turn.output_tokens or 0)

    def _short(self, block: int) -> int:
        """Return a name of 64 bits for a longer one; those below -2^62 are given out."""
        return block if -_LONGEST <= block < _LONGEST else self._long.setdefault(block, -_LONGEST - 1 - len(self._long))

    def add(self, job: Job) -> None:
        """Add a request of tokens."""
        self._hashed = False
        size = self.block_size
        answer = job.computed_output()
        tokens = np.concatenate([job.ids, answer]) if len(answer) else job.ids
        full = len(tokens) // size
        hashes = NATIVE.chain(tokens[: full * size], size, None, job.turn.salt, None) if full else []
        known = self._by_hash
        self._ids.extend(known.setdefault(block, len(known)) for block in hashes)
        whole = len(job.ids) // size
        self._add(job.turn, full, whole, whole, len(job.ids), job.request.max_tokens)

    def _add(self, turn: Turn, blocks: int, whole: int, named: int, tokens: int, answer: int) -> None:
        self._counts.append(blocks)
        self._whole.append(whole)
        self._named.append(named)
        self._prompts.append(tokens)
        self._outputs.append(answer)
        if turn.arrival is None:
            self._untimed = self._untimed or turn.place
        elif self._leap is None and self._arrivals and abs(turn.arrival - self._arrivals[-1]) > CLOCKS_APART:
            self._leap = turn.place
        self._arrivals.append(float("nan") if turn.arrival is None else turn.arrival)
        session, salt = turn.session, turn.salt
        sessions, salts = self._session_numbers, self._salt_numbers
        of = turn.group if turn.name is None else ""  # ids of sessions in logs are the same whatever a group is called
        self._sessions.append(-1 if session is None else sessions.setdefault((of, session), len(sessions)))
        self._salts.append(-1 if not salt else salts.setdefault(salt, len(salts)))

    def trace(self) -> BlockTrace:
        """Return all that was added."""
        ids = np.frombuffer(self._ids, dtype=np.int64) if self._ids else np.empty(0, np.int64)
        starts = np.concatenate([[0], np.cumsum(np.array(self._counts, dtype=np.int64))])
        salts = np.array(self._salts, dtype=np.int32)
        return BlockTrace(
            block_size=self.block_size,
            numbers=_numbered(ids, starts, salts) if self._hashed else ids,
            starts=starts,
            whole=np.array(self._whole, dtype=np.int64),
            named=np.array(self._named, dtype=np.int64),
            prompt_tokens=np.array(self._prompts, dtype=np.int64),
            output_tokens=np.array(self._outputs, dtype=np.int64),
            arrivals=np.array(self._arrivals, dtype=np.float64),
            sessions=np.array(self._sessions, dtype=np.int32),
            salts=salts,
            traced=self._hashed,
            untimed=self._untimed,
            leap=self._leap,
        )


def _numbered(ids: Numbers, starts: Numbers, salts: npt.NDArray[np.int32]) -> Numbers:
    """Return numbers for the blocks of a trace: those of its own where each of its ids stands for one prefix."""
    if not len(ids):
        return ids
    dense = _dense(ids)
    if not _has_single_parents(dense, starts):
        return _numbered_by_prefix(ids, starts, salts)
    if (salts < 0).all():
        return dense
    return _dense(dense + (np.repeat(salts, np.diff(starts)).astype(np.int64) + 1) * (int(dense.max()) + 1))


def _dense(ids: Numbers) -> Numbers:
    """Return equal numbers for equal ids, none much larger than there are ids."""
    low, high = int(ids.min()), int(ids.max())
    if low >= 0 and high < _DENSE * len(ids) + 1024:
        return ids
    return np.unique(ids, return_inverse=True)[1].astype(np.int64)


def _has_single_parents(ids: Numbers, starts: Numbers) -> bool:
    """Return whether each id always comes after the same other one, or always first."""
    parents = np.empty_like(ids)
    parents[1:] = ids[:-1]
    firsts = starts[:-1]
    parents[firsts[firsts < len(ids)]] = -1
    known = np.empty(int(ids.max()) + 1, dtype=np.int64)
    known[ids] = parents
    return bool((known[ids] == parents).all())


def _numbered_by_prefix(ids: Numbers, starts: Numbers, salts: npt.NDArray[np.int32]) -> Numbers:
    numbers = TraceNumbers()
    found = array("i")
    for (first, stop), salt in zip(pairwise(starts.tolist()), salts.tolist(), strict=True):
        found.extend(numbers.number(ids[first:stop].tolist(), None if salt < 0 else str(salt)).numbers)
    return np.frombuffer(found, dtype=np.intc).astype(np.int64)
