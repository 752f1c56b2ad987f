"""The result of a fleet's run: a row for each request."""

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
    """The replica that computed the prompt."""
    arrival: Seconds
    first_token: Seconds
    finished: Seconds
    prompt_tokens: Counts
    output_tokens: Counts
    hit_blocks: Counts
    """Blocks hit in the replica's own cache at the first admission."""
    asked_blocks: Counts
    computed_tokens: Counts
    """Prompt tokens that were computed at its first admission: neither hit nor loaded."""
    loaded_tokens: Counts
    """Prompt tokens that came from a tier below."""
    preemptions: int = 0

    @property
    def served(self) -> npt.NDArray[np.bool_]:
        """Return by request whether a replica took it."""
        return np.asarray(self.replica >= 0)

    @property
    def references(self) -> int:
        """Blocks looked up at first admissions."""
        return int(self.asked_blocks[self.served].sum())
