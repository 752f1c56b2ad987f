"""A made trace of block hashes in Mooncake's format, of any length.

python benchmarks/made_trace.py REQUESTS TRACE.jsonl [SEED]

Conversations begin as a Poisson process, each with one of a few fronts that all of its kind share; a turn sends the conversation so
far again and adds to it. Lengths are set so that the trace is like Mooncake's conversation trace (12,031 requests, 24 blocks of 512
tokens in the mean, 37 % of the references known, 343 tokens answered): the first block is the same for all, and an id is given to
each new block in order, the last one, which is partial, included.
"""

from __future__ import annotations

import heapq
import itertools
import random
import sys
from dataclasses import dataclass
from pathlib import Path

BLOCK = 512
_CONVERSATIONS_PER_SECOND = 2.0
_MORE_TURNS = 0.38
"""The chance that a conversation goes on."""
_THINKING_SECONDS = 60.0
_FRONT_BLOCKS = (1, 1, 1, 1, 1, 1, 1, 6)
"""By kind of conversation, the first blocks that all of the kind have; the first one is everybody's."""


@dataclass(slots=True)
class _Conversation:
    ids: list[int]
    """Of the blocks that are full."""
    tokens: int


def write_trace(path: Path, requests: int, seed: int) -> None:
    """The same file for the same numbers."""
    rng = random.Random(seed)
    new = itertools.count()
    everybody = next(new)
    fronts = [[everybody, *(next(new) for _ in range(blocks - 1))] for blocks in _FRONT_BLOCKS]
    due: list[tuple[float, int, _Conversation | None]] = [(0.0, 0, None)]  # None: somebody begins
    with path.open("w", encoding="utf-8") as file:
        for number in range(1, requests + 1):
            now, _, going_on = heapq.heappop(due)
            if going_on is None:
                heapq.heappush(due, (now + rng.expovariate(_CONVERSATIONS_PER_SECOND), 2 * number, None))
                front = rng.choice(fronts)
                going_on = _Conversation(list(front), len(front) * BLOCK)
                asked = round(rng.lognormvariate(8.3, 1.33))
            else:
                asked = round(rng.lognormvariate(7.2, 1.5))
            answered = max(round(rng.gauss(340, 190)), 1)
            length = min(going_on.tokens + max(asked, 1), 127_000)
            ids = going_on.ids
            ids += (next(new) for _ in range(length // BLOCK - len(ids)))
            last = [next(new)] if length % BLOCK else []
            file.write(
                f'{{"timestamp": {round(now * 1000)}, "input_length": {length}, "output_length": {answered}, '
                f'"hash_ids": {[*ids, *last]}}}\n'
            )
            going_on.tokens = length + answered
            if rng.random() < _MORE_TURNS and going_on.tokens < 120_000:
                later = now + rng.expovariate(1 / _THINKING_SECONDS)
                heapq.heappush(due, (later, 2 * number + 1, going_on))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    write_trace(Path(sys.argv[2]), int(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) == 4 else 0)
