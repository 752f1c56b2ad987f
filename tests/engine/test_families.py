"""Checkpoints of each family, written by transformers, through the whole engine: the logits and greedy tokens are its own."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    DeepseekV2Config,
    DeepseekV3Config,
    Gemma2Config,
    Gemma3TextConfig,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from kvtool.engine.clock import WallClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.model.configs.model_config import ARCHITECTURES
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.model.weights import load_model
from kvtool.engine.request import Request
from tests.conftest import NIGHTLY, some

VOCABULARY = 131
OUTPUTS = 12
BLOCK = 8
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
}
# Original contexts are shorter than the prompts, so that scaled positions are reached.
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e3,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32}
DEEPSEEK_YARN = YARN | {"mscale": 0.7, "mscale_all_dim": 1.3}
LATENT = {
    "num_key_value_heads": 6,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
    "moe_intermediate_size": 24,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "first_k_dense_replace": 1,
}
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
MODELS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SIZES, head_dim=16, rope_parameters=LLAMA3),  # 6 x 16 is not the hidden size
    "llama with biases": LlamaConfig(
        **SIZES, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_parameters=LINEAR
    ),
    "mistral": MistralConfig(**SIZES, sliding_window=None, rms_norm_eps=1e-5),
    "mistral with a window": MistralConfig(**SIZES, sliding_window=19),
    "qwen2": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen2 with a window": Qwen2Config(
        **SIZES, use_sliding_window=True, sliding_window=48, max_window_layers=1, tie_word_embeddings=True
    ),
    "qwen2 with yarn": Qwen2Config(**(SIZES | {"num_key_value_heads": 6}), rope_parameters=YARN),
    "qwen3": Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=True),
    "qwen3 with biases": Qwen3Config(**SIZES, head_dim=8, attention_bias=True, rope_parameters=YARN),
    "qwen3 with windows": Qwen3Config(
        **SIZES,
        head_dim=16,
        use_sliding_window=True,
        sliding_window=5,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
}
MODELS |= {
    "gemma2": Gemma2Config(
        **SIZES, head_dim=16, query_pre_attn_scalar=11, sliding_window=24, attn_logit_softcapping=2.0
    ),
    "gemma3": Gemma3TextConfig(
        **SIZES,
        head_dim=16,
        query_pre_attn_scalar=20,
        sliding_window=19,
        sliding_window_pattern=2,
        rope_parameters={"full_attention": LINEAR | {"rope_theta": 1e6}, "sliding_attention": {"rope_type": "default"}},
    ),
    "gemma3 with one window": Gemma3TextConfig(
        **(SIZES | {"num_key_value_heads": 1}),
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=40,
        final_logit_softcapping=3.0,
    ),
    "gpt-oss": GptOssConfig(
        **SIZES,
        head_dim=16,
        sliding_window=16,
        num_local_experts=5,
        num_experts_per_tok=2,
        rope_parameters=YARN | {"truncate": False},
    ),
    "deepseek_v2": DeepseekV2Config(
        **(SIZES | LATENT),
        q_lora_rank=None,
        n_shared_experts=2,
        n_group=4,
        topk_group=2,
        topk_method="group_limited_greedy",
        rope_parameters=DEEPSEEK_YARN,
        mlp_bias=True,
    ),
    "deepseek_v3": DeepseekV3Config(
        **(SIZES | LATENT), q_lora_rank=20, n_group=4, topk_group=2, attention_bias=True, rope_parameters=DEEPSEEK_YARN
    ),
    "deepseek_v3 in one group": DeepseekV3Config(
        **(SIZES | LATENT), q_lora_rank=20, n_group=1, topk_group=1, rope_interleave=False, norm_topk_prob=False
    ),
}
SHARDED = ("llama", "qwen2", "qwen3 with biases")
EVERY_WAY = ("llama", "qwen2 with a window", "gemma3", "gpt-oss", "deepseek_v3")
"""Models that differ in attention: they run in three ways by default, the others in one; nightly, all run in every way."""


@dataclass(frozen=True, slots=True)
class Pair:
    folder: Path
    hf: PreTrainedModel
    model: Decoder
    logits: dict[tuple[int, ...], torch.Tensor] = field(default_factory=dict)
    """What transformers said, by the tokens."""


def randomized(config: PreTrainedConfig) -> PreTrainedModel:
    """No norm of ones and no bias of zeros, which would hide one that is applied in the wrong place or not at all."""
    hf = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    random = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in hf.named_parameters():
            if name.endswith("norm.weight"):
                weight.uniform_(0.5, 1.5, generator=random)
            elif name.endswith("bias"):
                weight.normal_(0.0, 0.1, generator=random)
            elif name.endswith("sinks"):
                weight.normal_(1.0, 1.0, generator=random)
            elif "embed_tokens" in name:
                weight.normal_(0.0, 0.06, generator=random)  # tied ones would repeat the last token if they were larger
            else:
                weight.normal_(0.0, weight.shape[1] ** -0.5, generator=random)
        for name, buffer in hf.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.normal_(0.0, 0.3, generator=random)
    return hf


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    name: str = request.param
    folder = tmp_path_factory.mktemp("model")
    hf = randomized(MODELS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' own affairs
        hf.save_pretrained(folder, max_shard_size="60KB" if name in SHARDED else "1GB")
    assert (folder / "model.safetensors").exists() != (name in SHARDED)
    return Pair(folder, hf, load_model(folder))


def test_every_family_is_here() -> None:
    assert {config.model_type for config in MODELS.values()} == set(ARCHITECTURES)


def prompts() -> list[np.ndarray]:
    """Eight that share beginnings of several lengths; the last is the whole beginning of another one, and one is a repetition."""
    random = np.random.default_rng(0)
    base = random.integers(0, VOCABULARY, 60)
    made = [
        np.concatenate([base[:shared], random.integers(0, VOCABULARY, own)]).astype(np.int32)
        for shared, own in ((60, 5), (48, 30), (60, 41), (0, 70), (33, 1), (0, 3))
    ]
    return [*made, made[2].copy(), made[1][:48]]


@dataclass(frozen=True, slots=True)
class Run:
    requests: list[Request]
    logits: dict[str, torch.Tensor]
    """[outputs, vocab] by request id."""


def generate(model: Decoder, config: EngineConfig, *, one_at_a_time: bool = False, kv_cache_dtype: str = "auto") -> Run:
    seen: dict[str, list[torch.Tensor]] = {}

    def keep(request: Request, logits: torch.Tensor) -> None:
        seen.setdefault(request.id, []).append(logits.float().clone())

    runner = ModelRunner(model, config.block_size, config.num_blocks, on_logits=keep, kv_cache_dtype=kv_cache_dtype)
    engine = Engine(config, runner, WallClock())
    requests = [
        Request(str(index), len(ids), prompt_ids=ids, max_tokens=OUTPUTS) for index, ids in enumerate(prompts())
    ]
    for request in requests:
        engine.add(request)
        while one_at_a_time and engine.busy:
            engine.step()
    while engine.busy:
        engine.step()
    return Run(requests, {name: torch.stack(rows) for name, rows in seen.items()})


def hf_logits(pair: Pair, request: Request) -> torch.Tensor:
    """What transformers says about each token that the request generated: [outputs, vocab], from one pass over all tokens."""
    assert request.prompt_ids is not None
    tokens = (*request.prompt_ids.tolist(), *request.outputs)
    if tokens not in pair.logits:
        with torch.inference_mode():
            pair.logits[tokens] = pair.hf(torch.tensor([tokens])).logits[0, request.num_prompt_tokens - 1 : -1]
    return pair.logits[tokens]


WAYS: dict[str, EngineConfig] = {
    "no cache": EngineConfig(block_size=BLOCK, enable_prefix_caching=False),
    "prefix hits": EngineConfig(block_size=BLOCK),
    "chunked prefill": EngineConfig(block_size=BLOCK, max_num_batched_tokens=19),
    "preemption": EngineConfig(block_size=BLOCK, num_blocks=21),
    "preemption of chunks": EngineConfig(block_size=BLOCK, num_blocks=21, max_num_batched_tokens=19),
}


ORDERS = {way: (way, False) for way in WAYS} | {
    "one at a time": ("prefix hits", True),
    "chunks, one at a time": ("chunked prefill", True),
}
FOR_ALL = ("preemption of chunks",)
FOR_SOME = ("no cache", "chunks, one at a time")


@pytest.mark.parametrize(
    ("pair", "way", "one_at_a_time"),
    [
        pytest.param(model, *order, id=f"{model}-{name}")
        for model in MODELS
        for name, order in ORDERS.items()
        if NIGHTLY or name in FOR_ALL or (model in EVERY_WAY and name in FOR_SOME)
    ],
    indirect=["pair"],
)
def test_logits_and_greedy_tokens(way: str, one_at_a_time: bool, pair: Pair) -> None:
    """Greedy generation is the same by induction: after the same tokens, transformers' likeliest next one is ours."""
    run = generate(pair.model, WAYS[way], one_at_a_time=one_at_a_time)
    for request in run.requests:
        expected = hf_logits(pair, request)
        assert expected.std() > 0.3  # logits that the tolerance can tell apart
        torch.testing.assert_close(run.logits[request.id], expected, rtol=0, atol=1e-4)
        assert request.outputs == expected.argmax(-1).tolist()
    assert len({tuple(request.outputs) for request in run.requests}) >= 6  # not one text for all
    assert (sum(request.num_cached_tokens for request in run.requests) > 0) == (way != "no cache")
    preempted = any(request.num_preemptions for request in run.requests)
    assert preempted == (way.startswith("preemption") and not one_at_a_time)


@pytest.mark.parametrize("pair", MODELS if NIGHTLY else EVERY_WAY, indirect=True)
@pytest.mark.parametrize(("dtype", "tolerance"), some([("bfloat16", 0.06), ("float16", 0.008)], 1))
def test_half_precision(dtype: str, tolerance: float, pair: Pair) -> None:
    """Runs, and is as near to float32 as its few bits allow: a token that goes to other experts for their lack is farther."""
    model = load_model(pair.folder, dtype=dtype)
    run = generate(model, WAYS["prefix hits"])
    errors = []
    for request in run.requests:
        expected = hf_logits(pair, request)
        errors.append(float((run.logits[request.id] - expected).abs().mean() / expected.abs().mean()))
    assert 0.0 < sum(errors) / len(errors) < tolerance


@pytest.mark.parametrize("pair", MODELS if NIGHTLY else EVERY_WAY[1:], indirect=True)
@pytest.mark.parametrize(("kv_cache_dtype", "tolerance"), some([("int8", 0.06), ("bf16", 0.03)], 1))
def test_kept_in_another_type(kv_cache_dtype: str, tolerance: float, pair: Pair) -> None:
    """Windows, sinks, softcaps and latent vectors are read from smaller types as well, request by request."""
    if pair.model.config.plain_attention:
        pytest.skip("tests/engine/test_kv_dtypes.py has these")
    run = generate(pair.model, WAYS["prefix hits"], kv_cache_dtype=kv_cache_dtype)
    errors = []
    for request in run.requests:
        expected = hf_logits(pair, request)
        errors.append(float((run.logits[request.id] - expected).abs().mean() / expected.abs().mean()))
    assert 0.0 < sum(errors) / len(errors) < tolerance
