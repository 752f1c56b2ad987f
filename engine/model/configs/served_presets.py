"""Models with several kinds of layers, or with experts: the keys of their repositories' config.json.

Only keys that differ from the family's defaults are listed.
"""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]


def _qwen35(layers: int, hidden: int, inner: int, heads: int, kv_heads: int, states: int, *, tied: bool) -> Config:
    return {
        "model_type": "qwen3_5_text",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "linear_num_value_heads": states,
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 262_144,
        "tie_word_embeddings": tied,
    }


def _qwen35_moe(layers: int, hidden: int, heads: int, states: int, experts: int, chosen: int, width: int) -> Config:
    return {
        "model_type": "qwen3_5_moe_text",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "linear_num_value_heads": states,
        "num_experts": experts,
        "num_experts_per_tok": chosen,
        "moe_intermediate_size": width,
        "shared_expert_intermediate_size": width,
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 262_144,
    }


def _gemma3(layers: int, hidden: int, inner: int, heads: int, kv_heads: int, size: int) -> Config:
    return {
        "model_type": "gemma3_text",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": size,
        "sliding_window": 1024,
    }


def _gemma2(layers: int, hidden: int, inner: int, heads: int, kv_heads: int, size: int) -> Config:
    config = _gemma3(layers, hidden, inner, heads, kv_heads, size)
    return config | {"model_type": "gemma2", "sliding_window": 4096}


def _gpt_oss(layers: int, experts: int) -> Config:
    return {
        "model_type": "gpt_oss",
        "num_hidden_layers": layers,
        "num_local_experts": experts,
        "quantization_config": {"quant_method": "mxfp4"},
    }


def _deepseek(**changes: Any) -> Config:
    return {
        "model_type": "deepseek_v3",
        "max_position_embeddings": 163_840,
        "num_nextn_predict_layers": 1,
        "quantization_config": {"quant_method": "fp8"},
        **changes,
    }


def _glm45(layers: int, hidden: int, inner: int, experts: int, width: int, dense: int, longest: int) -> Config:
    return {
        "model_type": "glm4_moe",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "n_routed_experts": experts,
        "moe_intermediate_size": width,
        "first_k_dense_replace": dense,
        "attention_bias": True,
        "num_nextn_predict_layers": 1,
        "max_position_embeddings": longest,
    }


def _llama4(experts: int, step: int, longest: int) -> Config:
    return {
        "model_type": "llama4_text",
        "num_local_experts": experts,
        "interleave_moe_layer_step": step,
        "max_position_embeddings": longest,
    }


def _mistral_small(longest: int) -> Config:
    return {
        "model_type": "mistral",
        "num_hidden_layers": 40,
        "hidden_size": 5120,
        "intermediate_size": 32_768,
        "head_dim": 128,
        "vocab_size": 131_072,
        "sliding_window": None,
        "max_position_embeddings": longest,
    }


def _granite_h(layers: str, **changes: Any) -> Config:
    kinds = ["attention" if letter == "*" else "mamba" for letter in layers]
    return {
        "model_type": "granitemoehybrid",
        "num_hidden_layers": len(kinds),
        "layer_types": kinds,
        "mamba_d_state": 128,
        "max_position_embeddings": 131_072,
        "tie_word_embeddings": True,
        **changes,
    }


def _qwen3_moe(layers: int, hidden: int, heads: int, width: int) -> Config:
    return {
        "model_type": "qwen3_moe",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": width,
        "vocab_size": 151_936,
        "max_position_embeddings": 40_960,
    }


_KIMI_FULL = (4, 8, 12, 16, 20, 24, 27)
_QWEN35_9B = _qwen35(32, 4096, 12_288, 16, 4, 32, tied=False)
_QWEN35_27B = _qwen35(64, 5120, 17_408, 24, 4, 48, tied=False)
_QWEN35_35B = _qwen35_moe(40, 2048, 16, 32, 256, 8, 512)

SERVED_PRESETS: dict[str, Config] = {
    "openai/gpt-oss-20b": _gpt_oss(24, 32),
    "openai/gpt-oss-120b": _gpt_oss(36, 128),
    "google/gemma-2-9b": _gemma2(42, 3584, 14_336, 16, 8, 256),
    "google/gemma-2-27b": _gemma2(46, 4608, 36_864, 32, 16, 128),
    "google/gemma-3-4b-it": _gemma3(34, 2560, 10_240, 8, 4, 256),
    "google/gemma-3-12b-it": _gemma3(48, 3840, 15_360, 16, 8, 256),
    "google/gemma-3-27b-it": _gemma3(62, 5376, 21_504, 32, 16, 128),
    "google/gemma-4-26B-A4B-it": {
        "model_type": "gemma4_text",
        "hidden_size": 2816,
        "intermediate_size": 2112,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "num_global_key_value_heads": 2,
        "attention_k_eq_v": True,
        "sliding_window": 1024,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 704,
        "max_position_embeddings": 262_144,
    },
    "google/gemma-4-31B-it": {
        "model_type": "gemma4_text",
        "num_hidden_layers": 60,
        "hidden_size": 5376,
        "intermediate_size": 21_504,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "num_global_key_value_heads": 4,
        "attention_k_eq_v": True,
        "sliding_window": 1024,
        "max_position_embeddings": 262_144,
    },
    "Qwen/Qwen3-30B-A3B": _qwen3_moe(48, 2048, 32, 768),
    "Qwen/Qwen3-235B-A22B": _qwen3_moe(94, 4096, 64, 1536),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": {"model_type": "qwen3_next", "max_position_embeddings": 262_144},
    "Qwen/Qwen3.5-4B": _qwen35(32, 2560, 9216, 16, 4, 32, tied=True),
    "Qwen/Qwen3.5-9B": _QWEN35_9B,
    "Qwen/Qwen3.5-27B": _QWEN35_27B,
    "Qwen/Qwen3.5-35B-A3B": _QWEN35_35B,
    "Qwen/Qwen3.5-397B-A17B": _qwen35_moe(60, 4096, 32, 64, 512, 10, 1024),
    "Qwen/Qwen3.6-27B": _QWEN35_27B,
    "Qwen/Qwen3.6-35B-A3B": _QWEN35_35B,
    "nvidia/Nemotron-H-8B-Base-8K": {
        "model_type": "nemotron_h",
        "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
        "max_position_embeddings": 8192,
    },
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B": {
        "model_type": "nemotron_h",
        "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
        "hidden_size": 2688,
        "intermediate_size": 1856,
        "num_key_value_heads": 2,
        "mamba_num_heads": 64,
        "n_routed_experts": 128,
        "num_experts_per_tok": 6,
        "moe_intermediate_size": 1856,
        "moe_shared_expert_intermediate_size": 3712,
        "max_position_embeddings": 262_144,
    },
    "ibm-granite/granite-4.0-h-small": _granite_h(
        "MMMMM*MMMMMMMMM*MMMMMMMMM*MMMMMMMMM*MMMM",
        hidden_size=4096,
        intermediate_size=768,
        num_key_value_heads=8,
        num_local_experts=72,
        num_experts_per_tok=10,
        shared_intermediate_size=1536,
        vocab_size=100_352,
    ),
    "moonshotai/Kimi-Linear-48B-A3B-Instruct": {
        "model_type": "kimi_linear",
        "num_hidden_layers": 27,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_attention_heads": 32,
        "vocab_size": 163_840,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "num_experts": 256,
        "num_experts_per_token": 8,
        "num_shared_experts": 1,
        "moe_intermediate_size": 1024,
        "first_k_dense_replace": 1,
        "max_position_embeddings": 1_048_576,
        "linear_attn_config": {
            "kda_layers": [layer for layer in range(1, 28) if layer not in _KIMI_FULL],
            "full_attn_layers": list(_KIMI_FULL),
            "num_heads": 32,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
    },
    "moonshotai/Kimi-K2-Instruct": _deepseek(
        num_attention_heads=64,
        num_key_value_heads=64,
        vocab_size=163_840,
        n_routed_experts=384,
        first_k_dense_replace=1,
        max_position_embeddings=131_072,
        num_nextn_predict_layers=0,
    ),
    "deepseek-ai/DeepSeek-V2-Lite": {
        "model_type": "deepseek_v2",
        "num_hidden_layers": 27,
        "hidden_size": 2048,
        "intermediate_size": 10_944,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "q_lora_rank": None,
        "moe_intermediate_size": 1408,
        "num_experts_per_tok": 6,
        "first_k_dense_replace": 1,
        "max_position_embeddings": 163_840,
    },
    "deepseek-ai/DeepSeek-V3": _deepseek(),
    "deepseek-ai/DeepSeek-V3.1": _deepseek(),
    "deepseek-ai/DeepSeek-R1": _deepseek(),
    "deepseek-ai/DeepSeek-V3.2": _deepseek(model_type="deepseek_v32"),
    "zai-org/GLM-4.5-Air": _glm45(46, 4096, 10_944, 128, 1408, 1, 131_072),
    "zai-org/GLM-4.5": _glm45(92, 5120, 12_288, 160, 1536, 3, 131_072),
    "zai-org/GLM-4.6": _glm45(92, 5120, 12_288, 160, 1536, 3, 202_752),
    "zai-org/GLM-4.7": _glm45(92, 5120, 12_288, 160, 1536, 3, 202_752),
    "zai-org/GLM-4.7-Flash": {"model_type": "glm4_moe_lite", "num_nextn_predict_layers": 1},
    "MiniMaxAI/MiniMax-M2": {"model_type": "minimax_m2", "quantization_config": {"quant_method": "fp8"}},
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": _llama4(16, 1, 10_485_760),
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": _llama4(128, 2, 1_048_576),
    "mistralai/Mistral-Small-24B-Instruct-2501": _mistral_small(32_768),
    "microsoft/phi-4": {
        "model_type": "phi3",
        "num_hidden_layers": 40,
        "hidden_size": 5120,
        "intermediate_size": 17_920,
        "num_attention_heads": 40,
        "num_key_value_heads": 10,
        "vocab_size": 100_352,
        "max_position_embeddings": 16_384,
    },
    "allenai/Olmo-3-7B-Instruct": {"model_type": "olmo3", "vocab_size": 100_278, "max_position_embeddings": 65_536},
    "allenai/Olmo-3-32B-Think": {
        "model_type": "olmo3",
        "num_hidden_layers": 64,
        "hidden_size": 5120,
        "intermediate_size": 27_648,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "vocab_size": 100_278,
        "max_position_embeddings": 65_536,
    },
}
"""Keys by the repository."""

PRESET_NAMES = {
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B": "nemotron-3-nano-30b-a3b",
    "nvidia/Nemotron-H-8B-Base-8K": "nemotron-h-8b",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": "llama-4-scout",
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": "llama-4-maverick",
    "mistralai/Mistral-Small-24B-Instruct-2501": "mistral-small-24b",
    "allenai/Olmo-3-32B-Think": "olmo-3-32b",
}
"""Names of presets that are not those of their repositories."""

ALIASES = {"granite-4-h-small": "granite-4.0-h-small"}
"""Other names of presets, beside their beginnings."""
