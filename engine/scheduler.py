"""The scheduler: which tokens of which requests are computed next. Neither prefill nor decode is a phase of its own."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator

from kvtool.engine.cache import BlockManager
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.request import Request, Status
from kvtool.engine.stats import PrefixCacheStats
from kvtool.engine.step import EngineStep, Scheduled


class WaitingQueue:
    """Requests that wait to be admitted: first come first served, or by (priority, arrival)."""

    def __init__(self, policy: str) -> None:
        self._by_priority = policy == "priority"
        self._queue: deque[Request] = deque()
        self._heap: list[tuple[int, float, int, Request]] = []

    def __len__(self) -> int:
        return len(self._heap) if self._by_priority else len(self._queue)

    def __iter__(self) -> Iterator[Request]:
        return iter([entry[-1] for entry in sorted(self._heap)] if self._by_priority else self._queue)

    def add(self, request: Request, *, front: bool = False) -> None:
        if self._by_priority:
            heapq.heappush(self._heap, (request.priority, request.arrival, request.order, request))
        elif front:
            self._queue.appendleft(request)
        else:
            self._queue.append(request)

    def peek(self) -> Request:
        return self._heap[0][-1] if self._by_priority else self._queue[0]

    def pop(self) -> Request:
        return heapq.heappop(self._heap)[-1] if self._by_priority else self._queue.popleft()

    def remove(self, request: Request) -> None:
        if self._by_priority:
            self._heap = [entry for entry in self._heap if entry[-1] is not request]
            heapq.heapify(self._heap)
        else:
            self._queue.remove(request)


class Scheduler:
    """vLLM V1's scheduler: `schedule` a step, let a runner execute it, `update` with the tokens it sampled.

    With `async_scheduling`, vLLM's default, the caller schedules step t + 1 before it updates with the tokens of step t
    (`Engine.step` does). Then

    - a request that samples in step t is scheduled for one more token in t + 1 though that token's predecessor is not known yet,
      unless the answer is then as long as it may be;
    - a block that generated tokens fill can be hit only once those tokens are known, that is after t + 1 was scheduled;
    - a request that finishes in step t keeps its blocks and its place among the running while t + 1 is scheduled;
    - a request that is preempted in t + 1 still gets its token of step t, while it waits (it may even finish there). Only a reset
      of the prefix cache that preempts drops such tokens, as the request may be running again in the same step.

    So under memory pressure other requests are preempted and other blocks evicted than in synchronous scheduling.
    """

    def __init__(self, config: EngineConfig, cache: BlockManager) -> None:
        self.config = config
        self.cache = cache
        self.running: list[Request] = []
        self.waiting = WaitingQueue(config.policy)
        self.num_submitted = 0
        self.num_steps = 0
        self.num_preemptions = 0
        self.stats = PrefixCacheStats()

    def __len__(self) -> int:
        return len(self.running) + len(self.waiting)

    def add(self, request: Request) -> None:
        """Queue a request; refused (EngineError) if it could never run."""
        self.check_fits(request)
        request.order = self.num_submitted
        self.num_submitted += 1
        self.waiting.add(request)

    def check_fits(self, request: Request) -> None:
        """Raise EngineError for a request that this configuration could never run."""
        config = self.config
        if request.num_prompt_tokens < 1:
            raise EngineError(f"request {request.id} has an empty prompt")
        if request.max_tokens < 1:
            raise EngineError(f"request {request.id} asks for no output token")
        if request.num_prompt_tokens >= config.max_model_len:
            raise EngineError(
                f"request {request.id} has {request.num_prompt_tokens} prompt tokens; the model takes "
                f"{config.max_model_len - 1} and at least one more of output",
                hint="raise --max-model-len",
            )
        most = min(request.num_prompt_tokens + request.max_tokens - 1, config.max_model_len)
        # A full pool or a reset can preempt a request, and then its answer so far is computed again with its prompt.
        if not config.enable_chunked_prefill and most > config.max_num_batched_tokens:
            what = "prompt tokens" if most == request.num_prompt_tokens else "tokens of prompt and answer"
            raise EngineError(
                f"request {request.id} has {most} {what}, more than a step's "
                f"{config.max_num_batched_tokens}, and chunked prefill is off",
                hint="raise --max-num-batched-tokens",
            )
        blocks = -(-most // config.block_size)
        if config.num_blocks is not None and blocks > config.num_blocks - 1:
            raise EngineError(
                f"request {request.id} needs {blocks} blocks for {most} tokens; the whole cache has "
                f"{config.num_blocks - 1}",
                hint="raise --capacity",
            )

    def schedule(self) -> EngineStep:
        """Decide the next step and give its requests their blocks.

        A step may be empty while outputs are awaited; EngineError where it is though nothing could ever make it less so.
        """
        budget = self.config.max_num_batched_tokens
        threshold = self.config.long_prefill_token_threshold
        cap = threshold if threshold > 0 and len(self) > 1 else self.config.max_model_len
        scheduled: list[Scheduled] = []
        preempted: list[Request] = []
        if self.running:
            budget = self._schedule_running(budget, cap, scheduled, preempted)
        if not preempted and len(self.waiting):
            self._admit(budget, cap, scheduled)
        if not scheduled and not preempted and len(self):
            self._check_awaits()
        step = EngineStep(self.num_steps, tuple(scheduled), tuple(preempted))
        self.num_steps += 1
        if self.config.async_scheduling:
            for request, start, count in scheduled:
                if start + count == request.num_tokens + request.num_awaited_outputs:
                    request.num_awaited_outputs += 1
        for request, start, count in scheduled:
            request.num_computed_tokens = start + count
        return step

    def _check_awaits(self) -> None:
        """Raise EngineError for a step that schedules nothing though no output is on its way: every later one would be the same."""
        if any(request.num_awaited_outputs for request in self.running):
            return
        if self.running:
            raise EngineError(f"request {self.running[0].id} waits for a token that no step will sample")
        stuck = self.waiting.peek()
        raise EngineError(
            f"request {stuck.id} can never be scheduled: {stuck.num_tokens} tokens are to be computed, a step takes "
            f"{self.config.max_num_batched_tokens}",
            hint="raise --max-num-batched-tokens or --capacity",
        )

    def _schedule_running(self, budget: int, cap: int, scheduled: list[Scheduled], preempted: list[Request]) -> int:
        running, allocate, max_model_len = self.running, self.cache.allocate, self.config.max_model_len
        index = 0
        while index < len(running) and budget > 0:
            request = running[index]
            computed = request.num_computed_tokens
            awaited = request.num_awaited_outputs
            count = request.num_tokens + awaited - computed
            if count > 1:
                count = min(count, cap, budget, max_model_len - computed - 1)
            if (
                count <= 0
                or computed + count >= max_model_len
                or (awaited and len(request.outputs) + awaited >= request.max_tokens)
            ):
                index += 1
                continue
            while not (fits := allocate(request, count)):
                victim = self._victim()
                position = running.index(victim)
                del running[position]
                if position < index:
                    index -= 1
                    for place, item in enumerate(scheduled):
                        if item.request is victim:
                            budget += item.num_tokens
                            del scheduled[place]
                            break
                self._preempt(victim)
                preempted.append(victim)
                if victim is request:
                    break
            if fits:
                scheduled.append(Scheduled(request, computed, count))
                budget -= count
                index += 1
            elif self.config.policy == "fcfs":
                break
        return budget

    def _victim(self) -> Request:
        if self.config.policy == "fcfs":
            return self.running[-1]
        return max(self.running, key=lambda request: (request.priority, request.arrival, request.order))

    def _preempt(self, request: Request) -> None:
        """By recomputation: the blocks go back with their hashes, and a resume usually hits them."""
        self.cache.free(request)
        request.num_computed_tokens = 0
        request.num_awaited_outputs = 0
        request.num_preemptions += 1
        request.status = Status.PREEMPTED
        self.num_preemptions += 1
        self.waiting.add(request, front=True)

    def _admit(self, budget: int, cap: int, scheduled: list[Scheduled]) -> None:
        config = self.config
        while len(self.waiting) and budget > 0 and len(self.running) < config.max_num_seqs:
            request = self.waiting.peek()
            hits = self.cache.match(request)
            hit_tokens = len(hits) * config.block_size
            count = min(request.num_tokens - hit_tokens, cap)
            if not config.enable_chunked_prefill and count > budget:
                break
            count = min(count, budget)
            reserve = int(config.watermark * (config.num_blocks or 0)) if self.running else 0
            if not self.cache.allocate(request, count, hits, reserve=reserve, whole=config.scheduler_reserve_full_isl):
                break
            self.waiting.pop()
            if request.num_cached_tokens < 0:
                request.num_cached_tokens = hit_tokens
            request.admissions.append((self.num_steps, hit_tokens))
            if config.enable_prefix_caching:
                self.stats.admitted(request, hit_tokens)
            request.status = Status.RUNNING
            self.running.append(request)
            scheduled.append(Scheduled(request, hit_tokens, count))
            budget -= count

    def update(self, step: EngineStep, tokens: list[int | None]) -> list[Request]:
        """Append the sampled tokens, in scheduling order; returns the finished requests, whose blocks are free again."""
        finished: list[Request] = []
        max_model_len = self.config.max_model_len
        for (request, _, _), token in zip(step.scheduled, tokens, strict=True):
            if token is None or step.index < request.outputs_from_step:
                continue
            request.append_output(token)
            if request.num_awaited_outputs:
                request.num_awaited_outputs -= 1
                self.cache.register(request, request.num_computed_tokens - request.num_awaited_outputs)
            if request.finished_generating or request.num_tokens >= max_model_len:
                if request.status is Status.PREEMPTED:
                    self.waiting.remove(request)
                request.status = Status.FINISHED
                self.cache.free(request)
                finished.append(request)
        if finished:
            self.running = [request for request in self.running if request.status is not Status.FINISHED]
        return finished

    def reset_prefix_cache(self, *, reset_running: bool = False) -> bool:
        """Forget the prefix cache; False where requests hold blocks (with `reset_running` they are preempted first)."""
        if reset_running:
            while self.running:
                request = self.running.pop()
                request.outputs_from_step = self.num_steps
                self._preempt(request)
        return self.cache.reset()

    def check(self) -> None:
        """Assert that requests, blocks and queues agree."""
        self.cache.check()
        refs = [0] * self.cache.num_blocks
        for request in self.running:
            assert request.status is Status.RUNNING
            assert len(request.block_ids) * self.config.block_size >= request.num_computed_tokens
            for block in request.block_ids:
                refs[block] += 1
        assert refs == self.cache.refs
        assert all(not request.block_ids and not request.num_computed_tokens for request in self.waiting)
