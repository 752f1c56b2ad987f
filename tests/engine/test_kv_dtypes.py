"""Keys and values in fewer bits: what is lost on the way, against float64, and what is stored."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.engine_error import EngineError
from kvtool.engine.kv_dtype import KV_CACHE_DTYPES, KV_DTYPES, find_kv_dtype
from kvtool.engine.model import kv_store
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.kv_store import KVStore, storage_dtype
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.prediction.sizing import bytes_per_block
from kvtool.engine.request import Request
from kvtool.engine.step import EngineStep, Scheduled
from kvtool.kernels.kv_quantization import MAXIMA, Scale, dequantized, dynamic_scale, quantized
from kvtool.kernels.paged_attention import paged_attention
from kvtool.kernels.store_kv import store_kv

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
TINY = torch.finfo(torch.float32).tiny
# Half a unit in the last place: relative to the number, and absolute below the smallest normal one.
FP8_STEPS = {E4M3: (2.0**-4, 2.0**-10), E5M2: (2.0**-3, 2.0**-17)}
CONFIG = ModelConfig.tiny(300)


def vectors(seed: int, spread: float, shape: tuple[int, ...] = (5, 3, 16)) -> torch.Tensor:
    """Numbers over `spread` powers of two, with zeros among them."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=random) * torch.exp2(spread * torch.randn(shape, generator=random))
    return x * (torch.rand(shape, generator=random) > 0.1)


@given(
    seed=st.integers(0, 1 << 30),
    spread=st.floats(0, 8),
    dtype=st.sampled_from([E4M3, E5M2]),
    scale=st.sampled_from([1.0, 0.125, 3.0]),
    source=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
)
def test_fp8_is_off_by_half_a_step(
    seed: int, spread: float, dtype: torch.dtype, scale: float, source: torch.dtype
) -> None:
    x = vectors(seed, spread).clamp(-60_000, 60_000).to(source)
    kept = quantized(x, scale, dtype)
    assert kept.dtype == dtype
    back = dequantized(kept, scale, torch.float32).double()
    largest = MAXIMA[dtype] * scale
    exact = x.double().clamp(-largest, largest)
    relative, absolute = FP8_STEPS[dtype]
    rounding = 1 + 1e-6  # of the division and the product by a scale in float32
    bound = torch.maximum(exact.abs() * relative, torch.full_like(exact, absolute * scale)) * rounding + TINY
    assert bool(((back - exact).abs() <= bound).all())
    assert torch.equal(back.sign()[back != 0], exact.sign()[back != 0])


def test_too_large_numbers_are_clamped() -> None:
    """The cast alone would make an infinity of them, or wrap around."""
    for dtype in [E4M3, E5M2, torch.int8]:
        x = torch.tensor([1e30, -1e30, math.inf, -math.inf, MAXIMA[dtype] * 1.5])
        largest = MAXIMA[dtype]
        assert dequantized(quantized(x, 1.0, dtype), 1.0, torch.float32).tolist() == [
            largest,
            -largest,
            largest,
            -largest,
            largest,
        ]


@given(
    seed=st.integers(0, 1 << 30),
    spread=st.floats(0, 8),
    power=st.integers(-140, 120),
    dtype=st.sampled_from([torch.int8, E4M3, E5M2]),
)
def test_a_scale_of_its_own_fits_every_vector(seed: int, spread: float, power: int, dtype: torch.dtype) -> None:
    """int8: half of a 127th of the vector's largest number, from denormals to nearly infinity."""
    x = (vectors(seed, min(spread, 3.0)).double() * 2.0**power).clamp(-3e38, 3e38).float()
    scale = dynamic_scale(x, dtype)
    assert scale.shape == x.shape[:-1]
    back = dequantized(quantized(x, scale[..., None], dtype), scale[..., None], torch.float32).double()
    largest = x.double().abs().amax(-1, keepdim=True)
    step = torch.maximum(largest / MAXIMA[dtype], torch.tensor(TINY, dtype=torch.float64))
    if dtype == torch.int8:
        bound = step / 2
    else:
        relative, absolute = FP8_STEPS[dtype]
        bound = torch.maximum(x.double().abs() * relative, step * absolute)
    assert bool(((back - x.double()).abs() <= bound * (1 + 1e-4) + TINY).all())


def test_zeros_and_what_is_not_finite_stay_so_with_a_scale_of_their_own() -> None:
    for dtype in [torch.int8, E4M3, E5M2]:
        x = torch.tensor([[1.0, math.nan], [math.inf, 2.0], [0.0, 0.0], [-0.0, 1e-40]])
        scale = dynamic_scale(x, dtype)[:, None]
        back = dequantized(quantized(x, scale, dtype), scale, torch.float32)
        assert not back[:2].isfinite().any()
        assert back[2].tolist() == [0.0, 0.0]
        assert back[3].abs().max() <= TINY


def stored(
    name: str, lengths: list[int], *, page: int = 4, seed: int = 0
) -> tuple[KVStore, torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]:
    """A store whose first layer has random sequences in scattered blocks and poison everywhere else; its block table; K and V."""
    random = torch.Generator().manual_seed(seed)
    counts = [-(-length // page) for length in lengths]
    store = KVStore(CONFIG, page, sum(counts) + 2, cache_dtype=name)
    for cache in (store.k[0], store.v[0]):
        if cache.dtype.is_floating_point:
            cache.fill_(math.nan)
    for scale in (store.k_scale[0], store.v_scale[0]):
        if isinstance(scale, torch.Tensor):
            scale.fill_(math.nan)
    free = (1 + torch.randperm(sum(counts), generator=random)).tolist()
    table = torch.zeros(len(lengths), max(counts), dtype=torch.int32)
    sequences = []
    for row, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        blocks = [free.pop() for _ in range(count)]
        table[row, :count] = torch.tensor(blocks)
        shape = (length, CONFIG.num_key_value_heads, CONFIG.head_dim)
        k, v = (torch.randn(shape, generator=random) for _ in range(2))
        slots = torch.tensor([blocks[at // page] * page + at % page for at in range(length)])
        slots[-1] = -1  # skipped: it is written in a call of its own
        arguments = (store.k[0], store.v[0])
        scales: tuple[Scale, Scale] = (store.k_scale[0], store.v_scale[0])
        store_kv(k, v, *arguments, slots, *scales)
        last = torch.tensor([blocks[-1] * page + (length - 1) % page])
        store_kv(k[-1:], v[-1:], *arguments, last, *scales)
        sequences.append((k, v))
    return store, table, sequences


# Largest error of an attention output, for keys and values drawn from a normal distribution.
ERRORS = {"auto": 2e-6, "fp16": 2e-3, "bf16": 0.02, "fp8_e4m3": 0.12, "fp8_e5m2": 0.25, "int8": 0.03}


@pytest.mark.parametrize("name", KV_CACHE_DTYPES)
def test_attention_reads_what_was_stored(name: str) -> None:
    lengths = [9, 13, 4]
    store, table, sequences = stored(name, lengths)
    counts = [9, 3, 1]
    random = torch.Generator().manual_seed(1)
    heads, dim = CONFIG.num_attention_heads, CONFIG.head_dim
    queries = [torch.randn(count, heads, dim, generator=random) for count in counts]
    start = torch.tensor([0, *itertools.accumulate(counts)], dtype=torch.int32)
    out = paged_attention(
        torch.cat(queries),
        store.k[0],
        store.v[0],
        table,
        start,
        torch.tensor(lengths, dtype=torch.int32),
        k_scale=store.k_scale[0],
        v_scale=store.v_scale[0],
    )
    expected = []
    for q, (k, v) in zip(queries, sequences, strict=True):
        for row, head in itertools.product(range(len(q)), range(heads)):
            seen, own = len(k) - len(q) + row + 1, head // (heads // CONFIG.num_key_value_heads)
            weights = (k[:seen, own].double() @ q[row, head].double() / math.sqrt(dim)).softmax(0)
            expected.append(weights @ v[:seen, own].double())
    error = float((out.double() - torch.stack(expected).view(out.shape)).abs().max())
    assert error <= ERRORS[name]
    if name != "auto":
        assert error > 1e-5  # it really is kept in fewer bits


@pytest.mark.parametrize("name", KV_CACHE_DTYPES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_of_half_precision(dtype: torch.dtype, name: str) -> None:
    """Whatever the model computes in, its logits are near those of fp32 with the native cache."""
    ids = np.arange(1, 30, dtype=np.int32)

    def logits(model_dtype: torch.dtype, cache_dtype: str) -> torch.Tensor:
        rows: list[torch.Tensor] = []
        model = Decoder.random(CONFIG, dtype=model_dtype)
        runner = ModelRunner(model, 8, 6, kv_cache_dtype=cache_dtype, on_logits=lambda _, row: rows.append(row.clone()))
        request = Request("r", len(ids), prompt_ids=ids)
        request.block_ids = [3, 1, 5, 2]
        for start, count in ((0, 20), (20, 9)):
            runner.run(EngineStep(0, (Scheduled(request, start, count),)))
        [row] = rows
        return row.double()

    expected = logits(torch.float32, "auto")
    error = logits(dtype, name) - expected
    assert float(error.square().mean().sqrt() / expected.std()) < 0.25


def test_blocks_take_as_many_bytes_as_sizing_says() -> None:
    for name in KV_CACHE_DTYPES:
        store = KVStore(CONFIG, 16, 4, cache_dtype=name)
        dtype = find_kv_dtype(name, "fp32")
        shape = (CONFIG.num_hidden_layers, CONFIG.num_key_value_heads, CONFIG.head_dim, 16)
        assert store.bytes_per_block == bytes_per_block(*shape, dtype)
        assert str(store.k[0].dtype) == f"torch.{dtype.torch_name}"
        assert KVStore(CONFIG, 16, 4, dtype=torch.float64).k[0].dtype == torch.float64


@pytest.mark.parametrize("name", ["int8", "fp8_e5m2"])
def test_growth_keeps_the_scales(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_store, "_INITIAL_TOKENS", 8)
    store = KVStore(CONFIG, 4, cache_dtype=name)
    k, v = (torch.randn(3, CONFIG.num_key_value_heads, CONFIG.head_dim) for _ in range(2))
    store_kv(k, v, store.k[1], store.v[1], torch.tensor([4, 5, 6]), store.k_scale[1], store.v_scale[1])

    def kept() -> list[np.ndarray]:
        parts = (store.k[1], store.v[1], store.k_scale[1], store.v_scale[1])
        return [part[1, :, :3].float().numpy() for part in parts if isinstance(part, torch.Tensor)]

    before = kept()
    assert len(before) == (4 if name == "int8" else 2)
    store.reserve(9)
    assert store.num_blocks == 16
    for old, new in zip(before, kept(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_gpu_without_e4m3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: (8, 0))
    with pytest.raises(EngineError, match=r"no fp8_e4m3: its compute capability is 8\.0, not 8\.9 or higher"):
        storage_dtype(KV_DTYPES["fp8_e4m3"], "cuda")


def test_a_device_that_cannot_cast(monkeypatch: pytest.MonkeyPatch) -> None:
    def ones(*shape: int, device: torch.device) -> torch.Tensor:
        raise TypeError("no such type on this device")

    monkeypatch.setattr(torch, "ones", ones)
    with pytest.raises(EngineError, match="mps cannot store the KV cache in fp8_e5m2"):
        storage_dtype(KV_DTYPES["fp8_e5m2"], "mps")


def test_an_unknown_dtype() -> None:
    with pytest.raises(EngineError, match="unknown KV cache dtype `int3`"):
        KVStore(CONFIG, 16, cache_dtype="int3")
