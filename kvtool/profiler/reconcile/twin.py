"""The engine in the place of a server: the same requests, with the answers that the server gave, through the server's own rules."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kvtool.engine.clock import VirtualClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.engine_error import EngineError
from kvtool.engine.events import Event
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.workload.turn import Ids

FOREIGN = -1
"""The number of a request that is none of ours."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt that a server got, and the tokens that it answered; `number` is that of the exchange, which may hold several."""

    number: int
    prompt: Ids
    output: tuple[int, ...] = (0,)
    salt: str | None = None
    reads: bool = True
    """Whether the request looks its prompt up; the counters leave out one that does not."""
    reported: bool = True
    """Whether the usage of its exchange has its cached tokens: of several requests that of one."""
    priority: int = 0
    """Its priority in the queue, if the server schedules by it."""
    again: bool = False
    """Whether it has the prompt of the ask before it, for another answer: usage counts that prompt once."""


@dataclass(slots=True)
class TwinRun:
    """The engine's run of the asks. Requests that it could never run are in neither of the first two."""

    cached: dict[int, int] = field(default_factory=dict)
    """Cached tokens by the number of the exchange, of the request whose cached tokens its usage has."""
    unreported: int = 0
    """Cached tokens of the other requests of exchanges that made several."""
    events: list[Event] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    evictions: int = 0
    ttft: dict[int, float] = field(default_factory=dict)
    """Predicted seconds to the first token, on the virtual clock."""


class Twin:
    """Runs asks in an order, at most so many at once, on an engine that begins empty."""

    def __init__(self, config: EngineConfig, latency: LatencyModel, *, at_once: int) -> None:
        self.config = config
        self.latency = latency
        self.at_once = at_once

    def unlimited(self) -> Twin:
        """Return the same with a cache that forgets nothing."""
        return Twin(replace(self.config, num_blocks=None), self.latency, at_once=self.at_once)

    def alone(self) -> Twin:
        """Return the same with one request at a time."""
        return Twin(self.config, self.latency, at_once=1)

    def run(self, asks: Sequence[Ask], *, events: bool = False, cleared: Collection[int] = ()) -> TwinRun:
        """Run the asks; `cleared` are places in the list before which the cache is emptied; `events` keeps what happens to the
        cache.
        """
        config = self.config if events else replace(self.config, hash_algo="native")
        clock = VirtualClock(self.latency)
        engine = Engine(config, DryRunner(), clock, record_events=events)
        run = TwinRun()
        waiting = deque(enumerate(asks))
        active: dict[int, Ask] = {}
        together: int | None = None
        while waiting or engine.busy:
            while waiting and (len(active) < self.at_once or waiting[0][1].number == together):
                place, ask = waiting[0]
                if place in cleared and not engine.scheduler.reset_prefix_cache(reset_running=True):
                    break  # not before what runs has ended
                waiting.popleft()
                request = request_of(place, ask)
                try:
                    engine.scheduler.check_fits(request)
                except EngineError as error:
                    run.refused[ask.number] = error.message
                    continue
                request.arrival = clock.now()
                engine.add(request)
                active[request.order] = ask
                together = None if ask.number == FOREIGN else ask.number  # the other requests of its exchange
            if not engine.busy:
                continue
            for request in engine.step():
                ask = active.pop(request.order)
                if ask.reported:
                    run.cached[ask.number] = max(request.num_cached_tokens, 0)
                else:
                    run.unreported += max(request.num_cached_tokens, 0)
                if request.first_token_at is not None:
                    run.ttft[ask.number] = request.first_token_at - request.arrival
            if events:
                run.events += engine.cache.take_events()
        run.evictions = engine.cache.num_evictions
        return run


def request_of(name: int, ask: Ask) -> Request:
    """Return an ask as the engine takes it."""
    return Request(
        id=str(name),
        num_prompt_tokens=len(ask.prompt),
        prompt_ids=np.asarray(ask.prompt, dtype=np.int32),
        output_ids=list(ask.output) or [0],
        cache_salt=ask.salt,
        skip_reading_cache=not ask.reads,
        priority=ask.priority,
    )
