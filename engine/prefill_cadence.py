"""Limit how often requests are prefilled while others decode."""

from __future__ import annotations

from kvtool.engine.request import Request


class PrefillCadence:
    """vLLM's `prefill_schedule_interval`: after a step with prefill, the next `interval` - 1 that compute something have none.

    This does not apply if the last step that could admit requests left some waiting (`behind`), or if no request decodes.
    """

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.behind = False
        self._steps = 0
        self._last = -interval

    def holds(self, running: list[Request]) -> bool:
        """Return whether the next step has no prefill."""
        return (
            self.interval > 1
            and not self.behind
            and self._steps + 1 - self._last < self.interval
            and any(not request.in_prefill for request in running)
        )

    def step_done(self, *, scheduled: bool, prefills: bool) -> None:
        """Record a scheduled step: whether it computes anything, and whether it has prefill."""
        self._steps += scheduled
        if self.interval > 1 and prefills:
            self._last = self._steps
