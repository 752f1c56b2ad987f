"""The recorded ShareGPT runs through a replica: the same requests, request by request, as through the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.latency_validation import (
    RUNS,
    WORKLOAD,
    Recorded,
    by_replica,
    read_config,
    read_workload,
    replay,
)

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "llmservingsim_sharegpt"


@pytest.mark.skipif(not (SHARED / WORKLOAD).is_file(), reason="needs the recorded runs in ../shared")
@pytest.mark.parametrize("recorded", RUNS, ids=lambda run: run.folder)
def test_as_the_engine(recorded: Recorded) -> None:
    """One of the two preempts 200 times."""
    model = recorded.latency()
    config = replace(read_config(SHARED, recorded), async_scheduling=False)
    one_by_one, found = (run(read_workload(SHARED), config, model) for run in (replay, by_replica))
    assert found.hits == one_by_one.hits
    assert found.preemptions == one_by_one.preemptions
    assert np.allclose(found.times.first, one_by_one.times.first, rtol=1e-6)
    assert np.allclose(found.times.last, one_by_one.times.last, rtol=1e-6)
