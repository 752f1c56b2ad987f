"""Hits of the prompts in an LRU list of any capacity, and distances between the uses of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvtool.accounting.prefix_tree import with_answer
from kvtool.accounting.views.distance_counts import DistanceCounts
from kvtool.accounting.views.stack_distances import StackDistances
from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.hashing import NATIVE
from kvtool.results.views import CapacityPoint, Reuse, ReuseBin
from kvtool.workload.jobs import Job

MOST_POINTS = 24
"""Points of the drawn curve."""


class ReuseBook:
    """Full blocks of the prompts: whole requests, in the order of submission, in one LRU list of blocks.

    A prompt of n tokens looks up its first `(n - 1) // B` blocks of B tokens, because its last token is always computed. It
    touches all full blocks of its own and of its computed answer; so an unlimited list hits the ledger's reachable tokens. By the
    rule of trace studies it looks up all of its blocks, including a trace's partial last one with its tokens, and answers are not
    kept. Salts keep tenants apart. An engine of the same capacity hits a little less than the list: running requests use blocks
    that may not be evicted, some of them not full.
    """

    def __init__(self, block_size: int, *, whole_prompt_may_hit: bool, distances: StackDistances | None = None) -> None:
        self._block_size = block_size
        self._whole_prompt_may_hit = whole_prompt_may_hit
        self._distances = StackDistances() if distances is None else distances
        self._lacking = DistanceCounts()
        """Tokens that repeated partial last blocks lack, by distance."""
        self._prompt_tokens = 0
        self._lookups = 0
        self._uses = 0
        self._hit_tokens = 0
        """Hits of an unlimited list."""

    def add(self, job: Job, reachable: int) -> None:
        """Add the next request, of which an unlimited cache hits `reachable` tokens."""
        size, tokens = self._block_size, job.request.num_prompt_tokens
        blocks, asked = self._blocks(job)
        level = self._distances.level
        distance = self._distances.request(blocks, asked)
        lacking = asked * size - tokens
        if lacking > 0 and distance is not None:
            self._lacking.add(level, distance, 1, lacking)
        self._prompt_tokens += tokens
        self._lookups += asked
        self._uses += -(-reachable // size)
        self._hit_tokens += reachable

    def _blocks(self, job: Job) -> tuple[Sequence[BlockHash], int]:
        """Return the blocks that a request touches, and how many of them it looks up."""
        size, tokens = self._block_size, job.request.num_prompt_tokens
        if job.is_trace:
            hashes = job.block_hashes()
            if self._whole_prompt_may_hit:
                return hashes, len(hashes)
            return hashes[: tokens // size], max(tokens - 1, 0) // size
        answer = job.ids[:0] if self._whole_prompt_may_hit else job.computed_output()
        ids = with_answer(job.ids, answer)
        # A block larger than any prompt may be larger than anything that numpy has a type for.
        hashes = (
            NATIVE.chain(ids[: len(ids) // size * size], size, None, job.turn.salt, None) if len(ids) >= size else []
        )
        return hashes, tokens // size if self._whole_prompt_may_hit else max(tokens - 1, 0) // size

    def reuse(self) -> Reuse | None:
        """Return the view; None without lookups."""
        if not self._lookups or not self._prompt_tokens:
            return None
        counts = self._distances.counts
        end = max(counts.end, 1)
        return Reuse(
            sampled=0.5**self._distances.level,
            uses=self._uses,
            first_uses=self._lookups - self._uses,
            bins=list(self._bins(counts.end)),
            curve=[
                CapacityPoint(blocks=blocks, hit_rate=self._hits(blocks, end) / self._prompt_tokens)
                for blocks in _points(end)
            ],
        )

    def _bins(self, end: int) -> Iterator[ReuseBin]:
        """Return distance 0, 1, 2 to 3, 4 to 7 and so on."""
        least, before = 0, 0
        while least < end:
            stop = max(2 * least, 1)
            below = self._below(stop, end)
            yield ReuseBin(least=least, most=stop - 1, uses=below - before)
            least, before = stop, below

    def _below(self, distance: int, end: int) -> int:
        """Return the uses with a smaller distance. The surplus or lack of a sample is corrected at the smallest distance.

        The blocks that all prompts share are there: few, and sampled or not by chance (SHARDS-adj of the same paper).
        """
        counts = self._distances.counts
        return min(max(counts.below(distance) + self._uses - counts.below(end), 0), self._uses)

    def _hits(self, capacity: int, end: int) -> int:
        """Return tokens that a list of so many blocks hits; made up for likewise."""
        counts, lacking = self._distances.counts, self._lacking

        def tokens(blocks: int) -> int:
            return counts.below(blocks) * self._block_size - lacking.below(blocks)

        return min(max(tokens(capacity) + self._hit_tokens - tokens(end), 0), self._hit_tokens)


def _points(end: int) -> list[int]:
    """Return capacities from one block to the smallest that hits all that can be hit, evenly on a logarithmic scale."""
    return sorted({round(end ** (step / (MOST_POINTS - 1))) for step in range(MOST_POINTS)})
