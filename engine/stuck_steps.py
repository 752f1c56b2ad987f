"""Detect an engine that makes no progress, and give the reason; vLLM would loop for ever without a token."""

from __future__ import annotations

from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.request import Request
from kvtool.engine.waiting_queue import WaitingQueue

_MOST_LONELY = 8
"""Preemptions of a lone request without a new token after which it counts as stuck."""


class StuckSteps:
    """Check steps that schedule nothing."""

    def __init__(self) -> None:
        self._last = ("", 0)
        """The request that preempted itself last while it was alone, and its tokens; and how often it did with these."""
        self._times = 0

    def check(
        self, running: list[Request], waiting: WaitingQueue, preempted: list[Request], config: EngineConfig
    ) -> None:
        """Raise EngineError if every later step would schedule nothing, as this one does."""
        if any(request.num_awaited_outputs for request in running):
            return
        if preempted:
            if not running and len(preempted) == 1:
                self._check_preempts_on(preempted[0])
            return
        if cut := next((request for request in running if request.num_tokens > request.num_computed_tokens), None):
            raise EngineError(
                f"request {cut.id} can never go on: a step would end its next chunk at a forbidden place",
                hint="raise --max-num-batched-tokens",
            )
        if running:
            raise EngineError(f"request {running[0].id} waits for a token that no step samples")
        stuck, most = waiting.peek(), config.max_num_batched_tokens
        if config.num_blocks is not None and stuck.num_tokens <= most:
            raise EngineError(
                f"request {stuck.id} can never be scheduled: the whole cache has {config.num_blocks - 1} blocks, and its "
                f"{stuck.num_tokens} tokens need more",
                hint="raise --capacity",
            )
        raise EngineError(
            f"request {stuck.id} can never be scheduled: it needs {stuck.num_tokens} tokens in one step, which takes {most}",
            hint="raise --max-num-batched-tokens or --capacity",
        )

    def _check_preempts_on(self, request: Request) -> None:
        """Raise EngineError for a request that, alone, preempts itself over and over without a token in between."""
        this = (request.id, request.num_tokens)
        self._last, self._times = this, self._times + 1 if this == self._last else 1
        if self._times > _MOST_LONELY:
            raise EngineError(
                f"request {request.id} preempts itself over and over: its {request.num_tokens} tokens and the needs of a step "
                "do not fit in the cache",
                hint="raise --capacity",
            )
