"""Accounting of requests that run one at a time, without going through single steps."""

from __future__ import annotations

from kvtool.engine.request import Request, Status
from kvtool.engine.scheduler import Scheduler


def account(scheduler: Scheduler, request: Request, *, fits: bool = False) -> None:
    """Take one request from submission to its end, leaving the cache as step after step with a DryRunner would.

    With nothing else running, chunks and decode steps take blocks from the free queue in the same order as one allocation of their
    sum, and nobody can look in between; so prompt and output are allocated at once (where events are recorded, one after the
    other: an event tells what was stored together). Forced outputs are taken as they are; free ones count as `max_tokens` zeros.
    EngineError for a request that could never run; `fits` says that `check_fits` let this one pass.
    """
    assert not len(scheduler), "account() is for an idle scheduler"
    cache = scheduler.cache
    if not fits:
        scheduler.check_fits(request)
    request.order = scheduler.num_submitted
    scheduler.num_submitted += 1
    hits = cache.match(request)
    cached = request.num_cached_tokens = len(hits) * cache.block_size
    request.admissions.append((scheduler.num_steps, cached))
    if scheduler.config.enable_prefix_caching:
        scheduler.stats.admitted(request, cached)
    if cache.events is not None:
        _compute(scheduler, request, request.num_tokens - cached, hits)
        hits = []
    room = scheduler.config.max_model_len - request.num_prompt_tokens
    given = request.output_ids
    outputs = given[:room] if given is not None else [0] * min(request.max_tokens, room)
    request.outputs = outputs
    request.num_tokens += len(outputs)
    # the last sampled token is never computed
    computed = request.num_computed_tokens + len(hits) * cache.block_size
    _compute(scheduler, request, max(request.num_tokens - 1, request.num_prompt_tokens) - computed, hits)
    request.status = Status.FINISHED
    cache.free(request)


def _compute(scheduler: Scheduler, request: Request, num_new: int, hits: list[int]) -> None:
    fits = scheduler.cache.allocate(request, num_new, hits)
    assert fits, "check_fits() admitted a request that does not fit an idle cache"
    request.num_computed_tokens += len(hits) * scheduler.cache.block_size + num_new
