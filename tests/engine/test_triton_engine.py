"""The whole engine on the Triton kernels, interpreted: the tokens and logits are those of the torch twins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from kvtool.engine.clock import WallClock
from kvtool.engine.config import DecodeMode, EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decode_graphs import DecodeGraphs, Replay
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.request import Request
from kvtool.kernels import torch_twins
from kvtool.kernels.protocol import Kernels
from tests.conftest import some

pytest.importorskip("triton", reason="Triton is for Linux on x86-64 only")

from kvtool.kernels.gpu import triton_kernels
from tests.kernels.interpreter import corrected

VOCABULARY = 97
LLAMA = ModelConfig(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=40,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    tie_word_embeddings=True,
    name="test",
)
OTHER = replace(LLAMA, qk_norm=True, qkv_bias=True, head_dim=8, num_attention_heads=3, num_key_value_heads=1)


class Recorded:
    """Stands in for CUDA graphs: what they replay is called again, on the same buffers."""

    def __init__(self) -> None:
        self.recordings = self.replays = 0

    def __call__(self, run: Callable[[], None]) -> Replay:
        self.recordings += 1

        def replay() -> None:
            self.replays += 1
            run()

        return replay


@pytest.fixture(scope="module", autouse=True)
def _corrected_interpreter() -> Iterator[None]:
    with corrected():
        yield


def model_on(kernels: Kernels, config: ModelConfig = LLAMA) -> Decoder:
    return Decoder.random(config, seed=3, kernels=kernels)


def generate(
    model: Decoder,
    *,
    decode_attention: DecodeMode = "auto",
    kv_cache_dtype: str = "auto",
    recorder: Recorded | None = None,
    max_num_batched_tokens: int = 48,
) -> tuple[list[list[int]], torch.Tensor]:
    """Outputs and logits of five prompts, four of which share 36 tokens; the second comes when the first is cached."""
    seen: dict[tuple[str, int], torch.Tensor] = {}
    runner = ModelRunner(
        model,
        4,
        kv_cache_dtype=kv_cache_dtype,
        decode_attention=decode_attention,
        on_logits=lambda request, logits: seen.__setitem__((request.id, len(request.outputs)), logits.clone()),
    )
    for cache in (*runner.kv.k, *runner.kv.v):  # what nobody wrote is never read
        cache.view(torch.uint8).fill_(0x7F if cache.element_size() == 1 else 0xFF)
    if recorder is not None:
        runner._graphs = DecodeGraphs(model, runner.kv, recorder)  # CUDA's stands there on a GPU
    engine = Engine(EngineConfig(block_size=4, max_num_batched_tokens=max_num_batched_tokens), runner, WallClock())
    random = np.random.default_rng(7)
    shared = random.integers(0, VOCABULARY, 36)
    requests = []
    for index, own in enumerate((5, 1, 7, 3, 9)):
        ids = np.concatenate([shared if index != 3 else shared[:2], random.integers(0, VOCABULARY, own)])
        requests.append(Request(str(index), len(ids), prompt_ids=ids.astype(np.int32), max_tokens=3 + 2 * (index % 2)))
        engine.add(requests[-1])
        if index == 0:
            engine.step()
    while engine.busy:
        engine.step()
    assert requests[1].num_cached_tokens == 36
    return [request.outputs for request in requests], torch.stack([seen[key] for key in sorted(seen)])


@pytest.fixture(scope="module")
def reference() -> tuple[list[list[int]], torch.Tensor]:
    return generate(model_on(torch_twins))


def assert_same(actual: tuple[list[list[int]], torch.Tensor], expected: tuple[list[list[int]], torch.Tensor]) -> None:
    torch.testing.assert_close(actual[1], expected[1], rtol=0, atol=2e-5)
    assert actual[0] == expected[0]


def test_the_tokens_are_those_of_torch(reference: tuple[list[list[int]], torch.Tensor]) -> None:
    assert_same(generate(model_on(triton_kernels), decode_attention="flat"), reference)


def test_torch_by_a_plan(reference: tuple[list[list[int]], torch.Tensor]) -> None:
    assert_same(generate(model_on(torch_twins), decode_attention="prefix-aware"), reference)


@pytest.mark.parametrize("kernels", [torch_twins, triton_kernels], ids=["torch", "triton"])
def test_recorded_decode_steps(kernels: Kernels, reference: tuple[list[list[int]], torch.Tensor]) -> None:
    """Batches of 1 to 5 requests padded to recorded shapes, with plans of several sizes."""
    recorder = Recorded()
    assert_same(generate(model_on(kernels), decode_attention="prefix-aware", recorder=recorder), reference)
    assert 0 < recorder.recordings < recorder.replays


def test_biases_norms_of_heads_and_groups_of_three() -> None:
    assert_same(generate(model_on(triton_kernels, OTHER)), generate(model_on(torch_twins, OTHER)))


@pytest.mark.parametrize("dtype", some(["int8", "fp8_e5m2", "fp16"], 1))
def test_other_caches(dtype: str) -> None:
    """The same numbers are stored, so that the logits differ no more than with the model's own type."""
    actual, expected = (
        generate(model_on(kernels), kv_cache_dtype=dtype)[1] for kernels in (triton_kernels, torch_twins)
    )
    torch.testing.assert_close(actual, expected, rtol=0, atol=2e-2 if dtype == "fp8_e5m2" else 2e-3)
