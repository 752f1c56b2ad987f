"""What the prefix cache, chunking and preemption must never change: the tokens that the model generates."""

from __future__ import annotations

import numpy as np
import pytest

from kvtool.engine.clock import WallClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.model_config import ModelConfig
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
) -> list[Request]:
    """Twelve prompts that share beginnings of several lengths, at most six at a time."""
    config = EngineConfig(
        block_size=8,
        num_blocks=num_blocks,
        max_num_seqs=6,
        max_num_batched_tokens=max_num_batched_tokens,
        enable_prefix_caching=enable_prefix_caching,
    )
    engine = Engine(config, ModelRunner(model, config.block_size, num_blocks), WallClock())
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
