"""Runs of decode steps in closed form, beside the sum of the steps."""

from __future__ import annotations

from dataclasses import replace
from math import hypot

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.accelerators import ACCELERATORS
from kvtool.engine.prediction.decode_run import DecodeRun
from kvtool.engine.prediction.latency import LatencyModel

models = st.builds(
    LatencyModel,
    st.just(find_geometry("llama-3.1-8b")),
    st.sampled_from(list(ACCELERATORS.values())),
    tensor_parallel=st.sampled_from([1, 2, 8]),
    request_overhead=st.sampled_from([0.0, 3e-6]),
    whole_last_layer=st.booleans(),
)
contexts = st.lists(st.integers(1, 100_000), min_size=1, max_size=60)


def longest(model: LatencyModel, contexts: list[int]) -> list[int]:
    return sorted(contexts, reverse=True)[: model.longest_decodes]


def bound(model: LatencyModel, contexts: list[int], steps: int) -> float:
    """What a line leaves out of a hypotenuse, by the docstring of `decode_run`."""
    token = hypot(model._pair_seconds, model._kv_seconds)
    return model.geometry.num_layers * steps * token * sum(1 / (8 * (context + 1)) for context in contexts)


@given(models, contexts, st.integers(1, 60))
def test_a_run_takes_as_long_as_its_steps(model: LatencyModel, contexts: list[int], steps: int) -> None:
    one_by_one = sum(model.step_seconds([(each + step, 1) for each in contexts]) for step in range(steps))
    run = model.decode_run(len(contexts), sum(contexts), longest(model, contexts)).seconds(steps)
    assert run == pytest.approx(one_by_one, rel=1e-7, abs=1e-12)
    assert abs(run - one_by_one) <= bound(model, contexts, steps) + 1e-11 * one_by_one


@given(models, contexts, st.lists(st.tuples(st.integers(0, 100_000), st.integers(1, 8192)), min_size=1, max_size=4))
def test_prefills_beside_decodes(model: LatencyModel, contexts: list[int], chunks: list[tuple[int, int]]) -> None:
    mixed = model.mixed_seconds(chunks, len(contexts), sum(contexts), longest(model, contexts))
    whole = model.step_seconds([*((each, 1) for each in contexts), *chunks])
    assert mixed == pytest.approx(whole, rel=1e-7)


@given(
    st.floats(1e-4, 10),
    st.sampled_from([0.0, 1e-9, 1e-4, 0.3]),
    st.sampled_from([0.0, 1e-6, 3.0]),
    st.floats(1, 1e5),
    st.floats(-1, 200),
    st.integers(1, 500),
)
def test_steps_that_have_begun(first: float, growth: float, bend: float, at: float, moment: float, most: int) -> None:
    run = DecodeRun(first, growth, bend, at)
    expected = sum(run.seconds(step) < moment for step in range(most))
    assert run.begun_before(moment, most) == expected


@given(st.floats(1, 1e4), st.floats(0, 10), st.integers(1, 300))
def test_steps_that_grow_by_less_and_less(at: float, bend: float, steps: int) -> None:
    one_by_one = sum(1 + bend * (1 / at - 1 / (at + step)) for step in range(steps))
    assert DecodeRun(1.0, 0.0, bend, at).seconds(steps) == pytest.approx(one_by_one, rel=1e-11)


def test_without_attention() -> None:
    """An accelerator so fast that no token more takes any time."""
    model = find_geometry("llama-3.1-8b")
    fast = replace(ACCELERATORS["h100"], flops=float("inf"), bandwidth=float("inf"))
    assert LatencyModel(model, fast, layer_overhead=0.0).decode_run(3, 100).seconds(4) == pytest.approx(4 * 0.05e-3)
