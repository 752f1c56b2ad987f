"""What the config.json of families with windows, experts and latent attention says, and what of it cannot be computed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.configs.rope_config import DefaultRope, LinearRope, YarnRope
from kvtool.engine.model.parameter_shapes import check_names, parameter_count, parameter_shapes

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "vocab_size": 100,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
# With the keys of published files, which are older than those that transformers writes now.
GEMMA3 = SIZES | {
    "architectures": ["Gemma3ForCausalLM"],
    "head_dim": 16,
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 64,
    "rope_theta": 1_000_000,
    "rope_local_base_freq": 10_000,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    "sliding_window": 512,
    "sliding_window_pattern": 3,
    "attn_logit_softcapping": None,
}
GEMMA2 = SIZES | {
    "architectures": ["Gemma2ForCausalLM"],
    "head_dim": 16,
    "hidden_act": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 16,
    "rope_theta": 10_000.0,
    "sliding_window": 4096,
}
GPT_OSS = SIZES | {
    "architectures": ["GptOssForCausalLM"],
    "head_dim": 16,
    "experts_per_token": 2,
    "num_local_experts": 8,
    "rope_theta": 150_000,
    "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "truncate": False, "original_max_position_embeddings": 4096},
    "sliding_window": 128,
}
DEEPSEEK = SIZES | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "kv_lora_rank": 24,
    "q_lora_rank": 20,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
    "first_k_dense_replace": 2,
    "moe_intermediate_size": 16,
    "n_group": 2,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 3,
    "num_nextn_predict_layers": 1,
    "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0},
    "max_position_embeddings": 4096,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "topk_group": 1,
    "topk_method": "noaux_tc",
}
DEEPSEEK2 = DEEPSEEK | {
    "architectures": ["DeepseekV2ForCausalLM"],
    "norm_topk_prob": False,
    "q_lora_rank": None,
    "topk_method": "greedy",
}
FILES = {"gemma3": GEMMA3, "gemma2": GEMMA2, "gpt-oss": GPT_OSS, "deepseek": DEEPSEEK, "deepseek2": DEEPSEEK2}


def read(values: dict[str, object], folder: Path) -> ModelConfig:
    (folder / "config.json").write_text(json.dumps(values))
    return ModelConfig.from_hf(folder)


def test_gemma(tmp_path: Path) -> None:
    third = read(GEMMA3, tmp_path)
    assert third.windows == (512, 512, None) * 2
    assert third.rope == LinearRope(1e6, 8.0)
    assert third.window_rope == DefaultRope(1e4)
    assert third.traits.attention_scale == 1 / 8
    assert third.traits.attention_softcap is None
    assert third.tie_word_embeddings
    assert third.qk_norm
    second = read(GEMMA2, tmp_path)
    assert second.windows == (4096, None) * 3
    assert (second.traits.attention_softcap, second.traits.logit_softcap) == (50.0, 30.0)
    assert second.window_rope is None
    assert not second.qk_norm
    capless = read(GEMMA2 | {"attn_logit_softcapping": None}, tmp_path)
    assert capless.traits.attention_softcap is None


def test_gpt_oss(tmp_path: Path) -> None:
    config = read(GPT_OSS, tmp_path)
    assert config.windows == (128, None) * 3
    assert config.traits.attention_sinks
    assert isinstance(config.rope, YarnRope)
    assert config.rope.attention_factor == pytest.approx(0.1 * math.log(32) + 1)
    assert config.qkv_bias
    assert config.output_bias
    assert config.experts is not None
    assert (config.experts.count, config.experts.chosen, config.experts.clamped) == (8, 2, (1.702, 7.0))


def test_deepseek(tmp_path: Path) -> None:
    config = read(DEEPSEEK, tmp_path)
    assert config.latent is not None
    assert config.experts is not None
    assert (config.cache_heads, config.cache_dim) == (1, 32)
    assert config.latent.attention_scale == pytest.approx(20**-0.5 * (0.1 * math.log(40) + 1) ** 2)
    assert isinstance(config.rope, YarnRope)
    assert config.rope.attention_factor == 1.0
    assert (config.experts.groups, config.experts.group_best, config.experts.corrected) == (2, 2, True)
    names = parameter_shapes(config)
    assert names["model.layers.1.mlp.gate_proj.weight"] == (48, 32)
    assert names["model.layers.2.mlp.experts.7.down_proj.weight"] == (32, 16)
    second = read(DEEPSEEK2, tmp_path)
    assert second.latent is not None
    assert second.latent.query_rank is None
    assert second.experts is not None
    assert (second.experts.groups, second.experts.scoring) == (1, "softmax")


def test_layers_that_predict_further_tokens_are_left_aside(tmp_path: Path) -> None:
    """DeepSeek V3's checkpoints have one more layer than `num_hidden_layers` says; in other families that is a mistake."""
    config = read(DEEPSEEK, tmp_path)
    names = list(parameter_shapes(config))
    further = ["model.layers.6.eh_proj.weight", "model.layers.6.mlp.gate.weight"]
    assert check_names(config, [*names, *further], "it") == names
    for extra in ("model.layers.5.eh_proj.weight", "model.layers.x.eh_proj.weight", "layers.6.eh_proj.weight"):
        with pytest.raises(EngineError, match="it has the unknown"):
            check_names(config, [*names, extra], "it")
    gemma = read(GEMMA3, tmp_path)
    with pytest.raises(EngineError, match="it has the unknown"):
        check_names(gemma, [*parameter_shapes(gemma), further[0]], "it")


def test_what_cannot_be_computed(tmp_path: Path) -> None:
    for family, change, message in [
        ("gemma3", {"sliding_window_pattern": 0}, "`sliding_window_pattern` must be at least 1"),
        ("gemma3", {"sliding_window": -3}, "a window must be at least 1, not -3"),
        ("gemma3", {"layer_types": ["sliding_attention"] * 7}, "`layer_types` has 7 entries for 6 layers"),
        ("gemma3", {"layer_types": ["chunked_attention"] * 6}, "'chunked_attention': kvtool plans"),
        ("gemma3", {"query_pre_attn_scalar": 0}, "`query_pre_attn_scalar` must be above 0"),
        ("gemma3", {"attn_logit_softcapping": 50.0}, "`attn_logit_softcapping` is not supported"),
        ("gemma3", {"use_bidirectional_attention": True}, "tokens would see later tokens"),
        ("gemma3", {"hidden_activation": "relu"}, "`hidden_activation` 'relu' is not supported"),
        ("gemma2", {"attn_logit_softcapping": 0}, "attention_softcap must be above 0, not 0"),
        ("gpt-oss", {"rope_theta": None}, "`rope_theta` is missing"),
        ("gpt-oss", {"num_local_experts": 1}, "2 experts cannot be chosen from 1"),
        ("gpt-oss", {"num_local_experts": 10**9}, "1000000000 experts are more than any model has"),
        ("gpt-oss", {"quantization_config": {"quant_method": "mxfp4"}}, "quantized .'mxfp4'."),
        ("deepseek", {"n_group": 3}, "8 experts do not make 3 equal groups"),
        ("deepseek", {"topk_group": 3}, "3 groups cannot be chosen from 2"),
        ("deepseek", {"num_experts_per_tok": 5}, "5 experts cannot be chosen from 4"),
        ("deepseek", {"n_group": 8, "topk_group": 4}, "a group has only 1 experts, not the 2 best to add"),
        ("deepseek", {"kv_lora_rank": 0}, "kv_rank of latent attention must be at least 1"),
        ("deepseek", {"qk_rope_head_dim": 7}, "rope_dim must be even"),
        ("deepseek", {"moe_layer_freq": 2}, "`moe_layer_freq` 2 is not supported"),
        ("deepseek", {"topk_method": "greedy"}, "`topk_method` 'greedy' is not supported"),
        ("deepseek2", {"norm_topk_prob": True}, "`norm_topk_prob` is not supported"),
    ]:
        with pytest.raises(EngineError, match=message) as caught:
            read(FILES[family] | change, tmp_path)
        assert caught.value.message.startswith(str(tmp_path))


VALUES = [
    None,
    0,
    -1,
    1,
    3,
    10**15,
    10**400,
    0.5,
    -1.0,
    True,
    "x",
    [],
    {},
    ["sliding_attention"],
    {"rope_type": "yarn"},
]


@given(data=st.data())
def test_any_value_of_any_key(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A model that can be counted, or a sentence."""
    values = dict(data.draw(st.sampled_from(list(FILES.values()))))
    for _ in range(data.draw(st.integers(1, 3))):
        values[data.draw(st.sampled_from(sorted(values)))] = data.draw(st.sampled_from(VALUES))
    try:
        config = read(values, tmp_path_factory.getbasetemp())
    except EngineError:
        return
    count = parameter_count(config)
    if config.num_hidden_layers < 100:
        assert count == sum(math.prod(shape) for shape in parameter_shapes(config).values())
