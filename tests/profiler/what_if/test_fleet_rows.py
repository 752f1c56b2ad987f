"""From a trace to requests with a clock, and to rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kvtool.engine.config import EngineConfig
from kvtool.engine.fleet.fleet_figures import Slo, fleet_figures
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter
from kvtool.engine.fleet.gpu_search import smallest_fleet
from kvtool.engine.fleet.routers.blind_routers import RoundRobinRouter
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.errors import KvtoolError
from kvtool.profiler.what_if.fleet_rows import FleetPlan, fleet_requests
from kvtool.workload.block_trace import BlockTrace

MODEL = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"), tensor_parallel=2)


def a_trace(arrivals: Sequence[float], *, traced: bool = True) -> BlockTrace:
    """Prompts of two full blocks of 512 tokens and a part of a third, which a trace names, too."""
    count = len(arrivals)
    return BlockTrace(
        block_size=512,
        numbers=np.tile(np.arange(3), count),
        starts=3 * np.arange(count + 1),
        whole=np.full(count, 2),
        named=np.full(count, 3 if traced else 2),
        prompt_tokens=np.full(count, 1100),
        output_tokens=np.zeros(count, np.int64),
        arrivals=np.array(arrivals, np.float64),
        sessions=np.full(count, -1, np.int32),
        salts=np.full(count, -1, np.int32),
        traced=traced,
    )


def in_turn() -> FleetRouter:
    return RoundRobinRouter()


def test_requests_of_a_trace() -> None:
    """A block that is not full is not in the cache; an answer of no known length has a token; the clock begins at 0."""
    first, second = fleet_requests(a_trace([5.0, 9.0]), speedup=2.0)
    assert first == FleetRequest(0, 0.0, [0, 1], 2, 1100, 1)
    assert second.arrival == 2.0


def test_blocks_of_answers() -> None:
    assert fleet_requests(a_trace([0.0], traced=False))[0].blocks == [0, 1, 2]


def test_times_that_are_none() -> None:
    for arrivals, message in [
        ([float("nan")] * 2, "a clock needs arrival times, and no request has one"),
        ([0.0, float("nan")], "request 2 has none"),
        ([0.0, 3.0, 1.5], "request 3 of the log arrives 1.500 s before"),
        ([0.0, 1.7e9], "requests 1 and 2 are 54 years apart: their clocks differ"),
        ([1.7e9, 0.0], "requests 1 and 2 are 54 years apart: their clocks differ"),
    ]:
        with pytest.raises(KvtoolError, match=message) as caught:
            fleet_requests(a_trace(arrivals))
        assert caught.value.hint


def test_a_row() -> None:
    plan = FleetPlan(fleet_requests(a_trace([0.0, 1.0, 2.0, 3.0])), EngineConfig(512, 10), MODEL, Slo(ttft=0.03))
    run = plan.serve(in_turn(), 2)
    search = plan.smallest(in_turn)
    row = plan.row("capacity", run, routing="in turn", search=search)
    assert (row.replicas, row.capacity, row.routing, row.sure) == (2, 9, "in turn", "predicted")
    assert (row.hit_blocks, row.references, row.hit_rate) == (4, 8, 0.5)
    assert row.imbalance == 1.0
    assert row.within_slo == 1.0
    assert search.shares == {1: 1.0}
    assert row.gpus == 2
    assert row.tpot_p99 is None


def test_an_objective_that_nobody_meets() -> None:
    plan = FleetPlan(fleet_requests(a_trace([0.0, 1.0])), EngineConfig(512), MODEL, Slo(ttft=1e-6))
    search = plan.smallest(in_turn)
    assert (search.replicas, search.most, search.attainable) == (None, 0, 0.0)
    assert plan.row("capacity", plan.serve(in_turn(), 1), search=search).gpus is None


@pytest.mark.parametrize("most", [5, 8])
@pytest.mark.parametrize(
    "slo", [Slo(ttft=0.1), Slo(ttft=0.2, tpot=0.009), Slo(tpot=0.012, share=0.99), Slo(ttft=0.1, share=0.999)]
)
def test_runs_that_are_given_up_find_the_same_fleet(slo: Slo, most: int) -> None:
    """Beside runs to the end."""
    requests = [
        FleetRequest(number, 0.004 * number, [], 0, 600 + 97 * (number % 11), 1 + number % 30) for number in range(150)
    ]
    plan = FleetPlan(requests, EngineConfig(16, 4000), MODEL, slo)
    whole = smallest_fleet(
        lambda count: fleet_figures(plan.serve(in_turn(), count), slo).within_slo or 0.0, slo.share, most=most
    )
    found = plan.smallest(in_turn, most=most)
    assert found.replicas == whole.replicas
    if found.shares:
        assert all(found.shares[count] >= share for count, share in whole.shares.items())
        assert found.best == whole.best
