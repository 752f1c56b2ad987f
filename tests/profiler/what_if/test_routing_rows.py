"""Rows of routers: what they are sorted by, what bounds them, and what is said of rules that had no say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.accounting.policies.optimum import optimal_hits
from kvtool.config.options.routing_options import Routed
from kvtool.engine.config import EngineConfig
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.errors import KvtoolError
from kvtool.profiler.what_if.fleet_rows import FleetPlan
from kvtool.profiler.what_if.routing_rows import FleetOptions, RoutingSweep
from kvtool.report.views.plans.what_if_answers import routing_answer
from kvtool.results.documents.what_if import SweepRow
from kvtool.text.terminal.progress import Progress
from kvtool.workload.tasks.task_options import TaskOptions

MODEL = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
ALONE = TaskOptions(1)
ALL = "round-robin,random,least-loaded,first-block-hash,longest-prefix,sglang,llm-d,dynamo,vllm-stack-kvaware,least-ttft,oracle"


def a_plan(requests: Sequence[FleetRequest], blocks: int | None = 65) -> FleetPlan:
    """Blocks of 16 tokens; one of the blocks is vLLM's null block."""
    return FleetPlan(list(requests), EngineConfig(block_size=16, num_blocks=blocks), MODEL)


def a_request(
    number: int, tree: int, blocks: int = 20, *, arrival: float = 0.0, own: int = 5, session: int = -1
) -> FleetRequest:
    names = [tree * 1000 + place for place in range(blocks - own)] + [
        100_000 + number * 1000 + place for place in range(own)
    ]
    return FleetRequest(number, arrival, names, blocks - 1, blocks * 16, 4, session)


def rows_of(plan: FleetPlan, routing: str, replicas: int = 3, seed: int = 0) -> tuple[list[SweepRow], list[str]]:
    sweep = RoutingSweep(plan, FleetOptions.of("routing", Routed(routing=routing, replicas=str(replicas))), seed=seed)
    return sweep.rows(ALONE, Progress(None), repr), sweep.notes


REQUESTS = st.lists(st.tuples(st.floats(0, 0.05), st.integers(0, 4), st.integers(6, 30)), min_size=1, max_size=40)


@settings(deadline=None, max_examples=15)
@given(REQUESTS, st.sampled_from([40, 65, 120, None]), st.integers(1, 4))
def test_nobody_hits_more_than_the_oracle(
    made: list[tuple[float, int, int]], blocks: int | None, replicas: int
) -> None:
    moments = np.cumsum([gap for gap, _, _ in made])
    requests = [
        a_request(number, tree, count, arrival=float(moments[number])) for number, (_, tree, count) in enumerate(made)
    ]
    rows, _ = rows_of(a_plan(requests, blocks), ALL, replicas)
    assert rows[-1].routing == "oracle"
    assert rows[-1].sure == "bound"
    assert all(row.hit_blocks <= rows[-1].hit_blocks for row in rows)


def test_the_bound_knows_what_only_is_stored() -> None:
    """A block that the next request stores anew, and does not look up, need not be kept for it."""
    assert optimal_hits([[1, 2], [3, 4], [1, 2]], 2) == 2
    assert optimal_hits([[1, 2], [3, 4], [1, 2]], 2, [2, 2, 1]) == 1
    assert optimal_hits([[1], [2], [1], [2]], 1) == 1
    assert optimal_hits([[1], [2], [1], [2]], 1, [1, 1, 0, 1]) == 1  # 2 is kept, as 1 wins nothing
    assert optimal_hits([[1], [1], [1]], None, [1, 1, 1]) == 2


def test_rows_are_by_waiting_and_the_first_is_the_answer() -> None:
    requests = [a_request(number, number % 5, arrival=0.004 * number) for number in range(80)]
    rows, notes = rows_of(a_plan(requests), "round-robin,least-ttft,sglang,oracle")
    waits = [row.ttft_p99 for row in rows if row.ttft_p99 is not None]
    assert waits == sorted(waits)
    assert rows[-1].sure == "bound"
    said = routing_answer(rows)
    assert said.startswith(f"{rows[0].routing} has the shortest wait: TTFT p99 ")
    assert "round-robin" in said
    assert notes[0].startswith("times of llama-3.1-8b on h100")


def test_a_rule_without_a_say_is_told() -> None:
    """Long prompts that share little: no holder has all but 2,000 tokens of one. Short ones: any holder will do."""
    long = [a_request(number, 0, 300, own=290, arrival=10.0 * number) for number in range(12)]
    _, notes = rows_of(a_plan(long, None), "vllm-stack-kvaware")
    assert any("never chose by holder, so its rule had no effect" in note for note in notes)
    short = [a_request(number, 0, arrival=10.0 * number) for number in range(12)]
    rows, notes = rows_of(a_plan(short, None), "vllm-stack-kvaware")
    assert rows[0].imbalance == pytest.approx(3.0)
    assert any("sent 100.0% of the requests to one replica" in note for note in notes)
    _, notes = rows_of(a_plan(short, None), "round-robin,least-loaded,vllm-stack-kvaware", 1)
    assert len(notes) == 1


def test_a_ring_without_sessions_is_refused() -> None:
    requests = [a_request(number, 0, arrival=float(number)) for number in range(6)]
    with pytest.raises(KvtoolError, match="session-ring: session-ring needs sessions or tenants"):
        rows_of(a_plan(requests), "round-robin,session-ring")
    some = [a_request(number, 0, arrival=float(number), session=number % 2 - 1) for number in range(6)]
    _, notes = rows_of(a_plan(some), "session-ring")
    assert any(note.startswith("3 of 6 requests have no session and no tenant") for note in notes)
    usual = RoutingSweep(a_plan(some), FleetOptions("routing"), seed=0)
    assert "session-ring" in [row.routing for row in usual.rows(ALONE, Progress(None), repr)]


def test_a_seed_decides_all_that_is_random() -> None:
    requests = [a_request(number, number % 5, arrival=0.004 * number) for number in range(60)]
    names = "random,dynamo:temperature=1,llm-d"
    first, again, other = (rows_of(a_plan(requests), names, seed=seed)[0] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_replicas_answer() -> None:
    requests = [a_request(number, number % 5, arrival=0.001 * number) for number in range(60)]
    sweep = RoutingSweep(a_plan(requests, None), FleetOptions.of("replicas", Routed(replicas="1,2,16,32")), seed=0)
    rows = sweep.rows(ALONE, Progress(None), repr)
    assert [row.replicas for row in rows] == [1, 1, 2, 2, 16, 16, 32, 32]
    said = routing_answer(rows)
    assert "1 replica with" in said
    assert routing_answer([row for row in rows if row.sure == "bound"]) == ""


def test_two_processes_find_the_same() -> None:
    requests = [a_request(number, number % 5, arrival=0.004 * number) for number in range(60)]
    asked = FleetOptions.of("routing", Routed(routing=ALL, replicas="3"))
    alone, both = (RoutingSweep(a_plan(requests), asked, seed=1) for _ in range(2))
    assert alone.rows(ALONE, Progress(None), repr) == both.rows(TaskOptions(2), Progress(None), repr)
    assert alone.notes == both.notes
