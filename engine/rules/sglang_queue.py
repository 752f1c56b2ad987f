"""SGLang's loop: requests wait in a queue, prefills go before decode steps, and running requests keep their prefixes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import RuleRequest
from kvtool.engine.rules.sglang_admission import Admitted, PrefillBatch
from kvtool.engine.rules.sglang_memory import RadixMemory
from kvtool.engine.rules.sglang_options import SglangOptions
from kvtool.engine.rules.sglang_policies import QueueOrder
from kvtool.engine.rules.sglang_request import RadixRequest

STEPS_AFTER_RETRACTION = 20
"""Tokens of room that SGLang requires for each remaining request after it retracts others."""


@dataclass(frozen=True, slots=True)
class QueueRun:
    """The results of requests that waited for each other, numbered in the order of arrival."""

    cached: list[int]
    """Tokens of each prompt that were reused when it was let in first."""
    evicted: list[int]
    """Tokens that were thrown away until the requests that came together had ended, for each such arrival."""
    prefill_batches: list[list[int]]
    """The requests of each batch, in the order of admission."""
    num_tokens: int
    """Tokens of the tree at the end."""
    num_retracted: int
    """Number of times that a running request went back into the queue."""


class SglangQueue:
    """SGLang's prefix cache under requests that come together: order, admission, prefill, decode, retraction."""

    def __init__(self, options: SglangOptions) -> None:
        self.options = options
        self.memory = RadixMemory(options)
        self.waiting: list[RadixRequest] = []
        self.running: list[RadixRequest] = []
        self.cut: RadixRequest | None = None
        """A request whose prompt is computed in part."""
        self.num_retracted = 0
        self._order = QueueOrder(options, self.memory)
        self._new_token_ratio = options.new_token_ratio
        self._full = False
        """True if no request is tried before one ends. SGLang stores this with the running requests: without any, it forgets."""

    def serve(self, arrivals: Iterable[Sequence[RuleRequest]]) -> QueueRun:
        """Run requests to their end: those of an arrival come together, when all before have ended.

        EngineError where one could never run.
        """
        numbers: dict[RadixRequest, int] = {}
        evicted, batches = [], []
        for together in arrivals:
            before = self.memory.num_evicted
            for asked in together:
                numbers[self.add(asked)] = len(numbers)
            batches += [[numbers[request] for request in batch] for batch in self._run()]
            evicted.append(self.memory.num_evicted - before)
        cached = [request.cached or 0 for request in numbers]
        return QueueRun(cached, evicted, batches, self.memory.tree.num_tokens, self.num_retracted)

    def serve_together(self, together: Sequence[RuleRequest]) -> list[int]:
        """Run requests that come at one moment to their end; the tokens that each reused when it was let in first."""
        requests = [self.add(asked) for asked in together]
        for _ in self._run():
            pass
        return [request.cached or 0 for request in requests]

    def _run(self) -> Iterator[list[RadixRequest]]:
        """Run all waiting requests to their end, and return the groups that were admitted together."""
        while self.waiting or self.running or self.cut is not None:
            if batch := self.step():
                yield batch

    @property
    def num_evicted(self) -> int:
        """Tokens that were thrown away so far."""
        return self.memory.num_evicted

    @property
    def num_tokens(self) -> int:
        """Tokens in the tree now."""
        return self.memory.tree.num_tokens

    def check(self, asked: RuleRequest) -> None:
        """Raise EngineError for a request that could never run."""
        if not len(asked.prompt):
            raise EngineError("a prompt has no tokens", hint="remove it: SGLang refuses it")
        self.options.check_fits(len(asked.prompt), len(asked.answer))

    def add(self, asked: RuleRequest) -> RadixRequest:
        """Put a request at the end of the queue; EngineError where it could never run."""
        self.check(asked)
        request = RadixRequest(asked, self.memory.tree.root)
        self.waiting.append(request)
        return request

    def step(self) -> list[RadixRequest]:
        """Compute the prompts of the admitted requests and return them, or else compute one token of each running request."""
        if self.cut is not None:
            self.memory.publish(self.cut)
        batch = self._admit()
        if batch:
            let_in = set(batch)
            self.waiting = [request for request in self.waiting if request not in let_in]
            self.memory.prefill(batch)
            done = [request for request in batch if request is not self.cut]
            self.running += done
            self._sample(done, prefilled=True)
            if self.cut is not None:
                self._full = False
        else:
            assert self.running, "what fits into an empty pool is let in"
            self._retract()
            self.memory.decode(self.running)
            self._sample(self.running)
        return batch

    def _admit(self) -> list[RadixRequest]:
        slots = (self.options.max_running_requests or len(self.running) + len(self.waiting) + 1) - len(self.running)
        self._full = bool(self.running) and (self._full or slots <= 0)
        if (self._full or not self.waiting) and self.cut is None:
            return []
        self._order.sort(self.waiting)
        batch = PrefillBatch(self.options, self.memory, self.running, self._new_token_ratio)
        if self.cut is not None:
            batch.go_on(self.cut)
        for request in self.waiting:
            if batch.state is Admitted.ENOUGH:
                break
            if len(batch.requests) >= slots:
                self._full = bool(self.running)
                break
            if self._full:
                break
            self.memory.match(request)
            verdict = batch.add(request)
            if verdict is Admitted.NO_MEMORY:
                self._full = bool(self.running)
            if verdict is not Admitted.MORE:
                break
        self.cut = batch.cut
        return batch.requests

    def _retract(self) -> None:
        """Return requests to the queue if the next tokens do not fit: first the shortest answers, of these the longest prompts."""
        if self.memory.can_decode(self.running):
            return
        kept = sorted(self.running, key=lambda request: (request.sampled, -request.num_prompt), reverse=True)
        back: list[RadixRequest] = []
        while len(kept) > 1 and not (back and self.memory.can_decode(kept)):
            request = kept.pop()
            self.memory.take_back(request)
            self.memory.make_room(len(kept) * STEPS_AFTER_RETRACTION)
            back.append(request)
        assert self.memory.can_decode(kept), "a request that runs alone fits"
        if back:
            self.waiting += back
            self.running = kept
            self.num_retracted += len(back)
            self._full = False
        asked = sum(self._asked(request) for request in kept)
        sampled = sum(request.sampled + STEPS_AFTER_RETRACTION for request in kept)
        self._new_token_ratio = min(1.0, sampled / (asked + 1))

    def _asked(self, request: RadixRequest) -> int:
        return min(request.num_answer, self.options.longest_answer(request.num_prompt))

    def _sample(self, requests: Sequence[RadixRequest], *, prefilled: bool = False) -> None:
        """Give each request a token. Ended requests leave; newly computed prompts can be hit from now on."""
        for request in requests:
            request.sampled += 1
            if not request.num_left:
                self.memory.release(request)
            elif prefilled:
                self.memory.publish(request)
        running = [request for request in self.running if request.num_left]
        if len(running) < len(self.running):
            self._full = False
        self.running = running
