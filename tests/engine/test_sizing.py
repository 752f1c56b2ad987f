"""vLLM's arithmetic of blocks, against numbers that vLLM itself gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.capacity import PlannedPool
from kvtool.engine.groups.model_plan import ServeOptions, plan_model
from kvtool.engine.kv_dtype import KV_DTYPES, find_kv_dtype
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.model.configs.find_served import find_served
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.prediction.sizing import (
    Pool,
    available_memory,
    block_bytes,
    blocks_that_fit,
    bytes_per_block,
    estimated_activations,
    kv_heads_per_rank,
    size_cache,
    weight_bytes,
)

GIB = 1 << 30
VECTORS = Path(__file__).resolve().parents[3] / "shared/oracle/vllm-0.33/sizing_vectors.json"
DTYPES = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.float32": "fp32", "torch.uint8": "fp8_e4m3"}
LLAMA = find_geometry("llama-3.1-8b")


def vectors() -> list[dict[str, Any]]:
    return json.loads(VECTORS.read_text())["rows"] if VECTORS.exists() else []


@pytest.mark.skipif(not VECTORS.exists(), reason="the recorded vectors are not here")
def test_every_recorded_row_is_there() -> None:
    assert len(vectors()) == 8
    assert {row["dtype"] for row in vectors()} == set(DTYPES)


def test_recorded_by_vllm() -> None:
    for row in vectors():
        dtype = find_kv_dtype(DTYPES[row["dtype"]])
        shape = (row["kv_heads_per_rank"], row["head_size"], row["block_size"], dtype)
        assert bytes_per_block(1, *shape) == row["page_bytes_per_layer"]
        assert bytes_per_block(row["layers"], *shape) == row["bytes_per_block"]
        pool = Pool.of(row["available_bytes"], row["bytes_per_block"], row["block_size"])
        assert pool.num_blocks == row["num_gpu_blocks"]
        assert pool.usable_blocks == row["usable_blocks"]
        assert pool.tokens == row["logged_kv_tokens"]
        assert round(pool.max_concurrency(row["max_model_len"]), 4) == row["max_concurrency"]


def test_forty_gib_beside_llama() -> None:
    """The whole way from a model's geometry, with memory such that exactly 40 GiB are left."""
    for tensor_parallel, dtype, blocks in [(1, "auto", 20_480), (1, "fp8", 40_960), (2, "bf16", 40_960)]:
        weights = weight_bytes(LLAMA, tensor_parallel)
        sizing = size_cache(
            LLAMA,
            40 * GIB + weights + 3,
            utilization=1.0,
            tensor_parallel=tensor_parallel,
            kv_cache_dtype=dtype,
            activations=1,
            graphs=2,
        )
        assert sizing.available == 40 * GIB
        assert sizing.pool.num_blocks == blocks


def test_memory_is_rounded_up_as_vllm_does() -> None:
    assert available_memory(1001, 0.92, 100, activations=10, graphs=1) == 921 - 111
    assert available_memory(1000, 0.92, 1000) == -80


def test_estimates_are_near_a_measured_server() -> None:
    """vLLM 0.19, which set nothing aside for graphs, on an RTX 4090: utilization 0.9, 2,048 tokens and 256 requests a step."""
    sizing = size_cache(LLAMA, 25_250_627_584, utilization=0.9, max_num_batched_tokens=2048, max_num_seqs=256, graphs=0)
    assert sizing.weights == 8_030_261_248 * 2
    assert sizing.pool.num_blocks == pytest.approx(2588, rel=0.01)


def test_activations_grow_with_what_a_step_may_hold() -> None:
    small, tokens, requests = (
        estimated_activations(LLAMA, max_num_batched_tokens=tokens, max_num_seqs=requests)
        for tokens, requests in ((2048, 16), (65_536, 16), (2048, 512))
    )
    assert small < tokens
    assert small < requests
    assert estimated_activations(LLAMA, 8, max_num_batched_tokens=65_536) < tokens


def test_bytes_of_a_models_block() -> None:
    """Llama 3.1: 32 layers, 8 K/V heads of 128; int8 adds a scale of 4 bytes to each of the 128."""
    assert block_bytes(LLAMA, 16) == 16 * 32 * 8 * 2 * 128 * 2
    assert block_bytes(LLAMA, 16, "int8") == 16 * 32 * 8 * 2 * (128 + 4)
    assert block_bytes(LLAMA, 32, "fp8", tensor_parallel=4) == 32 * 32 * 2 * 2 * 128


def test_capacity_follows_the_dtype() -> None:
    for dtype, ratio in [("fp16", 1.0), ("fp8_e5m2", 2.0), ("int8", 128 * 2 / (128 + 4)), ("fp32", 0.5)]:
        native, other = (size_cache(LLAMA, 80 * GIB, kv_cache_dtype=name) for name in ("auto", dtype))
        assert native.available == other.available
        assert other.pool.num_blocks == int(native.available / (native.pool.bytes_per_block / ratio))


@given(
    available=st.integers(-GIB, 100 * GIB),
    block_size=st.sampled_from([1, 16, 128]),
    heads=st.integers(1, 16),
    dtype=st.sampled_from(sorted(KV_DTYPES)),
    length=st.integers(1, 200_000),
)
def test_a_pool_holds_what_it_says(available: int, block_size: int, heads: int, dtype: str, length: int) -> None:
    per_block = bytes_per_block(7, heads, 64, block_size, KV_DTYPES[dtype])
    pool = Pool.of(available, per_block, block_size)
    assert pool.num_blocks * per_block <= max(available, 0) < (pool.num_blocks + 1) * per_block
    assert pool.holds(length) == (length <= pool.longest_request)
    assert pool.longest_request == max(pool.tokens - block_size, 0)


def test_kv_heads_of_a_rank() -> None:
    for tensor_parallel, heads in [(1, 8), (2, 4), (8, 1), (16, 1), (32, 1)]:
        assert kv_heads_per_rank(LLAMA, tensor_parallel) == heads


@pytest.mark.parametrize("tensor_parallel", [3, 64])
def test_a_model_that_cannot_be_cut(tensor_parallel: int) -> None:
    with pytest.raises(EngineError, match="32 attention heads and 8 K/V heads"):
        kv_heads_per_rank(LLAMA, tensor_parallel)
    with pytest.raises(EngineError, match="at least 1, not 0"):
        size_cache(LLAMA, 80 * GIB, tensor_parallel=0)


def test_weights_of_ranks_add_up() -> None:
    """All matrices are somewhere; norms, and K/V projections beyond the number of heads, are everywhere."""
    one, two, sixteen = (weight_bytes(LLAMA, tensor_parallel) for tensor_parallel in (1, 2, 16))
    assert one == LLAMA.parameters * 2
    norms = LLAMA.vector_parameters * 2
    assert two * 2 - one == norms
    copied = 32 * 2 * 4096 * 128 * 8 * 2
    assert 16 * sixteen - one == 15 * norms + copied


def test_no_room_for_the_weights() -> None:
    with pytest.raises(EngineError, match=r"no KV cache fits: 15\.0 GiB .* of 16\.0 GiB \(14\.7 GiB usable\)"):
        blocks_that_fit(LLAMA, 16 * GIB, 16)


def test_no_room_for_one_request() -> None:
    """The null block holds nothing: as many blocks as the request needs are one too few."""
    blocks = blocks_that_fit(LLAMA, 24 * GIB, 16)
    longest = (blocks - 1) * 16
    assert blocks_that_fit(LLAMA, 24 * GIB, 16, max_model_len=longest) == blocks
    with pytest.raises(EngineError, match=f"no request of {longest + 1:,} tokens") as caught:
        blocks_that_fit(LLAMA, 24 * GIB, 16, max_model_len=longest + 1)
    assert caught.value.hint is not None
    assert f"{longest:,}" in caught.value.hint
    assert blocks_that_fit(LLAMA, 24 * GIB, 16, max_model_len=longest + 1, kv_cache_dtype="fp8") > blocks


def test_impossible_settings() -> None:
    for change, message in [
        ({"utilization": 0.0}, r"in \(0, 1\], not 0.0"),
        ({"utilization": 1.5}, r"in \(0, 1\], not 1.5"),
        ({"block_size": 0}, "at least 1, not 0"),
        ({"kv_cache_dtype": "int4"}, "unknown KV cache dtype `int4`"),
    ]:
        with pytest.raises(EngineError, match=message):
            size_cache(LLAMA, 80 * GIB, **change)


def test_vllms_names_of_dtypes() -> None:
    for name, ours in (("fp8", "fp8_e4m3"), ("bfloat16", "bf16"), ("int8_per_token_head", "int8"), ("auto", "fp32")):
        assert find_kv_dtype(name, "float32").name == ours


def test_one_kv_head_on_every_rank() -> None:
    single = Geometry("one", 2, 64, 8, 1, 8, 128, 100, True)
    sizes = {size_cache(single, GIB, tensor_parallel=parts).pool.bytes_per_block for parts in (1, 2, 8)}
    assert len(sizes) == 1


def test_a_plan_says_what_a_block_takes_and_how_long_a_request_may_be() -> None:
    served = find_served("gpt-oss-20b")
    plan = plan_model(served, ServeOptions(max_num_batched_tokens=2048, concurrent_batches=2)).plan
    blocks = blocks_that_fit(served.geometry, 24 * GIB, 16, plan=plan)
    sizing = size_cache(served.geometry, 24 * GIB, plan=plan)
    assert blocks == sizing.available // plan.bytes_per_block
    longest = PlannedPool(plan, blocks).longest_request(10**6)
    assert blocks_that_fit(served.geometry, 24 * GIB, 16, plan=plan, max_model_len=longest) == blocks
    with pytest.raises(EngineError, match=f"holds no request of {longest + 1:,} tokens") as caught:
        blocks_that_fit(served.geometry, 24 * GIB, 16, plan=plan, max_model_len=longest + 1)
    assert f"at most {longest:,} tokens fit" in str(caught.value.hint)


def test_what_is_missing_would_do() -> None:
    short = size_cache(LLAMA, 16 * GIB)
    assert not short.fits
    with pytest.raises(EngineError, match=f"needs {short.lacking / GIB:.1f} GiB more"):
        short.check()
    enough = size_cache(LLAMA, 16 * GIB + -(-100 * short.lacking // 90), utilization=0.92)
    assert enough.fits
    assert size_cache(LLAMA, 80 * GIB).lacking == 0
