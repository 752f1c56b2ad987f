"""Several replicas, each with its own cache, after a router; with or without a time to live."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence

import numpy as np
import xxhash

from kvtool.accounting.caches.block_lru import BlockLru
from kvtool.accounting.caches.cache_rules import CacheRules, Outcome
from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.hashing import NATIVE
from kvtool.results.choices import Routing
from kvtool.workload.jobs import Job

_UNEVEN = 1.5
_SLACK = 32_768
"""A replica that computed more than `_UNEVEN` times the tokens of the idlest one, and this many more, is skipped."""

Blocks = Sequence[BlockHash] | Sequence[int]
"""Blocks by hash or, in a trace, by number."""


class TimedLru(BlockLru):
    """An LRU list that drops blocks unused for more than `ttl` seconds."""

    def __init__(self, capacity: int | None, ttl: float | None) -> None:
        """Create the list with a `capacity` in blocks; None is unlimited, for either."""
        super().__init__(capacity)
        self.ttl = ttl

    def find(self, blocks: Sequence[Hashable], now: float = 0.0) -> int:
        """Return the leading blocks that are resident and were used recently enough."""
        self._expire(now)
        return super().find(blocks)

    def _expire(self, now: float) -> None:
        if self.ttl is None:
            return
        used = self._resident
        while used:
            block, last = next(iter(used.items()))
            if now - last <= self.ttl:
                return
            del used[block]


class Router:
    """Choose a replica for each request.

    `sticky`: by session, else by tenant; requests without either in turn, and counted. `prefix-aware`: the replica with the
    longest match, of equals the one that computed least so far; one that computed far more than the idlest is skipped.
    """

    def __init__(self, routing: Routing, replicas: int, seed: int) -> None:
        self._routing = routing
        self._seed = seed
        self._random = random.Random(seed)  # noqa: S311 - reproducible routing, not a secret
        self._next = 0
        self.computed = [0] * replicas
        self.routed = 0
        self.keyless = 0
        """Routed requests without session and tenant."""

    def choose(self, job: Job, caches: Sequence[TimedLru], blocks: Blocks, now: float) -> int:
        """Return the number of the replica; `blocks` are those of the prompt that may hit."""
        key = job.turn.session or job.turn.call.tenant or job.turn.salt
        self.routed += 1
        self.keyless += not key
        if self._routing == "random":
            return self._random.randrange(len(self.computed))
        if self._routing == "prefix-aware":
            least = min(self.computed)
            fit = [at for at, done in enumerate(self.computed) if done <= _UNEVEN * least + _SLACK]
            return max(fit, key=lambda at: (caches[at].find(blocks, now), -self.computed[at], -at))
        if self._routing == "sticky" and key:
            return xxhash.xxh3_64_intdigest(key.encode(errors="surrogatepass"), self._seed) % len(self.computed)
        self._next += 1
        return (self._next - 1) % len(self.computed)


class ReplicaCaches:
    """The caches of all replicas, and beside them those without a limit and without a time to live, for the same routing."""

    def __init__(
        self, rules: CacheRules, *, block_size: int, capacity: int | None, seed: int, whole_prompt_may_hit: bool = False
    ) -> None:
        """Create the caches, each with a `capacity` in blocks; `whole_prompt_may_hit` is the rule of trace studies."""

        def caches(capacity: int | None, ttl: float | None) -> list[TimedLru]:
            return [TimedLru(capacity, ttl) for _ in range(rules.replicas)]

        self.block_size = block_size
        self.whole_prompt_may_hit = whole_prompt_may_hit
        self._caches = caches(capacity, rules.ttl)
        self._relaxed: list[tuple[str, list[TimedLru]]] = []
        """Caches, each with the fate of its extra hits; the last that differs from one lasting cache needs no list of its own."""
        later = [("expired", rules.ttl is not None), ("scattered", rules.replicas > 1)]
        self._last = next((fate for fate, there in reversed(later) if there), "evicted")
        if capacity is not None and self._last != "evicted":
            self._relaxed.append(("evicted", caches(None, rules.ttl)))
        if rules.ttl is not None and self._last != "expired":
            self._relaxed.append(("expired", caches(None, None)))
        self.router = Router(rules.routing, rules.replicas, seed)

    @property
    def num_evictions(self) -> int:
        return sum(cache.num_evictions for cache in self._caches)

    @property
    def num_filled(self) -> int:
        return sum(map(len, self._caches))

    def request(self, job: Job, now: float, reachable: int) -> Outcome:
        """Look a request up in its chosen replica, and store it there."""
        stored, usable = self._blocks(job)
        prompt = stored[:usable]
        at = self.router.choose(job, self._caches, prompt, now)
        count = job.request.num_prompt_tokens

        def hit(cache: TimedLru) -> int:
            found = cache.find(prompt, now)
            cache.store(stored, now)
            return min(found * self.block_size, count)

        own = hit(self._caches[at])
        self.router.computed[at] += count - own
        rungs = [(fate, hit(caches[at])) for fate, caches in self._relaxed]
        return Outcome(own, (*rungs, (self._last, reachable)))

    def _blocks(self, job: Job) -> tuple[Blocks, int]:
        """Return the request's blocks, those of its answer included, and how many of its prompt's may hit."""
        request = job.request
        count = request.num_prompt_tokens
        most = count if self.whole_prompt_may_hit else count - 1
        if job.is_trace:
            names: Blocks = job.block_names()
            partial = self.whole_prompt_may_hit and count % job.unit > 0  # a trace's last block counts, full or not
            stored: Blocks = [*job.chain.numbers, *job.answer_names] if job.chain and job.answer_names else names
            return stored, min(most // job.unit + partial, len(names))
        tokens = np.concatenate([job.ids, job.computed_output()])
        whole = len(tokens) // self.block_size * self.block_size
        hashes = NATIVE.chain(tokens[:whole], self.block_size, None, request.cache_salt, request.lora)
        return hashes, most // self.block_size
