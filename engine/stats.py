"""Statistics of a prefix cache, counted as vLLM counts them."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.engine.request import Request


@dataclass(slots=True)
class PrefixCacheStats:
    """Lookups that led to an admission: requests, and the TOKENS that were looked up and found.

    Requests that come back after a preemption are counted apart; requests that may not read the cache are not counted.
    """

    requests: int = 0
    queries: int = 0
    hits: int = 0
    preempted_requests: int = 0
    preempted_queries: int = 0
    preempted_hits: int = 0

    def admitted(self, request: Request, hit_tokens: int) -> None:
        """Count the lookup of a request that begins to run."""
        if request.skip_reading_cache:
            return
        if request.num_preemptions:
            self.preempted_requests += 1
            self.preempted_queries += request.num_tokens
            self.preempted_hits += hit_tokens
        else:
            self.requests += 1
            self.queries += request.num_tokens
            self.hits += hit_tokens
