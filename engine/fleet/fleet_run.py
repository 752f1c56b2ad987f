"""Result of a fleet: a row for each request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FleetRun:
    """n requests in order of arrival; moments in seconds of the fleet's clock."""

    replicas: int
    replica: Counts
    """That computed its prompt."""
    arrival: Seconds
    first_token: Seconds
    finished: Seconds
    prompt_tokens: Counts
    output_tokens: Counts
    hit_blocks: Counts
    """Found in the replica's own cache when it was first admitted."""
    asked_blocks: Counts
    computed_tokens: Counts
    """Prompt tokens that were computed at its first admission: neither hit nor loaded."""
    loaded_tokens: Counts
    """Prompt tokens that came from a tier below."""
    preemptions: int = 0
    refused: int = 0
    """Requests that a router turned away; they have NaN for moments."""

    @property
    def served(self) -> npt.NDArray[np.bool_]:
        """By request, whether a replica took it."""
        return np.asarray(self.replica >= 0)

    @property
    def references(self) -> int:
        """Blocks that were looked up at first admissions."""
        return int(self.asked_blocks[self.served].sum())
