"""What a request reads of another one where cache breakpoints decide what is stored."""

from __future__ import annotations

from kvtool.accounting.caches.cache_rules import CacheRules
from kvtool.accounting.caches.provider_cache import ProviderCache
from kvtool.fixes.turn_texts import marks_in
from kvtool.workload.jobs import JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn


def marked_reuse(first: Turn, second: Turn, renderer: Renderer) -> int | None:
    """Return how many tokens the second request reads a second after the first one; None where marks do not decide it."""
    if not (marks_in(first) and marks_in(second)):
        return None
    cache, maker = ProviderCache(CacheRules(dated=True)), JobMaker(renderer, seed=0)
    jobs = [maker.make(turn) for turn in (first, second)]
    rules = [cache.rules_for(job, 0.0) for job in jobs]
    if any(each is None or each.keeps != "breakpoints" for each in rules):
        return None
    cache.request(jobs[0], 0.0, 0)
    return cache.request(jobs[1], 1.0, 0).hit
