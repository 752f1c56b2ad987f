"""The latency model: values worked out by hand, what must never get faster, and agreement with recorded vLLM runs."""

from __future__ import annotations

from dataclasses import fields, replace
from math import hypot
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.latency_validation import RUNS, WORKLOAD, DataSheet, Recorded, predict, read_measured
from kvtool.engine.clock import VirtualClock, WallClock
from kvtool.engine.config import DEFAULT_ACCELERATOR
from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.prediction.accelerators import ACCELERATORS, Accelerator, find_accelerator
from kvtool.engine.prediction.latency import LatencyModel, PrefillTimes
from kvtool.engine.request import Request
from kvtool.engine.step import EngineStep, Scheduled

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "llmservingsim_sharegpt"

# 576 weights in a layer (8 · 4 · (2 · 2 + 2 · 1) + 3 · 8 · 16), 256 in the head, 32 bytes of keys and values for a token.
SMALL = Geometry("small", 2, 8, 2, 1, 4, 16, 32, True)
LLAMA = find_geometry("llama-3.1-8b")
NEVER = 1e30
"""So fast that it takes no time."""


def exact(flops: float = NEVER, bandwidth: float = NEVER, **rest: float) -> LatencyModel:
    """Of the small geometry: all of the peak, and no overhead."""
    chosen = {"layer_overhead": 0.0, "step_overhead": 0.0, "link_latency": 0.0, "link_efficiency": 1.0, **rest}
    link = chosen.pop("link", 0.0)
    ways = int(chosen.pop("tensor_parallel", 1))
    accelerator = Accelerator("any", flops, bandwidth, 1 << 30, "nowhere", link, compute_efficiency=1.0)
    return LatencyModel(SMALL, accelerator, bandwidth_efficiency=1.0, tensor_parallel=ways, **chosen)


def test_cards_without_nvlink_meet_in_the_host() -> None:
    """What NVLink reaches is a part of the link; without it the host has a limit, under which slow links stay."""
    made = [Accelerator("any", 1.0, 1.0, 1, "nowhere", link) for link in (450e9, 64e9, 32e9, 8e9)]
    assert [each.collective_bandwidth(0.5) for each in made] == [225e9, 16e9, 16e9, 4e9]


def test_flops() -> None:
    """Two tokens after three: 2 · 2 · 576 · 2 in the layers, 2 · 256 in the head, 9 pairs of 4 · 2 · 2 · 4."""
    assert exact(flops=1.0).step_seconds([(3, 2)]) == pytest.approx(4608 + 512 + 576)


def test_bytes() -> None:
    """2 · 576 + 256 weights of two bytes, five tokens read and two written of 32, and 3 · 2 · 16 activations for two tokens."""
    assert exact(bandwidth=1.0).step_seconds([(3, 2)]) == pytest.approx(2304 + 512 + 224 + 384)


def test_requests_share_the_weights() -> None:
    both = exact(bandwidth=1.0).step_seconds([(3, 2), (9, 1)])
    assert both == pytest.approx(2304 + 512 + (224 + (10 + 1) * 32) + 3 * 192)
    assert exact(flops=1.0).step_seconds([(3, 2), (9, 1)]) == pytest.approx(3 * 2304 + 2 * 512 + (9 + 10) * 64)


def test_a_kernel_computes_while_it_moves() -> None:
    """Each by itself, then one after another; activations only move."""
    assert exact(flops=1.0, bandwidth=1.0).step_seconds([(3, 2)]) == pytest.approx(
        hypot(4608, 2304) + hypot(512, 512) + hypot(576, 224) + 384
    )
    assert exact(flops=3.0, bandwidth=4.0).product_seconds(90, 2) == pytest.approx(hypot(120, 45))


def test_efficiencies_and_overheads() -> None:
    """At half of the peak everything takes twice as long; each of the two layers 7, the step 100."""
    whole = exact(flops=1.0, bandwidth=1.0).step_seconds([(3, 2)])
    model = exact(flops=1.0, bandwidth=1.0)
    half = replace(model, accelerator=replace(model.accelerator, compute_efficiency=0.5), bandwidth_efficiency=0.5)
    assert half.step_seconds([(3, 2)]) == pytest.approx(2 * whole)
    assert exact(layer_overhead=7.0, step_overhead=100.0).step_seconds([(3, 2)]) == pytest.approx(114)


def test_no_work_takes_no_time() -> None:
    assert exact(step_overhead=100.0).step_seconds([]) == 0.0


def test_a_cache_of_another_type() -> None:
    quantized = replace(exact(bandwidth=1.0), kv_token_bytes=18.0)
    assert quantized.step_seconds([(3, 2)]) == pytest.approx(2304 + 512 + 7 * 18 + 384)


def test_a_last_layer_for_the_tokens_that_count() -> None:
    """As in the embedded engine: of the last layer, 8 · 4 · (2 + 2 · 1) = 128 weights for both tokens, 448 for one of them.

    It attends from one token to five, but reads the keys and values of all; one token less is activated in it.
    """
    cut = {"whole_last_layer": False}
    assert replace(exact(flops=1.0), **cut).step_seconds([(3, 2)]) == pytest.approx(
        2304 + 2 * 2 * 128 + 2 * 448 + 512 + 9 * 32 + 5 * 32
    )
    assert replace(exact(bandwidth=1.0), **cut).step_seconds([(3, 2)]) == pytest.approx(
        2304 + 512 + 224 + 3 * 16 * 2 * (2 + 1)
    )
    decode = [(9, 1), (20, 1)]
    both = exact(flops=3.0, bandwidth=4.0)
    assert replace(both, **cut).step_seconds(decode) == pytest.approx(both.step_seconds(decode))


def test_a_request_takes_something_in_each_layer() -> None:
    model = replace(exact(step_overhead=100.0), request_overhead=3.0)
    assert model.step_seconds([(3, 2)]) == pytest.approx(106)
    assert model.step_seconds([(3, 2), (9, 1)]) == pytest.approx(112)


def test_two_accelerators_halve_the_work_and_add_up_their_parts() -> None:
    """One K/V head cannot be halved; five sums of 2 · 8 numbers of two bytes, of which a ring of two sends each once."""
    assert exact(flops=1.0, tensor_parallel=2, link=NEVER).step_seconds([(3, 2)]) == pytest.approx(
        (4608 + 512 + 576) / 2
    )
    moved = exact(bandwidth=1.0, tensor_parallel=2, link=NEVER).step_seconds([(3, 2)])
    assert moved == pytest.approx((2304 + 512 + 384) / 2 + 224)
    assert exact(tensor_parallel=2, link=1.0).step_seconds([(3, 2)]) == pytest.approx(5 * 32)
    assert exact(tensor_parallel=2, link=1.0, link_efficiency=0.5).step_seconds([(3, 2)]) == pytest.approx(5 * 64)
    assert exact(tensor_parallel=2, link=1.0, link_latency=3.0).step_seconds([(3, 2)]) == pytest.approx(5 * 35)


def test_k_v_heads_are_divided_and_then_copied() -> None:
    eight = LatencyModel(LLAMA, find_accelerator("h100"), tensor_parallel=8)
    assert eight._kv_bytes() == LLAMA.kv_bytes_per_token() / 8
    assert replace(eight, tensor_parallel=32)._kv_bytes() == LLAMA.kv_bytes_per_token() / 8


def test_impossible_tensor_parallelism() -> None:
    for ways, link, message in [
        (0, 1.0, "must be at least 1"),
        (3, 1.0, "cannot be split over 3 accelerators"),
        (2, 0.0, "is unknown"),
    ]:
        with pytest.raises(EngineError, match=message):
            exact(tensor_parallel=ways, link=link)


def test_prefill_is_the_sum_of_its_chunks() -> None:
    model = LatencyModel(LLAMA, find_accelerator("l4"))
    assert model.prefill_seconds(5000, 100, 2048) == pytest.approx(
        model.step_seconds([(100, 2048)]) + model.step_seconds([(2148, 2048)]) + model.step_seconds([(4196, 804)])
    )
    assert model.prefill_seconds(5000, 5000, 2048) == 0.0


def test_matrix_products_as_measured() -> None:
    """A layer's four products, from LLMServingSim's kernel times of the server card; neither max nor sum comes this near."""
    for tokens, microseconds in [
        (1, 305.7),
        (16, 306.3),
        (64, 332.4),
        (128, 348.2),
        (256, 427.5),
        (512, 706.4),
        (1024, 1260.5),
        (2048, 2399.4),
    ]:
        model = LatencyModel(LLAMA, find_accelerator("rtx-pro-6000-se"))
        assert 1e6 * model.product_seconds(LLAMA.layer_parameters, tokens) == pytest.approx(microseconds, rel=0.07)


request_work = st.tuples(st.integers(0, 100_000), st.integers(1, 8192))
step_work = st.lists(request_work, min_size=1, max_size=20)
accelerators = st.sampled_from(list(ACCELERATORS.values()))
ways = st.sampled_from([1, 2, 4, 8])


@given(step_work, request_work, st.integers(0, 1000), st.integers(0, 1000), accelerators, ways)
def test_more_work_is_never_faster(
    work: list[tuple[int, int]],
    other: tuple[int, int],
    longer_before: int,
    more_new: int,
    accelerator: Accelerator,
    tensor_parallel: int,
) -> None:
    model = LatencyModel(LLAMA, accelerator, tensor_parallel=tensor_parallel)
    seconds = model.step_seconds(work)
    (before, new), *rest = work
    assert model.step_seconds([(before + longer_before, new), *rest]) >= seconds
    assert model.step_seconds([(before, new + more_new), *rest]) >= seconds
    assert model.step_seconds([*work, other]) > seconds


@given(st.integers(1, 32_768), st.data(), st.sampled_from([512, 2048, 8192]), accelerators)
def test_more_cached_is_never_slower(tokens: int, data: st.DataObject, budget: int, accelerator: Accelerator) -> None:
    """Hits are whole blocks, of 16 here. FlashAttention 2 attends for whole tiles of 64: where the last ends may cost one."""
    blocks = data.draw(st.integers(0, (tokens - 1) // 16))
    fewer = data.draw(st.integers(0, blocks))
    model = LatencyModel(LLAMA, accelerator)
    tile = 64 * tokens * 4.0 * LLAMA.num_layers * LLAMA.num_heads * LLAMA.head_dim
    slack = tile / (accelerator.flops * accelerator.compute_efficiency) if accelerator.flash_attention_2 else 0.0
    more, less = (model.prefill_seconds(tokens, 16 * each, budget) for each in (blocks, fewer))
    assert more <= less + slack


@given(step_work, accelerators, ways, st.floats(1, 10), st.floats(1, 10), st.floats(1, 10))
def test_a_faster_machine_is_never_slower(
    work: list[tuple[int, int]], accelerator: Accelerator, ways: int, flops: float, bandwidth: float, link: float
) -> None:
    model = LatencyModel(LLAMA, accelerator, tensor_parallel=ways)
    faster = replace(
        accelerator,
        flops=flops * accelerator.flops,
        bandwidth=bandwidth * accelerator.bandwidth,
        link=link * accelerator.link,
    )
    assert replace(model, accelerator=faster).step_seconds(work) <= model.step_seconds(work) * (1 + 1e-12)


@given(step_work, accelerators)
def test_nothing_beats_the_data_sheet(work: list[tuple[int, int]], accelerator: Accelerator) -> None:
    assert LatencyModel(LLAMA, accelerator).step_seconds(work) > DataSheet(LLAMA, accelerator).step_seconds(work)


def test_a_virtual_clock_moves_by_the_model() -> None:
    request = Request("r", 5, prompt_ids=np.arange(5, dtype=np.int32))
    model = exact(flops=1.0)
    clock = VirtualClock(model)
    clock.wait_until(10.0)
    clock.step_done(EngineStep(0, (Scheduled(request, 3, 2),)))
    assert clock.now() == 10.0 + model.step_seconds([(3, 2)])


def test_names_of_accelerators() -> None:
    for asked, name in [
        ("H100", "h100"),
        ("a100", "a100-80g"),
        ("NVIDIA A100-SXM4-80GB", "a100-80g"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("RTX PRO 6000", "rtx-pro-6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-se"),
        ("AMD Instinct MI300X", "mi300x"),
        ("L40S", "l40s"),
    ]:
        assert find_accelerator(asked) is ACCELERATORS[name]


def test_an_unknown_accelerator() -> None:
    for asked in ["", "nvidia", "h1000", "rtx", "l4 0"]:
        with pytest.raises(EngineError, match="unknown accelerator") as caught:
            find_accelerator(asked)
        assert caught.value.hint is not None
        assert "mi300x" in caught.value.hint


def test_the_table_is_plausible() -> None:
    """Every figure has its source, and none is off by a power of ten: between a L4 and a B200, and never starved of either."""
    assert DEFAULT_ACCELERATOR in ACCELERATORS
    assert len(ACCELERATORS) == 10
    for name, accelerator in ACCELERATORS.items():
        assert accelerator.name == name
        assert "data sheet" in accelerator.source or "white paper" in accelerator.source
        assert 120e12 <= accelerator.flops <= 2300e12
        assert 0.3e12 <= accelerator.bandwidth <= 8e12
        assert 100 < accelerator.flops / accelerator.bandwidth < 450
        assert 24 << 30 <= accelerator.memory <= 192 << 30
        assert 32e9 <= accelerator.link <= 900e9
        assert accelerator.flash_attention_2 == 0 or 50 < accelerator.flash_attention_2 < 200
        assert 0.5 < accelerator.compute_efficiency <= 1.0
    assert len({field.name for field in fields(Accelerator)}) == 8


@pytest.mark.parametrize(
    ("recorded", "bounds", "preemptions"),
    [
        # Errors were 0 % everywhere but for +1 % of the 90th percentile; what is not bounded here is in benchmarks/RESULTS.md.
        (RUNS[0], {"TTFT mean": 0.05, "TPOT mean": 0.04, "TPOT p90": 0.05, "makespan": 0.04}, (170, 215)),
        # Errors were -6 %, -2 %, -1 % and -2 %.
        (RUNS[1], {"TTFT mean": 0.10, "TPOT mean": 0.04, "TPOT p90": 0.04, "makespan": 0.04}, (0, 0)),
    ],
    ids=[recorded.accelerator for recorded in RUNS],
)
def test_recorded_runs_of_vllm(recorded: Recorded, bounds: dict[str, float], preemptions: tuple[int, int]) -> None:
    if not (SHARED / WORKLOAD).is_file():
        pytest.skip("the recorded runs of vLLM are not here")
    measured = read_measured(SHARED, recorded).metrics()
    found = predict(SHARED, recorded)
    predicted = found.times.metrics()
    errors = {name: predicted[name] / measured[name] - 1 for name in bounds}
    assert all(abs(errors[name]) < bound for name, bound in bounds.items()), errors
    # When a block is evicted is a matter of a few steps, where the cache is full.
    assert found.hits == pytest.approx(recorded.simulated_hits, rel=0.02 if preemptions[1] else 0.0)
    assert preemptions[0] <= found.preemptions <= preemptions[1]


def test_the_wall_clock_does_not_wait_for_the_past() -> None:
    clock = WallClock()
    before = clock.now()
    clock.wait_until(before - 1000.0)
    clock.step_done(EngineStep(0, ()))
    clock.wait_until(clock.now() + 0.001)
    assert clock.now() >= before + 0.001


@given(st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 3000)), max_size=20), st.sampled_from([1, 100, 512]))
def test_chunks_that_were_timed_before_take_as_long(asked: list[tuple[int, int]], budget: int) -> None:
    model = LatencyModel(LLAMA, find_accelerator("h100"))
    times = PrefillTimes(model, budget)
    for tokens, cached in asked:
        assert times.seconds(tokens, cached) == model.prefill_seconds(tokens, cached, budget)
