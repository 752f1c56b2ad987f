"""Account for requests that run one at a time, without going through single steps."""

from __future__ import annotations

from kvtool.engine.blocks.cache import BlockManager
from kvtool.engine.request import Request, Status
from kvtool.engine.runner import DryRunner
from kvtool.engine.scheduler import Scheduler


def account(scheduler: Scheduler, request: Request, *, fits: bool = False) -> None:
    """Take one request from submission to its end, with the same final cache as single steps of a DryRunner.

    With nothing else running, chunks and decode steps take blocks from the free queue in the same order as one allocation of their
    sum, and no state in between is visible; so prompt and output are allocated at once. Each event describes one step, so events
    are recorded for each chunk of the prompt and each block of the answer; for asynchronous steps, too, though these evict for the
    next block of an answer before they store the last one. Forced outputs are used unchanged; free ones count as `max_tokens`
    zeros. EngineError for a request that could never run; `fits`: `check_fits` accepted this one.

    With several groups of layers it goes through the steps: the kept states and windows depend on the steps' ends.
    """
    assert not len(scheduler), "account() is for an idle scheduler"
    cache = scheduler.cache
    if not isinstance(cache, BlockManager):
        _step_by_step(scheduler, request)
        return
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
        _compute_in_parts(cache, request, request.num_tokens, scheduler.config.max_num_batched_tokens, hits)
        hits = []
    room = scheduler.config.max_model_len - request.num_prompt_tokens
    given = request.output_ids
    outputs = given[:room] if given is not None else [0] * min(request.max_tokens, room)
    request.outputs = outputs
    request.num_tokens += len(outputs)
    # the last sampled token is never computed
    end = max(request.num_tokens - 1, request.num_prompt_tokens)
    if cache.events is not None:
        size = cache.block_size
        _compute_in_parts(cache, request, min(end, -(-request.num_computed_tokens // size) * size), size, hits)
        _compute_in_parts(cache, request, end, size, hits)
    else:
        _compute(cache, request, end - len(hits) * cache.block_size, hits)
    request.status = Status.FINISHED
    cache.free(request)


def _step_by_step(scheduler: Scheduler, request: Request) -> None:
    runner = DryRunner()
    scheduler.add(request)
    while len(scheduler):
        step = scheduler.schedule()
        scheduler.update(step, runner.run(step))


def _compute_in_parts(cache: BlockManager, request: Request, end: int, part: int, hits: list[int]) -> None:
    """Compute all tokens up to the one at `end`, so many at a time; those of the hits first."""
    left = end - request.num_computed_tokens - len(hits) * cache.block_size
    while left > 0:
        _compute(cache, request, min(left, part), hits)
        hits = []
        left = end - request.num_computed_tokens


def _compute(cache: BlockManager, request: Request, num_new: int, hits: list[int]) -> None:
    fits = cache.allocate(request, num_new, hits)
    assert fits, "check_fits() admitted a request that does not fit an idle cache"
    request.num_computed_tokens += len(hits) * cache.block_size + num_new
