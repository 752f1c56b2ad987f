"""Count the requests that miss an objective while a fleet runs, so that a run can end once too many have."""

from __future__ import annotations

from kvtool.engine.fleet.fleet_figures import Slo
from kvtool.engine.fleet.request_event import Happening


class MissedSlo:
    """Watch events of so many requests, in order, and report when the required share is out of reach."""

    def __init__(self, slo: Slo, requests: int) -> None:
        self._slo = slo
        self._requests = requests
        self._first: dict[int, float] = {}
        """Moment of the first token of each request that has not missed yet, by its number."""
        self._missed = 0

    @property
    def most(self) -> float:
        """Return the share that can still be met."""
        return 1 - self._missed / self._requests

    @property
    def too_many(self) -> bool:
        return self.most < self._slo.share

    def __call__(self, happening: Happening) -> bool:
        """Count it; returns `too_many`."""
        moment, what, request, _ = happening
        if what == "first token":
            if moment - request.arrival > self._slo.ttft:
                self._missed += 1
            else:
                self._first[request.number] = moment
        elif (first := self._first.pop(request.number, None)) is not None and request.output_tokens > 1:
            self._missed += (moment - first) / (request.output_tokens - 1) > self._slo.tpot
        return self.too_many
