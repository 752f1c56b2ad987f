"""Some requests of a run with their hits, drawn from all of it: what a measured run computes again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from kvtool.accounting.book import Book
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.accounting.servers.server import ServedRequest
from kvtool.engine.request import Ids
from kvtool.workload.jobs import Job

_MOST_REQUESTS = 256
_MOST_TOKENS = 4_000_000
"""Of the kept prompts, a bound on memory: 16 MB. Fewer requests are kept where prompts are long."""
_LEAST_REQUESTS = 8
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True)
class SampledRequest:
    """A request with its tokens, int32[n], the answer that is forced on it, and the hit tokens of the run."""

    id: str
    prompt_ids: Ids
    output_ids: list[int]
    hit_tokens: int

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_ids)


class RequestSample(Book):
    """A uniform sample of a run's requests (reservoir sampling), and the sums of all of them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a reproducible choice, not a secret
        self._most = _MOST_REQUESTS
        self._kept: list[SampledRequest] = []
        self._kept_tokens = 0
        self.requests = 0
        self.prompt_tokens = 0
        self.hit_tokens = 0

    @property
    def hit_rate(self) -> float:
        """The hit rate of all requests with tokens."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def is_whole(self) -> bool:
        """Whether every request of the run is in the sample."""
        return len(self._kept) == self.requests

    def end(self, job: Job, _entry: LedgerEntry | None, served: ServedRequest) -> None:
        request = job.request
        if request.prompt_ids is None:
            return
        self.requests += 1
        self.prompt_tokens += request.num_prompt_tokens
        self.hit_tokens += served.hit
        place = len(self._kept) if len(self._kept) < self._most else self._random.randrange(self.requests)
        if place >= self._most:
            return
        ids = np.array(request.prompt_ids, dtype=np.int32)  # a copy: it may be a part of something larger
        sampled = SampledRequest(request.id, ids, request.output_ids or [0], served.hit)
        if place == len(self._kept):
            self._kept.append(sampled)
        else:
            self._kept_tokens -= self._kept[place].num_tokens
            self._kept[place] = sampled
        self._kept_tokens += sampled.num_tokens
        while self._kept_tokens > _MOST_TOKENS and len(self._kept) > _LEAST_REQUESTS:
            self._most = len(self._kept) // 2
            self._kept = self._random.sample(self._kept, self._most)
            self._kept_tokens = sum(each.num_tokens for each in self._kept)

    def balanced(self) -> list[SampledRequest]:
        """Return the sample in an order of which every beginning has all depths of hits; see `spread_out`."""
        return spread_out(
            sorted(self._kept, key=lambda each: (each.hit_tokens / max(each.num_tokens, 1), each.num_tokens))
        )


def spread_out(items: Sequence[SampledRequest]) -> list[SampledRequest]:
    """Return sorted items so that every beginning is spread evenly over them: steps of the golden ratio from the middle on (a
    Weyl sequence of low discrepancy), each item once."""
    count = len(items)
    step = next((step for step in range(round(count * _GOLDEN), count) if gcd(step, count) == 1), 1)
    return [items[(count // 2 + number * step) % count] for number in range(count)]
