"""What the prefix cache, chunking and preemption must never change: the tokens that the model generates."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch

from kvtool.engine.attention import cpu_planner
from kvtool.engine.attention.cpu_plan import CpuPlan
from kvtool.engine.clock import WallClock
from kvtool.engine.config import DecodeMode, EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.request import Request


@pytest.fixture(scope="module")
def model() -> Decoder:
    return Decoder.random(ModelConfig.tiny(1000))


def generate(
    model: Decoder,
    *,
    num_blocks: int | None = None,
    max_num_batched_tokens: int = 8192,
    enable_prefix_caching: bool = True,
    decode_attention: DecodeMode = "auto",
    kv_cache_dtype: str = "auto",
) -> list[Request]:
    """Twelve prompts that share beginnings of several lengths, at most six at a time."""
    config = EngineConfig(
        block_size=8,
        num_blocks=num_blocks,
        max_num_seqs=6,
        max_num_batched_tokens=max_num_batched_tokens,
        enable_prefix_caching=enable_prefix_caching,
    )
    runner = ModelRunner(
        model, config.block_size, num_blocks, decode_attention=decode_attention, kv_cache_dtype=kv_cache_dtype
    )
    engine = Engine(config, runner, WallClock())
    random = np.random.default_rng(0)
    base = random.integers(0, 1000, 60)
    requests = []
    for index in range(12):
        own = random.integers(0, 1000, int(random.integers(1, 60)))
        ids = np.concatenate([base[: int(random.integers(0, 60))], own]).astype(np.int32)
        requests.append(Request(str(index), len(ids), prompt_ids=ids, max_tokens=15))
        engine.add(requests[-1])
    while engine.busy:
        engine.step()
    return requests


@pytest.fixture(scope="module")
def uncached(model: Decoder) -> list[list[int]]:
    requests = generate(model, enable_prefix_caching=False)
    assert not any(request.num_cached_tokens for request in requests)
    return [request.outputs for request in requests]


@pytest.mark.parametrize("max_num_batched_tokens", [8192, 13])
@pytest.mark.parametrize("num_blocks", [None, 26])
def test_outputs_are_those_of_an_engine_without_cache(
    model: Decoder, uncached: list[list[int]], num_blocks: int | None, max_num_batched_tokens: int
) -> None:
    requests = generate(model, num_blocks=num_blocks, max_num_batched_tokens=max_num_batched_tokens)
    assert [request.outputs for request in requests] == uncached
    assert sum(request.num_cached_tokens for request in requests) > 100
    preempted = any(request.num_preemptions for request in requests)
    assert preempted == (num_blocks is not None)


@pytest.mark.parametrize("kv_cache_dtype", ["auto", "fp32"])
@pytest.mark.parametrize("mode", get_args(DecodeMode))
def test_outputs_are_the_same_however_attention_reads(
    model: Decoder,
    uncached: list[list[int]],
    mode: DecodeMode,
    kv_cache_dtype: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu_planner, "LEAST_SHARED_TOKENS", 8)
    monkeypatch.setattr(cpu_planner, "RUN_TOKENS", 16)
    monkeypatch.setattr(cpu_planner, "ROOM_TOKENS", 4)
    requests = generate(model, decode_attention=mode, kv_cache_dtype=kv_cache_dtype, max_num_batched_tokens=13)
    assert [request.outputs for request in requests] == uncached


def test_requests_that_decode_together_read_what_they_share_once(
    model: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's own steps, not only plans made by hand."""
    read: dict[str, int] = {}
    for mode in get_args(DecodeMode)[:2]:
        runner = ModelRunner(model, 8, decode_attention=mode)
        engine = Engine(EngineConfig(block_size=8), runner, WallClock())
        ids = np.random.default_rng(1).integers(0, 1000, 132).astype(np.int32)
        for index in range(4):
            engine.add(Request(str(index), 132, prompt_ids=np.append(ids[:-1], index).astype(np.int32), max_tokens=6))
        plans: list[CpuPlan] = []
        attend = CpuPlan.attend

        def seen(plan: CpuPlan, *arguments: Any, attend: Any = attend, plans: list[CpuPlan] = plans) -> torch.Tensor:
            plans.append(plan)
            found: torch.Tensor = attend(plan, *arguments)
            return found

        with monkeypatch.context() as patch:
            patch.setattr(CpuPlan, "attend", seen)
            while engine.busy:
                engine.step()
        assert plans[-1].flat_tokens == 4 * 137
        read[mode] = plans[-1].tokens_read
    assert read == {"flat": 4 * 137, "prefix-aware": 128 + 4 * 9}
