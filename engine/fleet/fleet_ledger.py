"""The records of a fleet's replicas, by request."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np

from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_run import FleetRun


class FleetLedger:
    """A place for each request, by its number."""

    def __init__(self, requests: int) -> None:
        self.replica = [-1] * requests
        self.first_token = [nan] * requests
        self.finished = [nan] * requests
        self.hit_blocks = [0] * requests
        self.computed_tokens = [0] * requests
        self.loaded_tokens = [0] * requests
        self.preemptions = 0

    def run(self, requests: Sequence[FleetRequest], replicas: int) -> FleetRun:
        """Return all records, with the requests."""
        return FleetRun(
            replicas,
            replica=np.array(self.replica, np.int64),
            arrival=np.array([request.arrival for request in requests], np.float64),
            first_token=np.array(self.first_token, np.float64),
            finished=np.array(self.finished, np.float64),
            prompt_tokens=np.array([request.prompt_tokens for request in requests], np.int64),
            output_tokens=np.array([request.output_tokens for request in requests], np.int64),
            hit_blocks=np.array(self.hit_blocks, np.int64),
            asked_blocks=np.array([request.asked for request in requests], np.int64),
            computed_tokens=np.array(self.computed_tokens, np.int64),
            loaded_tokens=np.array(self.loaded_tokens, np.int64),
            preemptions=self.preemptions,
        )
