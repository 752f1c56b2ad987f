"""The engine: schedule, run, update, until done."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.engine.blocks.chain_numbers import ChainNumbers
from kvtool.engine.blocks.make_cache import make_cache
from kvtool.engine.clock import Clock
from kvtool.engine.config import EngineConfig
from kvtool.engine.request import Request
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.step import EngineStep, Runner, Sampled


class Engine:
    """Scheduler, cache, runner and clock, put together."""

    def __init__(
        self,
        config: EngineConfig,
        runner: Runner,
        clock: Clock,
        *,
        record_events: bool = False,
        numbers: ChainNumbers | None = None,
    ) -> None:
        """Create the engine. `record_events` and `numbers` are for the cache."""
        self.config = config
        self.cache = make_cache(config, record_events=record_events, numbers=numbers)
        self.scheduler = Scheduler(config, self.cache)
        self.runner = runner
        self.clock = clock
        self._in_flight: tuple[EngineStep, Sequence[Sampled]] | None = None

    @property
    def busy(self) -> bool:
        return len(self.scheduler) > 0

    @property
    def awaits(self) -> bool:
        """Return whether a step's tokens are still to be taken in."""
        return self._in_flight is not None and len(self._in_flight[0].scheduled) > 0

    def add(self, request: Request) -> None:
        """Submit a request; EngineError if it could never run."""
        self.scheduler.add(request)

    def step(self) -> list[Request]:
        """Run one step and return the requests that it finished. Set the time of the first token in each request.

        In asynchronous scheduling a step's tokens go to the scheduler after it has scheduled the next one.
        """
        step = self.scheduler.schedule()
        if self.config.async_scheduling:
            finished = self.scheduler.update(*self._in_flight) if self._in_flight is not None else []
            self._in_flight = (step, self._run(step))
            return finished
        return self.scheduler.update(step, self._run(step))

    def _run(self, step: EngineStep) -> Sequence[Sampled]:
        tokens = self.runner.run(step)
        self.clock.step_done(step)
        now = self.clock.now()
        for (request, _, _), token in zip(step.scheduled, tokens, strict=True):
            if token is not None and request.first_token_at is None:
                request.first_token_at = now
        return tokens
