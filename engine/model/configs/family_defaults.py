"""Defaults of each family: the values of its class in transformers for keys that config.json leaves out.

A file contains only values that differ from the class. This is common for models that see images, whose language model is nested.
For layers that predict further tokens the defaults are those of vLLM.
"""

from __future__ import annotations

from typing import Any

_EXPERTS = {"num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1}
_LATENT = {"kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
_LINEAR = {
    "linear_num_value_heads": 32,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
}


def _shape(layers: int, heads: int, kv_heads: int, hidden: int, inner: int, vocab: int, longest: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "vocab_size": vocab,
        "max_position_embeddings": longest,
    }


DEFAULTS: dict[str, dict[str, Any]] = {
    "mistral": _shape(32, 32, 8, 4096, 14_336, 32_000, 131_072) | {"sliding_window": 4096},
    "mixtral": _shape(32, 32, 8, 4096, 14_336, 32_000, 131_072) | {"num_local_experts": 8, "num_experts_per_tok": 2},
    "gemma": _shape(28, 16, 16, 3072, 24_576, 256_000, 8192) | {"head_dim": 256, "tie_word_embeddings": True},
    "gemma2": _shape(26, 8, 4, 2304, 9216, 256_000, 8192)
    | {"head_dim": 256, "sliding_window": 4096, "sliding_window_pattern": 2, "tie_word_embeddings": True},
    "gemma3_text": _shape(26, 8, 4, 2304, 9216, 262_208, 131_072)
    | {"head_dim": 256, "sliding_window": 4096, "sliding_window_pattern": 6, "tie_word_embeddings": True},
    "gemma4_text": _shape(30, 8, 4, 2304, 9216, 262_144, 131_072)
    | {
        "head_dim": 256,
        "global_head_dim": 512,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "tie_word_embeddings": True,
    },
    "gpt_oss": _shape(36, 64, 8, 2880, 2880, 201_088, 131_072)
    | {"head_dim": 64, "sliding_window": 128, "num_local_experts": 128, "num_experts_per_tok": 4},
    "olmo3": _shape(32, 32, 32, 4096, 11_008, 50_304, 2048) | {"sliding_window": 4096, "sliding_window_pattern": 4},
    "cohere2": _shape(40, 64, 64, 8192, 22_528, 256_000, 8192)
    | {"sliding_window": 4096, "sliding_window_pattern": 4, "tie_word_embeddings": True},
    "phi3": _shape(32, 32, 32, 3072, 8192, 32_064, 4096),
    "qwen3_next": _shape(48, 16, 2, 2048, 5632, 151_936, 32_768)
    | _LINEAR
    | {
        "head_dim": 256,
        "num_nextn_predict_layers": 1,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
    },
    "qwen3_5_text": _shape(32, 16, 4, 4096, 12_288, 248_320, 32_768)
    | _LINEAR
    | {"head_dim": 256, "mtp_num_hidden_layers": 1},
    "qwen3_5_moe_text": _shape(40, 16, 2, 2048, 5632, 248_320, 32_768)
    | _LINEAR
    | {
        "head_dim": 256,
        "mtp_num_hidden_layers": 1,
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
    },
    "deepseek_v2": _shape(32, 32, 32, 4096, 11_008, 102_400, 2048)
    | _LATENT
    | {"n_routed_experts": 64, "n_shared_experts": 2, "moe_intermediate_size": 1407, "first_k_dense_replace": 0},
    "deepseek_v3": _shape(61, 128, 128, 7168, 18_432, 129_280, 4096)
    | _LATENT
    | _EXPERTS
    | {"first_k_dense_replace": 3},
    "deepseek_v32": _shape(61, 128, 128, 7168, 18_432, 129_280, 163_840)
    | _LATENT
    | _EXPERTS
    | {"first_k_dense_replace": 3, "index_topk": 2048, "index_head_dim": 128},
    "glm4": _shape(40, 32, 2, 4096, 13_696, 151_552, 131_072) | {"head_dim": 128},
    "glm4_moe": _shape(46, 96, 8, 4096, 10_944, 151_552, 131_072)
    | _EXPERTS
    | {"head_dim": 128, "n_routed_experts": 128, "moe_intermediate_size": 1408, "first_k_dense_replace": 1},
    "glm4_moe_lite": _shape(47, 20, 20, 2048, 10_240, 154_880, 202_752)
    | _LATENT
    | {
        "q_lora_rank": 768,
        "qk_nope_head_dim": 192,
        "v_head_dim": 256,
        "n_routed_experts": 64,
        "n_shared_experts": 1,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1536,
        "first_k_dense_replace": 1,
    },
    "minimax_m2": _shape(62, 48, 8, 3072, 1536, 200_064, 196_608)
    | {"head_dim": 128, "num_local_experts": 256, "num_experts_per_tok": 8},
    "llama4_text": _shape(48, 40, 8, 5120, 8192, 202_048, 131_072)
    | {
        "head_dim": 128,
        "attention_chunk_size": 8192,
        "no_rope_layer_interval": 4,
        "num_local_experts": 16,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 1,
        "intermediate_size_mlp": 16_384,
    },
    "nemotron_h": _shape(52, 32, 8, 4096, 21_504, 131_072, 4096)
    | {
        "head_dim": 128,
        "mamba_num_heads": 128,
        "mamba_head_dim": 64,
        "ssm_state_size": 128,
        "conv_kernel": 4,
        "n_groups": 8,
        "mamba_ssm_cache_dtype": "float32",
    },
    "granitemoehybrid": _shape(32, 32, 32, 4096, 11_008, 32_000, 2048)
    | {
        "mamba_n_heads": 128,
        "mamba_d_head": 64,
        "mamba_d_state": 256,
        "mamba_d_conv": 4,
        "mamba_n_groups": 1,
        "mamba_expand": 2,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 1024,
    },
}
"""Defaults by the `model_type` of the language model."""
