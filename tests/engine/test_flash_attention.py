"""FlashAttention 2's times: as measured on two cards, values worked out by hand, and what must never get faster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.accelerators import ACCELERATORS, find_accelerator
from kvtool.engine.prediction.flash_attention import FlashAttention2
from kvtool.engine.prediction.latency import LatencyModel

LLAMA = find_geometry("llama-3.1-8b")
CARDS = [name for name, accelerator in ACCELERATORS.items() if accelerator.flash_attention_2]
NEVER = 1e30


def of(name: str) -> FlashAttention2:
    """A layer of Llama-3.1-8B."""
    accelerator = find_accelerator(name)
    return FlashAttention2(
        accelerator.bandwidth,
        1 / (accelerator.flops * accelerator.compute_efficiency),
        pair_flops=4.0 * LLAMA.num_heads * LLAMA.head_dim,
        token_bytes=LLAMA.kv_bytes_per_token() / LLAMA.num_layers,
        kv_heads=LLAMA.num_kv_heads,
        multiprocessors=accelerator.flash_attention_2,
    )


def exact(*, bandwidth: float = NEVER, flops: float = NEVER, multiprocessors: int = 10**6) -> FlashAttention2:
    """Two K/V heads and three query heads' worth of arithmetic; 33 requests together use the bandwidth."""
    return FlashAttention2(bandwidth, 1 / flops, 3.0, 4.0, kv_heads=2, multiprocessors=multiprocessors)


def test_decoding_as_measured() -> None:
    """LLMServingSim's kernel times."""
    for name, requests, tokens, microseconds in [
        ("rtx-pro-6000-se", 32, 512, 63.2),
        ("rtx-pro-6000-se", 32, 1024, 119.3),
        ("rtx-pro-6000-se", 64, 1024, 221.2),
        ("rtx-pro-6000-se", 128, 512, 229.1),
        ("rtx-pro-6000-se", 128, 1024, 404.9),
        ("rtx-pro-6000-se", 128, 4096, 1461.1),
        ("rtx-pro-6000-se", 256, 16384, 11239.0),
        ("rtx-4090", 16, 1024, 99.3),
        ("rtx-4090", 32, 512, 107.1),
        ("rtx-4090", 32, 1024, 181.4),
        ("rtx-4090", 64, 1024, 333.3),
        ("rtx-4090", 128, 1024, 606.2),
        ("rtx-4090", 256, 16384, 18004.0),
    ]:
        assert 1e6 * of(name).layer_seconds([(tokens - 1, 1)] * requests) == pytest.approx(microseconds, rel=0.10)


def test_decoding_beside_a_chunk_as_measured() -> None:
    """One call for all; without the chunk 32 to 128 requests of 1,024 tokens take 119 to 405 µs on the server card."""
    for name, requests, tokens, chunk, microseconds in [
        ("rtx-pro-6000-se", 32, 1024, 256, 169.0),
        ("rtx-pro-6000-se", 64, 1024, 256, 325.0),
        ("rtx-pro-6000-se", 128, 1024, 256, 699.0),
        ("rtx-pro-6000-se", 128, 512, 1024, 537.0),
        ("rtx-4090", 32, 1024, 256, 332.0),
        ("rtx-4090", 64, 1024, 256, 662.0),
        ("rtx-4090", 128, 512, 256, 832.0),
        ("rtx-4090", 64, 512, 1024, 527.0),
    ]:
        work = [(tokens - 1, 1)] * requests
        assert 1e6 * of(name).layer_seconds([*work, (0, chunk)]) == pytest.approx(microseconds, rel=0.30)


@pytest.mark.parametrize(
    ("name", "tokens", "microseconds"), [("rtx-pro-6000-se", 16384, 369.0), ("rtx-4090", 16384, 520.0)]
)
def test_one_block_of_threads_alone_as_measured(name: str, tokens: int, microseconds: float) -> None:
    """A chunk of 16 tokens: each head has one block, which reads all that is before it."""
    assert 1e6 * of(name).layer_seconds([(tokens, 16)]) == pytest.approx(microseconds, rel=0.15)


def test_a_step_that_decodes_reads() -> None:
    """Six tokens and eleven (one is written beside those read) at 0.95 B/s, and 50 µs more."""
    reading = 4 * (4 + 2 + 9 + 2) / 0.95
    assert exact(bandwidth=1.0).layer_seconds([(4, 1), (9, 1)]) == pytest.approx(reading + 50e-6, rel=1e-9)


def test_a_chunk_has_each_token_that_is_decoded_computed_as_a_tile() -> None:
    """64 · (4 + 1) pairs for the token, 64 · (64 + 65) for two tiles of a chunk of 65, at three operations each."""
    chunk = 64 * (64 + 65)
    assert exact(flops=1.0).layer_seconds([(0, 65)]) == pytest.approx(3 * chunk)
    assert exact(flops=1.0).layer_seconds([(0, 65), (4, 1)]) == pytest.approx(3 * (chunk + 64 * 5))
    assert exact(flops=1.0).layer_seconds([(4, 1)]) == pytest.approx(0.0, abs=1e-20)


def test_the_longest_request_ends_last() -> None:
    """At 1 B/s a block needs 65 · 2 s for a token of its head; 33 requests of two heads use the bandwidth."""
    alike, longer = [(99, 1)] * 33, [(99, 1)] * 32 + [(199, 1)]
    filled = exact(bandwidth=1.0, multiprocessors=41)  # 66 blocks for 65.6
    cut = exact(bandwidth=1.0, multiprocessors=42)
    assert filled.layer_seconds(alike) == cut.layer_seconds(alike)
    assert filled.layer_seconds(longer) - cut.layer_seconds(longer) == pytest.approx(130 * 100 * (1 - 1 / 33))


def test_the_model_takes_it_where_vllm_does() -> None:
    """And cuts it for tensor parallelism."""
    assert LatencyModel(LLAMA, find_accelerator("h100"))._flash is None
    assert LatencyModel(LLAMA, find_accelerator("a100"))._flash == of("a100")
    half = LatencyModel(LLAMA, find_accelerator("l4"), tensor_parallel=2)._flash
    assert half is not None
    assert (half.kv_heads, half.token_bytes, half.pair_flops) == (4, 2048.0, 2.0 * 32 * 128)
    copied = LatencyModel(LLAMA, find_accelerator("l4"), tensor_parallel=16)._flash
    assert copied is not None
    assert (copied.kv_heads, copied.token_bytes) == (1, 512.0)


decoding = st.tuples(st.integers(0, 100_000), st.just(1))
step_work = st.lists(decoding | st.tuples(st.integers(0, 100_000), st.integers(1, 4096)), min_size=1, max_size=60)


@given(step_work | st.lists(decoding, min_size=10, max_size=60), decoding, st.data(), st.sampled_from(CARDS))
def test_more_attention_is_never_faster(
    work: list[tuple[int, int]], other: tuple[int, int], data: st.DataObject, name: str
) -> None:
    kernel = of(name)
    seconds = kernel.layer_seconds(work)
    index = data.draw(st.integers(0, len(work) - 1))
    before, new = work[index]
    for changed in ((before + data.draw(st.integers(1, 5000)), new), (before, new + data.draw(st.integers(1, 200)))):
        assert kernel.layer_seconds([*work[:index], changed, *work[index + 1 :]]) >= seconds
    assert kernel.layer_seconds([*work, other]) > seconds
