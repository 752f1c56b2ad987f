"""One engine of a fleet: the scheduler's rules on blocks by number, and runs of decode steps in one go."""

from __future__ import annotations

from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.fleet.decoding_requests import Decoders
from kvtool.engine.fleet.fleet_ledger import FleetLedger
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.live_request import LiveRequest
from kvtool.engine.fleet.replica_blocks import ReplicaPool
from kvtool.engine.fleet.request_event import Happening
from kvtool.engine.fleet.waiting_prompts import WaitingPrompts
from kvtool.engine.prediction.decode_run import DecodeRun
from kvtool.engine.prediction.latency import LatencyModel, PrefillTimes


class Replica:
    """vLLM's synchronous scheduler as in `engine/scheduler.py`, first come first served, on the clock of a latency model.

    All running requests but the last decode, each with one token a step. The last may be in prefill: a request that is admitted
    with less than its whole prompt has used up the step's budget. So the number of decoding requests and the sum of their contexts
    determine a step. As long as nobody arrives, is admitted, finishes or is preempted, steps differ by the context alone. Such a
    run is timed in closed form (`DecodeRun`), and its blocks are taken together, when something reads them.

    Within a run the owner of each block is not followed, because blocks without content are all alike.
    """

    def __init__(self, number: int, config: EngineConfig, latency: LatencyModel, ledger: FleetLedger) -> None:
        """Create the replica; EngineError for options that replicas do not model."""
        if config.plan is not None or config.policy != "fcfs" or config.async_scheduling:
            raise EngineError(
                "replicas support only synchronous first-come scheduling and one group of layers",
                hint="remove priorities, asynchronous scheduling and groups of layers",
            )
        assert not config.long_prefill_token_threshold, "a cap on chunks lets several requests be in prefill at once"
        assert config.prefill_schedule_interval == 1
        self.number = number
        self.config = config
        self.block_size = config.block_size
        self.num_blocks = None if config.num_blocks is None else config.num_blocks - 1
        self.computed_tokens = 0
        self.last_arrival: float | None = None
        self.happened: list[Happening] = []
        """Since it was last emptied, in order."""
        self.pool = ReplicaPool(config.num_blocks)
        self._latency = latency
        self._times = PrefillTimes(latency, config.max_num_batched_tokens)
        self._ledger = ledger
        self._most_running = config.max_num_active_seqs or config.max_num_seqs
        self._reserve = int(config.watermark * (config.num_blocks or 0))
        self._waiting = WaitingPrompts(self._times)
        self._decoders = Decoders(config.block_size)
        self._partial: LiveRequest | None = None
        """The last running request, where it is in prefill."""
        self._spare: list[int] = []
        """Blocks that were taken for those that decode and are not in their tables yet."""
        self._admissions = 0
        self._private = 0
        self._step = 0
        """Steps that were scheduled."""
        self._now = 0.0
        """The moment up to which all is known."""
        self._step_start = 0.0
        """Start of the step in flight, or of the first of the run; without one, the earliest start of the next."""
        self._ends: float | None = None
        """End of the step or the run in flight."""
        self._chunked: list[LiveRequest] = []
        """Requests in prefill in the step in flight."""
        self._run: DecodeRun | None = None
        self._run_steps = 0
        self._run_last = 0
        """The last step of the run in flight."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        partial = self._partial is not None and not self._chunked
        return len(self._decoders) + len(self._chunked) + partial

    @property
    def pending_tokens(self) -> int:
        partial = self._chunked[-1] if self._chunked else self._partial
        return self._waiting.tokens + (0 if partial is None else partial.tokens - partial.computed)

    @property
    def used_blocks(self) -> int:
        self._settle()
        return self.pool.used

    def matched(self, request: FleetRequest) -> int:
        """Return the leading blocks of the request that it caches."""
        if not self.config.enable_prefix_caching:
            return 0
        self._settle()
        return len(self.pool.find(request.blocks, request.asked))

    def matched_below(self, request: FleetRequest) -> tuple[int, int]:
        """Return the matched blocks of tiers; there are none."""
        del request
        return 0, 0

    def prefill_seconds(self, prompt_tokens: int, cached_tokens: int) -> float:
        return self._times.seconds(prompt_tokens, cached_tokens)

    def queue_seconds(self) -> float:
        """Return the rest of the step in flight and of a prompt in prefill, plus the waiting prompts, each as if it ran alone."""
        seconds = self._waiting.seconds()
        if self._chunked:
            assert self._ends is not None
            seconds += self._ends - self._now
            last = self._chunked[-1]
            if last.computed < last.tokens:
                seconds += self._times.seconds(last.tokens, last.computed)
        return seconds

    def add(self, request: FleetRequest, now: float) -> None:
        """Add an arriving request; EngineError if it could never run. `advance` was called with `now`."""
        request.check_fits(self.config)
        target = min(request.output_tokens, self.config.max_model_len - request.prompt_tokens)
        asked = min(request.asked, (request.prompt_tokens - 1) // self.block_size)
        expected = request.prompt_tokens - self.matched(request) * self.block_size
        live = LiveRequest(request, target, asked, request.blocks, expected)
        if self._run is not None and not self._waiting and len(self._decoders) < self._most_running:
            self._cut(now)
        elif self._ends is None:
            self._step_start = max(self._step_start, now)
        self._waiting.add(live)
        self.last_arrival = now
        self._ledger.replica[request.number] = self.number

    def advance(self, moment: float) -> None:
        """Do all work that begins before `moment`, and end all work that ends by then."""
        self._now = moment
        while self._go_on(moment):
            pass

    def _go_on(self, moment: float) -> bool:
        """End the step or run in flight, or begin one; False where none ends by `moment` and none begins before it."""
        if self._ends is not None:
            if self._ends > moment:
                return False
            self._complete()
        elif not (self._waiting or self._decoders or self._partial) or self._step_start >= moment:
            return False
        else:
            self._schedule()
        return True

    def finish(self) -> None:
        """Do all that is left."""
        self.advance(float("inf"))

    def _settle(self) -> None:
        """Take the blocks of the steps of a run that have begun."""
        run = self._run
        if run is not None:
            begun = self._run_last - self._run_steps + run.begun_before(self._now - self._step_start, self._run_steps)
            if begun > self._step:
                self._decode(begun - self._step)

    def _cut(self, now: float) -> None:
        """End the run in flight with the step in flight at `now`, because a request arrived."""
        run = self._run
        assert run is not None
        steps = max(
            run.begun_before(now - self._step_start, self._run_steps), self._step - self._run_last + self._run_steps
        )
        self._run_last -= self._run_steps - steps
        self._run_steps = steps
        self._ends = self._step_start + run.seconds(steps)

    def _schedule(self) -> None:
        """Begin a step, or a run of steps that only decode."""
        before = self._step
        preempted = self._decode_one()
        decoding, context = len(self._decoders), self._decoders.context(before)
        longest = self._decoders.longest(self._latency.longest_decodes, before)
        budget = self.config.max_num_batched_tokens - decoding
        chunks: list[tuple[int, int]] = []
        live = self._partial
        if live is not None:
            count = min(live.tokens - live.computed, budget)
            if self._extend(live, count):
                chunks.append((live.computed, count))
                budget -= count
                self._chunk(live, count)
            else:
                self._preempt(live, before)
                preempted = True
        if not preempted and self._waiting:
            self._admit(budget, chunks)
        if chunks:
            self._ends = self._step_start + self._latency.mixed_seconds(chunks, decoding, context, longest)
        elif decoding:
            self._run = self._latency.decode_run(decoding, context, longest)
            self._run_steps = 1 if preempted else self._uneventful_steps(before)
            self._run_last = before + self._run_steps
            self._ends = self._step_start + self._run.seconds(self._run_steps)
        else:
            self._ends = self._step_start

    def _uneventful_steps(self, before: int) -> int:
        """Return the number of steps, of which the first has its blocks, in which nothing happens to the decoding requests."""
        decoders = self._decoders
        steps = decoders.next_end() - before
        if self._waiting and len(decoders) < self._most_running and (due := decoders.next_name()) is not None:
            # A request that waits for room may hit the block that becomes full then, and need less room.
            steps = max(min(steps, due - 1 - before), 1)
        free, after = self.pool.free, before + 1
        if (
            len(decoders) * ((steps - 1) // self.block_size + 1) <= free
            or decoders.new_blocks(after, steps - 1) <= free
        ):
            return steps
        fits, short = 0, steps - 1
        while short - fits > 1:
            middle = (fits + short) // 2
            if decoders.new_blocks(after, middle) <= free:
                fits = middle
            else:
                short = middle
        return 1 + fits

    def _decode_one(self) -> bool:
        """Give decoding requests the blocks of one more step; return whether that preempted any."""
        if self._decoders.new_blocks(self._step, 1) <= self.pool.free:
            self._decode(1)
            return False
        for live in list(self._decoders):
            if live not in self._decoders:
                break
            if not self._decoders.begins_block(live, self._step):
                continue
            while not self.pool.free:
                victim = self._partial or self._decoders.latest
                self._preempt(victim, self._step)
                if victim is live:
                    break
            else:
                self._spare += self.pool.take(1)
        self._step += 1
        self._enter_named()
        return True

    def _decode(self, steps: int) -> None:
        """Take the blocks of so many more steps, and enter the full ones."""
        if new := self._decoders.new_blocks(self._step, steps):
            self._spare += self.pool.take(new)
        self._step += steps
        self._enter_named()

    def _enter_named(self) -> None:
        if not self.config.enable_prefix_caching:
            return
        for live, block in self._decoders.named(self._step):
            self._give(live, block + 1)
            self.pool.enter([live.blocks[block]], [live.names[block]])

    def _give(self, live: LiveRequest, blocks: int) -> None:
        """Record that its table contains so many blocks."""
        missing = blocks - len(live.blocks)
        if missing > 0:
            live.blocks += self._spare[-missing:]
            del self._spare[-missing:]

    def _extend(self, live: LiveRequest, count: int) -> bool:
        """Return blocks for `count` more tokens of a prompt."""
        missing = -(-(live.computed + count) // self.block_size) - len(live.blocks)
        if missing > self.pool.free:
            return False
        if missing > 0:
            live.blocks += self.pool.take(missing)
        return True

    def _chunk(self, live: LiveRequest, count: int) -> None:
        """Compute `count` tokens of a prompt in this step; its full blocks can be hit from now on."""
        live.computed += count
        self._chunked.append(live)
        self.computed_tokens += count
        if self.config.enable_prefix_caching and (full := live.computed // self.block_size) > live.registered:
            first, stop = live.registered, min(full, len(live.names))
            if stop > first:
                self.pool.enter(live.blocks[first:stop], live.names[first:stop])
            live.registered = full

    def _admit(self, budget: int, chunks: list[tuple[int, int]]) -> None:
        """Begin with those that wait, first come first served, as long as there is room."""
        config, pool, size = self.config, self.pool, self.block_size
        running = len(self._decoders) + len(chunks)
        while self._waiting and budget > 0 and running < self._most_running:
            live = self._waiting.head
            hits = pool.find(live.names, self._may_hit(live)) if config.enable_prefix_caching else []
            if self._set_aside(live, hits):
                continue
            hit_tokens = len(hits) * size
            left = live.tokens - hit_tokens
            count = min(left, budget)
            if count < left and not config.enable_chunked_prefill:
                break
            idle = pool.idle(hits)
            own = -(-(hit_tokens + count) // size) - len(hits)
            if pool.limited:
                room = pool.free - len(idle) - (self._reserve if running else 0)
                whole = -(-live.tokens // size) - len(hits)
                if own > room or (config.scheduler_reserve_full_isl and whole > room):
                    break
            self._waiting.pop()
            pool.hold(hits, idle)
            live.blocks = hits + pool.take(own)
            self._begin(live, len(hits))
            chunks.append((hit_tokens, count))
            self._chunk(live, count)
            running += 1
            budget -= count

    def _set_aside(self, live: LiveRequest, hits: list[int]) -> bool:
        """Return whether the head of the queue, which would hit these blocks, left it to wait for something else than room."""
        del live, hits
        return False

    def _may_hit(self, live: LiveRequest) -> int:
        """Return its leading blocks that may hit; after a preemption its answer so far is like a part of its prompt."""
        return (live.tokens - 1) // self.block_size if live.outputs else live.asked

    def _begin(self, live: LiveRequest, hits: int) -> None:
        """Start running the request, with so many blocks hit."""
        hit_tokens = hits * self.block_size
        if not live.computed:  # below 0 where it was preempted
            self._ledger.hit_blocks[live.request.number] = hits
            self._ledger.computed_tokens[live.request.number] = live.tokens - hit_tokens
        live.computed, live.registered, live.order = hit_tokens, hits, self._admissions
        self._admissions += 1

    def _preempt(self, live: LiveRequest, step: int) -> None:
        """Preempt a request by recomputation: free its blocks, keep full ones for hits, and admit it next.

        `step`: the last step of the request.
        """
        if live is self._partial:
            self._partial = None
        else:
            self._leave(live, step)
        if self.config.enable_prefix_caching and (missing := live.registered - len(live.names)) > 0:
            self._private += missing
            fresh = list(range(-self._private, missing - self._private))
            self.pool.enter(live.blocks[len(live.names) : live.registered], fresh)
            live.names = live.names + fresh
        self._release(live)
        live.expected = live.tokens
        if self.config.enable_prefix_caching:
            live.expected -= len(self.pool.find(live.names, self._may_hit(live))) * self.block_size
        live.computed = -1  # as it has been admitted before
        self._waiting.add(live, front=True)
        self._ledger.preemptions += 1

    def _leave(self, live: LiveRequest, step: int) -> None:
        """End its decoding after this step, and update its table and counts."""
        self._decoders.remove(live)
        live.computed = live.offset + step
        live.outputs = live.target - (live.last_step - step)
        self._give(live, -(-live.computed // self.block_size))
        live.registered = live.computed // self.block_size

    def _release(self, live: LiveRequest) -> None:
        self.pool.release(live.blocks, live.registered if self.config.enable_prefix_caching else 0)
        live.blocks, live.registered, live.order = [], 0, -1

    def _complete(self) -> None:
        """End the step or run in flight."""
        assert self._ends is not None
        now, self._step_start, self._ends = self._ends, self._ends, None
        if self._run is not None:
            if (rest := self._run_last - self._step) > 0:
                self._decode(rest)
            self._run = None
        for live in self._decoders.ending(self._step):
            self._leave(live, self._step)
            self._finished(live, now)
        self._partial = None
        for live in self._chunked:
            if live.computed < live.tokens:
                self._partial = live
            else:
                self._sampled(live, now)
        self._chunked = []

    def _sampled(self, live: LiveRequest, now: float) -> None:
        """Give a token to a request whose prompt, or preempted part, is computed."""
        if not live.outputs:
            self._ledger.first_token[live.request.number] = now
            self.happened.append(Happening(now, "first token", live.request, self.number))
        live.outputs += 1
        if live.outputs < live.target:
            self._decoders.add(live, self._step)
        else:
            self._finished(live, now)

    def _finished(self, live: LiveRequest, now: float) -> None:
        self._release(live)
        self._ledger.finished[live.request.number] = now
        self.happened.append(Happening(now, "finished", live.request, self.number))

    def check(self) -> None:
        """Assert that blocks, requests and counts agree."""
        self._check_held([])

    def _check_held(self, loading: list[LiveRequest]) -> None:
        """Count again the blocks of requests that have some and do not run."""
        self.pool.check()
        self._decoders.check(self._step)
        partial = [] if self._partial is None or self._chunked else [self._partial]
        running = [*self._decoders, *self._chunked, *partial]
        held = {block for live in [*running, *loading] for block in live.blocks}
        assert len(held) + len(self._spare) == self.pool.used
        assert not held & set(self._spare)
        assert len(running) <= self._most_running
        assert not any(live.blocks for live in self._waiting)
        assert self._waiting.tokens == sum(live.expected for live in self._waiting)
