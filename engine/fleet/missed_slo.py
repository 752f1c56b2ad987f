"""Counts the requests that miss an objective while a fleet runs, so that a run can end where too many have."""

from __future__ import annotations

from kvtool.engine.fleet.fleet_figures import Slo
from kvtool.engine.fleet.replica_event import Happening


class MissedSlo:
    """Of so many requests. Told of what happens, in order, it says whether the share that is asked for is out of reach."""

    def __init__(self, slo: Slo, requests: int) -> None:
        self._slo = slo
        self._requests = requests
        self._first: dict[int, float] = {}
        """When a request that has not missed yet got its first token, by its number."""
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
