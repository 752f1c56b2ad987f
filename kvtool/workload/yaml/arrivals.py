"""Times at which requests arrive, in seconds from the start of the workload."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kvtool.workload.yaml.draws import Key, fraction
from kvtool.workload.yaml.schema import Arrival


def arrival_times(spec: Arrival, *key: Key) -> Iterator[float]:
    """Endless and never decreasing. `poisson`: independent of each other; `uniform`: evenly spaced; `burst`: `burst` at a time."""
    if spec.process == "poisson":
        now = spec.start
        number = 0
        while True:
            now -= math.log1p(-fraction(*key, "arrival", number)) / spec.rate
            number += 1
            yield now
    size = spec.burst if spec.process == "burst" else 1
    assert size is not None
    number = 0
    while True:
        yield spec.start + number // size * size / spec.rate
        number += 1
