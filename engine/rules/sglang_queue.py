"""SGLang's loop: requests wait in a queue, prefills go before decode steps, and what runs holds its prefix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import Asked
from kvtool.engine.rules.sglang_admission import Admitted, PrefillBatch
from kvtool.engine.rules.sglang_memory import RadixMemory, RadixRequest
from kvtool.engine.rules.sglang_options import SglangOptions
from kvtool.engine.rules.sglang_policies import QueueOrder


@dataclass(frozen=True, slots=True)
class QueueRun:
    """What became of requests that waited for each other; they are numbered in the order in which they came."""

    cached: list[int]
    """Tokens of each prompt that were reused."""
    evicted: list[int]
    """Tokens that were thrown away until the requests that came together had ended, for each such arrival."""
    prefill_batches: list[list[int]]
    """Who was computed together, in the order in which they were let in."""
    num_tokens: int
    """Tokens of the tree at the end."""


class SglangQueue:
    """SGLang's prefix cache under requests that come together: order, admission, prefill, decode."""

    def __init__(self, options: SglangOptions) -> None:
        self.options = options
        self.memory = RadixMemory(options)
        self._order = QueueOrder(options, self.memory)
        self._waiting: list[RadixRequest] = []
        self._running: list[RadixRequest] = []
        self._full = False
        """Nobody is tried before a request has ended. SGLang notes it with the requests that run: where none did, it forgets."""

    def serve(self, arrivals: Iterable[Sequence[Asked]]) -> QueueRun:
        """Run requests to their end: those of an arrival come together, when all before have ended.

        EngineError where one could never run, or where SGLang would take running requests back, which is not modelled.
        """
        numbers: dict[RadixRequest, int] = {}
        evicted, batches = [], []
        for together in arrivals:
            before = self.memory.num_evicted
            for asked in together:
                request = self._request(asked)
                numbers[request] = len(numbers)
                self._waiting.append(request)
            while self._waiting or self._running:
                if batch := self.step():
                    batches.append([numbers[request] for request in batch])
            evicted.append(self.memory.num_evicted - before)
        return QueueRun([request.cached for request in numbers], evicted, batches, self.memory.tree.num_tokens)

    def _request(self, asked: Asked) -> RadixRequest:
        if not len(asked.prompt):
            raise EngineError("a prompt has no tokens", hint="SGLang refuses it: leave it out")
        self.options.check_fits(len(asked.prompt), len(asked.answer))
        return RadixRequest(asked, self.memory.tree.root)

    def step(self) -> list[RadixRequest]:
        """Compute the prompts of whoever is let in, who are returned, or else one token for each running request."""
        batch = self._admit()
        if batch:
            let_in = set(batch)
            self._waiting = [request for request in self._waiting if request not in let_in]
            self.memory.prefill(batch)
            self._running += batch
            self._sample(batch)
        else:
            assert self._running, "what fits into an empty pool is let in"
            self.memory.decode(self._running)
            self._sample(self._running)
        return batch

    def _admit(self) -> list[RadixRequest]:
        slots = (self.options.max_running_requests or len(self._running) + len(self._waiting)) - len(self._running)
        self._full = bool(self._running) and (self._full or slots <= 0)
        if self._full or not self._waiting:
            return []
        self._order.sort(self._waiting)
        batch = PrefillBatch(self.options, self.memory, self._running)
        for request in self._waiting:
            if batch.state is Admitted.ENOUGH:
                break
            if len(batch.requests) >= slots:
                self._full = bool(self._running)
                break
            self.memory.match(request)
            verdict = batch.add(request)
            if verdict is Admitted.NO_MEMORY:
                self._full = bool(self._running)
            if verdict is not Admitted.MORE:
                break
        return batch.requests

    def _sample(self, requests: Sequence[RadixRequest]) -> None:
        """Each request gets a token. What ends leaves; a prompt that has just been computed can be found from now on."""
        for request in requests:
            request.sampled += 1
            if not request.num_left:
                self.memory.release(request)
            elif request.sampled == 1:
                self.memory.publish(request)
        running = [request for request in self._running if request.num_left]
        if len(running) < len(self._running):
            self._full = False
        self._running = running
