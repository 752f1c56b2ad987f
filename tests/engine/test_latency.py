"""The roofline and the shapes of models, against sums done by hand and published figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.clock import VirtualClock, WallClock
from kvtool.engine.errors import EngineError
from kvtool.engine.geometry import GEOMETRIES, Geometry, find_geometry
from kvtool.engine.latency import ACCELERATORS, Accelerator, LatencyModel, blocks_that_fit, find_accelerator
from kvtool.engine.request import Request
from kvtool.engine.step import Scheduled, Step

SIZING = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "vllm-0.33" / "sizing_vectors.json"

# 2 layers; attention 8·4·(2·2 + 2·1) = 192, MLP 3·8·10 = 240: 432 weights a layer. Head: 100·8 = 800.
SMALL = Geometry("small", 2, 8, 2, 1, 4, 10, 100, False, "nowhere")


def model(flops: float, bandwidth: float, overhead: float = 0.0) -> LatencyModel:
    accelerator = Accelerator("toy", flops, bandwidth, 1 << 30, "nowhere")
    return LatencyModel(SMALL, accelerator, compute_efficiency=0.5, bandwidth_efficiency=0.25, step_overhead=overhead)


def test_parameters_and_bytes_of_a_small_model() -> None:
    assert SMALL.layer_parameters == 432
    assert SMALL.parameters == 2 * 432 + 2 * 800
    assert SMALL.kv_bytes_per_token() == 2 * 2 * 1 * 4 * 2
    assert SMALL.kv_bytes_per_token(1) == 16


def test_compute_bound_step() -> None:
    """Request one: 3 tokens behind 5 known ones; request two: 1 token behind 2.

    FLOPs: 2·(864·4 tokens + 800·2 rows) + 4·2 layers·2 heads·4·pairs, pairs = (3·5 + 6) + (2 + 1) = 24.
    """
    flops = 2 * (864 * 4 + 800 * 2) + 4 * 2 * 2 * 4 * 24
    assert flops == 11_648
    assert model(1e3, 1e30).step_seconds([(5, 3), (2, 1)]) == pytest.approx(11_648 / (1e3 * 0.5))


def test_memory_bound_step() -> None:
    """All weights but the embedding table once, and the keys and values of 8 + 3 tokens."""
    moved = (864 + 800) * 2 + 11 * 32
    assert moved == 3_680
    assert model(1e30, 1e3, overhead=2.0).step_seconds([(5, 3), (2, 1)]) == pytest.approx(3_680 / (1e3 * 0.25) + 2.0)


def test_an_empty_step_takes_no_time() -> None:
    assert model(1.0, 1.0, overhead=5.0).step_seconds([]) == 0.0


def test_prefill_in_chunks_is_the_sum_of_its_steps() -> None:
    latency = model(1e6, 1e6, overhead=0.5)
    steps = [(4, 3), (7, 3), (10, 1)]
    assert latency.prefill_seconds(11, 4, 3) == pytest.approx(sum(latency.step_seconds([step]) for step in steps))
    assert latency.prefill_seconds(11, 0, 100) == latency.step_seconds([(0, 11)])


def test_llama_8b_on_an_h100() -> None:
    """A prefill of 2,048 tokens is bound by compute: some 32.9 TFLOP at 60 % of 989.4 TFLOP/s; a decode by reading 15 GB."""
    latency = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
    layers = 32 * (4096 * 128 * (64 + 16) + 3 * 4096 * 14336)
    head = 128_256 * 4096
    pairs = 2048 * 2049 // 2
    flops = 2 * (layers * 2048 + head) + 4 * 32 * 32 * 128 * pairs
    assert latency.prefill_seconds(2048, 0, 8192) == pytest.approx(flops / (989.4e12 * 0.6) + 2e-3)
    assert 0.049 < latency.prefill_seconds(2048, 0, 8192) < 0.054
    moved = (layers + head) * 2 + 2048 * 131_072
    assert latency.step_seconds([(2047, 1)]) == pytest.approx(moved / (3.35e12 * 0.8) + 2e-3)


@given(st.integers(1, 400), st.integers(0, 400))
def test_what_is_cached_costs_no_time_within_a_step(prompt: int, cached: int) -> None:
    latency = LatencyModel(find_geometry("llama-3.2-1b"), find_accelerator("l4"))
    cached = min(cached, prompt - 1)
    assert 0 < latency.prefill_seconds(prompt, cached, 400) <= latency.prefill_seconds(prompt, 0, 400)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("llama-3.1-8b", 8.03e9),
        ("llama-3.3-70b", 70.6e9),
        ("qwen2.5-7b", 7.62e9),
        ("mistral-7b", 7.25e9),
        ("llama-3.2-1b", 1.236e9),
        ("llama-3.2-3b", 3.21e9),
        ("qwen3-8b", 8.19e9),
    ],
)
def test_parameter_counts_are_the_published_ones(name: str, published: float) -> None:
    assert find_geometry(name).parameters == pytest.approx(published, rel=0.002)


def test_every_preset_is_checked_and_whole() -> None:
    assert len(GEOMETRIES) == 7
    for geometry in GEOMETRIES.values():
        assert geometry.num_heads % geometry.num_kv_heads == 0
        assert find_geometry(geometry.source) is geometry
        assert find_geometry(geometry.name.upper()) is geometry
    assert all(accelerator.source for accelerator in ACCELERATORS.values())


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b"),
        ("llama-3.3-70b", "llama-3.3-70b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("mistralai/Mistral-7B-v0.3", "mistral-7b"),
    ],
)
def test_models_are_found_by_their_ids(name: str, preset: str) -> None:
    assert find_geometry(name).name == preset


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(EngineError) as model_error:
        find_geometry("gpt-9")
    assert model_error.value.hint is not None
    assert "llama-3.1-8b" in model_error.value.hint
    with pytest.raises(EngineError) as accelerator_error:
        find_accelerator("abacus")
    assert accelerator_error.value.hint is not None
    assert "h100" in accelerator_error.value.hint
    assert find_accelerator("H100").name == "h100"


@pytest.mark.skipif(not SIZING.exists(), reason="no recorded sizes beside this checkout")
def test_bytes_per_block_are_those_of_vllm() -> None:
    dtypes = {"torch.bfloat16": 2, "torch.float16": 2, "torch.float32": 4, "torch.uint8": 1}
    compared = 0
    for row in json.loads(SIZING.read_text(encoding="utf-8"))["rows"]:
        dtype_bytes = dtypes[row["dtype"]]
        preset = GEOMETRIES.get(row["name"].split()[0])
        if preset is not None and preset.num_kv_heads == row["kv_heads_per_rank"]:
            assert preset.kv_bytes_per_token(dtype_bytes) * row["block_size"] == row["bytes_per_block"]
            compared += 1
        shape = Geometry("row", row["layers"], 1, 1, row["kv_heads_per_rank"], row["head_size"], 1, 1, True, "nowhere")
        per_block = shape.kv_bytes_per_token(dtype_bytes) * row["block_size"]
        assert per_block == row["bytes_per_block"]
        assert row["available_bytes"] // per_block == row["num_gpu_blocks"]
    assert compared == 2


def test_blocks_beside_the_weights() -> None:
    geometry = find_geometry("llama-3.1-8b")
    memory = 80 * (1 << 30)
    blocks = blocks_that_fit(geometry, memory, 16)
    assert blocks == int(memory * 0.92 - geometry.parameters * 2) // 2_097_152
    assert blocks_that_fit(geometry, memory, 16, utilization=0.5) < blocks
    # Exactly one block more for its bytes.
    assert blocks_that_fit(geometry, geometry.parameters * 2 + 7 * 2_097_152, 16, utilization=1.0) == 7
    assert blocks_that_fit(geometry, geometry.parameters * 2 + 7 * 2_097_152 - 1, 16, utilization=1.0) == 6
    with pytest.raises(EngineError, match="hold no KV cache"):
        blocks_that_fit(geometry, 16 * (1 << 30), 16)


def test_the_virtual_clock_goes_by_the_model() -> None:
    latency = model(1e3, 1e30, overhead=1.0)
    clock = VirtualClock(latency)
    request = Request("r", 8, prompt_ids=np.zeros(8, np.int32))
    assert clock.now() == 0.0
    clock.step_done(Step(0, (Scheduled(request, 5, 3),)))
    took = latency.step_seconds([(5, 3)])
    assert clock.now() == took
    clock.wait_until(took - 1.0)  # long past
    assert clock.now() == took
    clock.wait_until(took + 4.0)
    assert clock.now() == took + 4.0


def test_the_wall_clock_does_not_wait_for_the_past() -> None:
    clock = WallClock()
    before = clock.now()
    clock.wait_until(before - 1000.0)
    clock.step_done(Step(0, ()))
    clock.wait_until(clock.now() + 0.001)
    assert clock.now() >= before + 0.001
