"""Layers with windows through the whole engine: what lies before a window is nobody's, however K/V are kept and read."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from kvtool.engine.clock import WallClock
from kvtool.engine.config import DecodeMode, EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.engine_error import EngineError
from kvtool.engine.model import model_runner
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.request import Request

BLOCK, OUTPUTS = 4, 30
WINDOWS = (10, 24, 10, 17)


def model(windows: tuple[int | None, ...] = WINDOWS) -> Decoder:
    return Decoder.random(dataclasses.replace(ModelConfig.tiny(101), windows=windows))


def requests() -> list[Request]:
    """Two that share a beginning, one shorter than all windows."""
    random = np.random.default_rng(2)
    base = random.integers(0, 101, 40)
    prompts = [np.concatenate([base, random.integers(0, 101, own)]) for own in (3, 9)] + [base[:5]]
    return [
        Request(str(index), len(ids), prompt_ids=ids.astype(np.int32), max_tokens=OUTPUTS)
        for index, ids in enumerate(prompts)
    ]


def outputs(
    decoder: Decoder,
    *,
    forget: bool = False,
    caching: bool = True,
    mode: DecodeMode = "auto",
    kv_cache_dtype: str = "auto",
) -> list[list[int]]:
    """What the requests generate; `forget` overwrites, before each step, all blocks that lie before every layer's windows."""
    config = EngineConfig(block_size=BLOCK, max_num_batched_tokens=23, enable_prefix_caching=caching)
    runner = ModelRunner(decoder, BLOCK, decode_attention=mode, kv_cache_dtype=kv_cache_dtype)
    engine = Engine(config, runner, WallClock())
    asked = requests()
    for request in asked:
        engine.add(request)
    widest = max(window or 1 << 20 for window in decoder.config.windows)
    while engine.busy:
        if forget:
            running = engine.scheduler.running
            needed = {
                block
                for request in running
                for block in request.block_ids[max(request.num_computed_tokens + 1 - widest, 0) // BLOCK :]
            }
            held = {block for request in running for block in request.block_ids}
            for block in held - needed:
                for cache in (*runner.kv.k, *runner.kv.v):
                    cache[block] = torch.nan
        engine.step()
    return [request.outputs for request in asked]


def test_nothing_before_a_window_is_read() -> None:
    decoder = model()
    kept = outputs(decoder)
    assert outputs(decoder, forget=True, caching=False) == kept
    assert outputs(model((None, 24, 10, 17))) != kept  # windows matter


@pytest.mark.parametrize("windows", [WINDOWS, (None, 10, None, 10)])
def test_prefix_aware_decode_is_equal(windows: tuple[int | None, ...]) -> None:
    decoder = model(windows)
    assert outputs(decoder, mode="prefix-aware") == outputs(decoder, mode="flat")


def test_kept_in_another_type() -> None:
    """Then torch reads request by request."""
    decoder = model()
    expected = outputs(decoder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_runner, "_reads_in_place", lambda *_: False)
        assert outputs(decoder) == expected
    assert all(len(tokens) == OUTPUTS for tokens in outputs(decoder, kv_cache_dtype="int8"))
    with pytest.raises(EngineError, match="not prefix by prefix") as caught:
        outputs(decoder, kv_cache_dtype="int8", mode="prefix-aware")
    assert "--decode-attention flat" in (caught.value.hint or "")
