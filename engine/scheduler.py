"""The scheduler: which tokens of which requests are computed next. Neither prefill nor decode is a phase of its own."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.engine.blocks.block_pool import BlockPool
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.chunk_ends import ChunkEnds
from kvtool.engine.impossible_requests import check_fits
from kvtool.engine.prefill_cadence import PrefillCadence
from kvtool.engine.request import Request, Status
from kvtool.engine.stats import PrefixCacheStats
from kvtool.engine.step import EngineStep, Sampled, Scheduled
from kvtool.engine.stuck_steps import StuckSteps
from kvtool.engine.vllm_release import find_release
from kvtool.engine.waiting_queue import WaitingQueue


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

    def __init__(self, config: EngineConfig, cache: BlockPool) -> None:
        self.config = config
        plan = config.plan
        self._num_drafts = plan.num_spec_tokens if plan is not None else 0
        self._chunks = ChunkEnds(config, plan) if plan is not None else None
        self._release = find_release(config.release)
        interval = config.prefill_schedule_interval if self._release.spaces_prefills else 1
        self._cadence = PrefillCadence(interval)
        self._stuck = StuckSteps()
        self._most_running = config.max_num_active_seqs or config.max_num_seqs
        self._watches_prefill = interval > 1 or self._num_drafts > 0
        self._special = self._watches_prefill or (self._chunks is not None and self._chunks.cuts)
        """True if running requests have drafts, or prefills whose chunks may not end anywhere."""
        self._plain = plan is None and not self._watches_prefill
        self._holds = False
        """True if the step that is being scheduled has no prefill."""
        self._saw_prefill = False
        """True if the step that is being scheduled continues a prefill."""
        self._set_aside: set[Request] = set()
        """Requests that were passed over in the queue, as their next chunk could not end where it would have to."""
        self.cache = cache
        self.running: list[Request] = []
        self.waiting = WaitingQueue(config.policy)
        self.num_submitted = 0
        self._image_lengths: dict[str, int] = {}
        """Tokens by the ids of images."""
        self.num_steps = 0
        self.num_preemptions = 0
        self.stats = PrefixCacheStats()

    def __len__(self) -> int:
        return len(self.running) + len(self.waiting)

    def add(self, request: Request) -> None:
        """Queue a request; refused (EngineError) if it could never run."""
        self.check_fits(request)
        for image in request.images:
            known = self._image_lengths.setdefault(image.id, image.length)
            if image.length != known:
                raise EngineError(
                    f"request {request.id} has image {image.id[:40]!a} with {image.length} tokens; an earlier one had {known}",
                    hint="give each image its own id: vLLM refuses another length for the same id",
                )
        request.order = self.num_submitted
        self.num_submitted += 1
        self.waiting.add(request)

    def check_fits(self, request: Request) -> None:
        """Raise EngineError for a request that this configuration could never run."""
        prompt, outputs = request.num_prompt_tokens, request.max_tokens
        check_fits(f"request {request.id}", prompt, outputs, self.config, self.cache.blocks_needed)

    def schedule(self) -> EngineStep:
        """Decide the next step and give its requests their blocks.

        A step may be empty while outputs are awaited; EngineError where it is though nothing could ever make it less so.
        """
        config = self.config
        budget, cap = config.max_num_batched_tokens, config.max_model_len
        if config.long_prefill_token_threshold > 0 and len(self) > 1:
            cap = config.long_prefill_token_threshold
            if config.long_prefill_token_threshold_adaptive:
                cap = max(cap, budget // len(self))
        scheduled: list[Scheduled] = []
        preempted: list[Request] = []
        plain = self._plain
        if not plain:
            self.cache.begin_step()
            self._saw_prefill = False
            self._holds = self._watches_prefill and self._cadence.holds(self.running)
        if self.running:
            budget = self._schedule_running(budget, cap, scheduled, preempted)
        if not preempted and len(self.waiting):
            self._admit(budget, cap, scheduled)
        if not scheduled and len(self):
            self._stuck.check(self.running, self.waiting, preempted, config)
        step = EngineStep(self.num_steps, tuple(scheduled), tuple(preempted))
        if not plain:
            step.copies = self.cache.end_step()
            if self._watches_prefill:
                self._note_prefills(scheduled, preempted)
        self.num_steps += 1
        if config.async_scheduling:
            for request, start, count in scheduled:
                request.num_in_flight_tokens += count
                if start + count == request.num_tokens + request.num_awaited_outputs:
                    request.num_awaited_outputs += 1
        for request, start, count in scheduled:
            request.num_computed_tokens = start + count
        return step

    def _note_prefills(self, scheduled: list[Scheduled], preempted: list[Request]) -> None:
        """Record for each request whether it is still in prefill, and for the step whether it had prefill."""
        prefills = self._saw_prefill
        for request, start, count in scheduled:
            if request.admissions[-1][0] == self.num_steps:
                prefills |= start < request.num_tokens - 1
            request.in_prefill = start + count < request.num_tokens + request.num_awaited_outputs
        if not preempted and not self._holds:
            self._cadence.behind = len(self.waiting) > len(self._set_aside)
        self._cadence.step_done(scheduled=bool(scheduled), prefills=prefills)

    def _schedule_running(self, budget: int, cap: int, scheduled: list[Scheduled], preempted: list[Request]) -> int:
        running, allocate, max_model_len = self.running, self.cache.allocate, self.config.max_model_len
        special = self._special
        index = 0
        while index < len(running) and budget > 0:
            request = running[index]
            computed = request.num_computed_tokens
            awaited = request.num_awaited_outputs
            count = request.num_tokens + awaited - computed
            if special:
                count = self._special_count(request, count, min(cap, budget))
            elif count > 1:
                count = min(count, cap, budget, max_model_len - computed - 1)
            if (
                count <= 0
                or computed + count >= max_model_len
                or (awaited and len(request.outputs) + awaited >= request.max_tokens)
            ):
                index += 1
                continue
            if not allocate(request, count):
                fits, index, budget = self._make_room(request, count, index, budget, scheduled, preempted)
                if not fits:
                    if self.config.policy == "fcfs" or not self._release.goes_on:
                        break
                    continue
            if special:
                request.num_drafts = 0
                self._saw_prefill |= request.in_prefill
            scheduled.append(Scheduled(request, computed, count))
            budget -= count
            index += 1
        return budget

    def _special_count(self, request: Request, left: int, most: int) -> int:
        """Return the tokens of a running request in a step of at most `most`: with its drafts, up to a possible end of a chunk."""
        if self._holds and request.in_prefill:
            return 0
        computed = request.num_computed_tokens
        count = min(left + request.num_drafts, most, self.config.max_model_len - computed - 1)
        return count if self._chunks is None or count <= 0 else self._chunks.cut(request, computed, count)

    def _make_room(
        self,
        request: Request,
        count: int,
        index: int,
        budget: int,
        scheduled: list[Scheduled],
        preempted: list[Request],
    ) -> tuple[bool, int, int]:
        """Preempt others until the request, which is at `index` of the running, has its blocks, or is preempted itself.

        Return whether it has them, its index now, and the budget plus the scheduled tokens of preempted requests.
        """
        running = self.running
        while True:
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
                return False, index, budget
            if self.cache.allocate(request, count):
                return True, index, budget

    def _victim(self) -> Request:
        if self.config.policy == "fcfs":
            return self.running[-1]
        return max(self.running, key=lambda request: (request.priority, request.arrival))

    def _preempt(self, request: Request) -> None:
        """Preempt a request by recomputation: its blocks are freed with their hashes, and a resume usually hits them."""
        self.cache.free(request)
        request.num_computed_tokens = 0
        request.num_awaited_outputs = 0
        request.num_drafts = 0
        request.num_preemptions += 1
        request.status = Status.PREEMPTED
        self.num_preemptions += 1
        self.waiting.add(request, front=True)

    def _admit(self, budget: int, cap: int, scheduled: list[Scheduled]) -> None:
        config, cache, chunks = self.config, self.cache, self._chunks
        passed_over: list[Request] = []
        pads = self._num_drafts > 0 and not self._saw_prefill
        beside = bool(scheduled)
        while len(self.waiting) and budget > 0 and len(self.running) < self._most_running:
            request = self.waiting.peek()
            hit_tokens = cache.look_up(request)
            left = request.num_tokens - hit_tokens
            if self._holds and left > 1:
                break
            if (
                pads
                and left == 1
                and (beside or hit_tokens > 0)
                and hit_tokens + self._num_drafts + 2 <= config.max_model_len
            ):
                left += self._num_drafts  # as all that decode have so many tokens
                if left > budget:
                    break
            count = min(left, cap)
            if not config.enable_chunked_prefill and count > budget:
                break
            count = min(count, budget)
            if chunks is not None:
                if not (count := chunks.align_first(request, hit_tokens, count)):
                    break
                if not (count := chunks.keep_lookahead(request, hit_tokens, count)):
                    if not self._release.goes_on:
                        break
                    passed_over.append(self.waiting.pop())
                    self._set_aside.add(request)
                    continue
            reserve = int(config.watermark * (config.num_blocks or 0)) if self.running else 0
            if not cache.admit(request, count, reserve=reserve, whole=config.scheduler_reserve_full_isl):
                break
            self.waiting.pop()
            self._set_aside.discard(request)
            if request.num_cached_tokens < 0:
                request.num_cached_tokens = hit_tokens
            junction = request.shared_prefix_boundary
            request.admissions.append(
                (self.num_steps, hit_tokens, junction) if junction else (self.num_steps, hit_tokens)
            )
            if config.enable_prefix_caching:
                self.stats.admitted(request, hit_tokens)
            request.status = Status.RUNNING
            self.running.append(request)
            scheduled.append(Scheduled(request, hit_tokens, count))
            budget -= count
        for request in reversed(passed_over):
            self.waiting.add(request, front=True)

    def update(self, step: EngineStep, tokens: Sequence[Sampled]) -> list[Request]:
        """Append the sampled tokens, in scheduling order; return the finished requests, whose blocks are free again."""
        finished: list[Request] = []
        max_model_len, drafts = self.config.max_model_len, self._num_drafts
        if self.config.async_scheduling:
            for request, _, count in step.scheduled:
                request.num_in_flight_tokens -= count
        for item, token in zip(step.scheduled, tokens, strict=True):
            request = item[0]
            if token is None or step.index < request.outputs_from_step:
                continue
            if drafts:
                self._verify(item, token)
            else:
                request.append_output(token)  # type: ignore[arg-type] # only with drafts a step makes several tokens
            if request.num_awaited_outputs:
                request.num_awaited_outputs -= 1
                self.cache.register(request, request.num_computed_tokens - request.num_in_flight_tokens)
            if len(request.outputs) >= request.max_tokens or request.num_tokens >= max_model_len:
                if request.status is Status.PREEMPTED:
                    self.waiting.remove(request)
                    self._set_aside.discard(request)
                request.status = Status.FINISHED
                self.cache.free(request)
                finished.append(request)
        if finished:
            self.running = [request for request in self.running if request.status is not Status.FINISHED]
        return finished

    def _verify(self, item: Scheduled, sampled: int | list[int]) -> None:
        """Take over the accepted drafts and the token after them; the computed rest is void."""
        request, tokens = item.request, [sampled] if isinstance(sampled, int) else sampled
        rejected = max(item.start + item.num_tokens - request.num_tokens, 0) - (len(tokens) - 1)
        request.num_computed_tokens -= rejected
        for number, token in enumerate(tokens, 1):
            request.append_output(token)
            if request.finished_generating or request.num_tokens >= self.config.max_model_len:
                request.num_computed_tokens -= len(tokens) - number
                break
        if self._release.registers_verified:
            self.cache.register(request, request.num_computed_tokens)
        request.num_drafts = self._num_drafts

    def reset_prefix_cache(self, *, reset_running: bool = False) -> bool:
        """Clear the prefix cache; return False if requests use blocks (`reset_running` preempts them first)."""
        if reset_running:
            while self.running:
                request = self.running.pop()
                request.outputs_from_step = self.num_steps
                self._preempt(request)
        return self.cache.reset()

    def check(self) -> None:
        """Assert that requests, blocks and queues agree."""
        self.cache.check()
        assert all(request.status is Status.RUNNING for request in self.running)
        self.cache.check_users(self.running)
        assert all(
            not request.block_ids and not request.num_computed_tokens and not any(any(t.blocks) for t in request.tables)
            for request in self.waiting
        )
