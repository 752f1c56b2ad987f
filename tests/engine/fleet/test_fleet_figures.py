"""Figures of a run, by hand, and the search for the smallest fleet."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.fleet.fleet_figures import Slo, fleet_figures
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_run import FleetRun
from kvtool.engine.fleet.gpu_search import attainable, smallest_fleet
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator

RUN = FleetRun(
    replicas=2,
    replica=np.array([0, 1, 0, -1]),
    arrival=np.array([10.0, 10.0, 12.0, 13.0]),
    first_token=np.array([11.0, 10.5, 16.0, nan]),
    finished=np.array([12.0, 10.5, 20.0, nan]),
    prompt_tokens=np.array([100, 50, 300, 1]),
    output_tokens=np.array([11, 1, 41, 5]),
    hit_blocks=np.array([0, 2, 1, 0]),
    asked_blocks=np.array([6, 3, 3, 9]),
    computed_tokens=np.array([100, 18, 284, 0]),
    loaded_tokens=np.zeros(4, np.int64),
)
"""TTFT 1, 0.5 and 4 s; TPOT 0.1 s, none and 0.1 s; the last request was not served."""


def test_figures() -> None:
    figures = fleet_figures(RUN, Slo(ttft=2.0, tpot=0.1), gpus_each=4)
    assert figures.hit_rate == 3 / 12
    assert figures.imbalance == pytest.approx(384 / 201)
    assert figures.request_imbalance == pytest.approx(2 / 1.5)
    assert figures.ttft_p50 == 1.0
    assert figures.ttft_p99 == pytest.approx(1.0 + 0.98 * 3.0)
    assert figures.tpot_p50 == pytest.approx(0.1)
    assert figures.makespan == 10.0
    assert figures.gpu_hours == pytest.approx(8 * 10 / 3600)
    assert figures.within_slo == 2 / 4
    assert figures.goodput == pytest.approx(0.2)


def test_objectives_of_one_kind() -> None:
    assert fleet_figures(RUN, Slo(ttft=0.7)).within_slo == 1 / 4
    assert fleet_figures(RUN, Slo(tpot=0.05)).within_slo == 1 / 4
    none = fleet_figures(RUN)
    assert none.within_slo is None
    assert none.goodput is None


def test_nothing_was_served() -> None:
    empty = np.zeros(0, np.int64)
    run = FleetRun(3, empty, empty + 0.0, empty + 0.0, empty + 0.0, *[empty] * 6)
    figures = fleet_figures(run, Slo(ttft=1.0))
    assert (figures.hit_rate, figures.imbalance, figures.goodput, figures.within_slo) == (0.0, 1.0, 0.0, 0.0)
    assert figures.ttft_p50 is None


def test_a_larger_fleet_may_do_worse() -> None:
    """8 meet it, 4 and 6 do not, 5 do: what lies below the last doubling is not tried."""
    shares = {1: 0.1, 2: 0.5, 3: 0.95, 4: 0.6, 5: 0.92, 6: 0.7, 7: 0.95, 8: 0.99}
    found = smallest_fleet(shares.__getitem__, 0.9)
    assert found.replicas == 5
    assert list(found.shares) == [1, 2, 4, 8, 5]


def test_none_up_to_a_ceiling() -> None:
    for most, tried in [(6, [1, 2, 4, 6]), (1, [1]), (4, [1, 2, 4])]:
        found = smallest_fleet(lambda replicas: replicas / 100, 0.9, most=most)
        assert found.replicas is None
        assert list(found.shares) == tried
        assert found.best == most / 100


@given(st.integers(1, 80), st.integers(1, 64))
def test_the_smallest_where_more_is_better(needed: int, most: int) -> None:
    found = smallest_fleet(lambda replicas: float(replicas >= needed), 0.9, most=most)
    assert found.replicas == (needed if needed <= most else None)


def test_what_no_fleet_can_do() -> None:
    """A long prompt takes more than its objective even alone, but not where its prefix came before."""
    model = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
    first = FleetRequest(0, 0.0, list(range(6200)), 6200, 100_000, 1)
    again = FleetRequest(1, 0.0, list(range(6200)), 6200, 100_000, 1)
    short = FleetRequest(2, 0.0, [], 0, 100, 50)
    alone = model.prefill_seconds(100_000, 0, 8192)
    assert attainable([first, again, short], model, Slo(ttft=0.9 * alone), 16, 8192) == 2 / 3
    assert attainable([short], model, Slo(tpot=0.001), 16, 8192) == 0.0
    assert attainable([short], model, Slo(tpot=0.1), 16, 8192) == 1.0
    assert attainable([], model, Slo(), 16, 8192) == 0.0
