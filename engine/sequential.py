"""Accounting of requests that run one at a time, without going through single steps."""

from __future__ import annotations

from kvtool.engine.request import Request, Status
from kvtool.engine.scheduler import Scheduler


def account(scheduler: Scheduler, request: Request) -> None:
    """Take one request from submission to its end, leaving the cache as step after step with a DryRunner would.

    With nothing else running, chunks and decode steps take blocks from the free queue in the same order as one allocation of their
    sum, and nobody can look in between; so prompt and output are each allocated at once. Forced outputs are taken as they are;
    free ones count as `max_tokens` zeros.
    """
    assert not len(scheduler), "account() is for an idle scheduler"
    cache = scheduler.cache
    scheduler.check_fits(request)
    request.order = scheduler.num_submitted
    scheduler.num_submitted += 1
    hits = cache.match(request)
    request.num_cached_tokens = len(hits) * cache.block_size
    request.admissions.append((scheduler.num_steps, request.num_cached_tokens))
    if scheduler.config.enable_prefix_caching:
        scheduler.stats.admitted(request, request.num_cached_tokens)
    fits = cache.allocate(request, request.num_tokens - request.num_cached_tokens, hits)
    assert fits, "check_fits() admitted a request that does not fit an idle cache"
    request.num_computed_tokens = request.num_tokens
    outputs = request.output_ids if request.output_ids is not None else [0] * request.max_tokens
    outputs = outputs[: scheduler.config.max_model_len - request.num_prompt_tokens]
    request.outputs = list(outputs)
    request.num_tokens += len(outputs)
    if len(outputs) > 1:  # the last sampled token is never computed
        fits = cache.allocate(request, len(outputs) - 1, [])
        assert fits
        request.num_computed_tokens += len(outputs) - 1
    request.status = Status.FINISHED
    cache.free(request)
