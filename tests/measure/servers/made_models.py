"""Configurations of small models with several KV cache groups."""

from __future__ import annotations

import json
from pathlib import Path

WINDOWS: dict[str, object] = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "layer_types": [*(["sliding_attention"] * 5), "full_attention"],
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_size": 128,
    "intermediate_size": 352,
    "hidden_activation": "gelu_pytorch_tanh",
    "sliding_window": 128,
    "max_position_embeddings": 8192,
    "vocab_size": 512,
    "rms_norm_eps": 1e-6,
    "dtype": "float32",
    "tie_word_embeddings": True,
}
"""Gemma 3 in small: five layers with a window of 128 tokens, and one with full attention."""

_YARN = {
    "rope_type": "yarn",
    "rope_theta": 150_000,
    "factor": 2.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": 4096,
    "truncate": False,
}
GPT_OSS: dict[str, object] = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "sliding_window": 128,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 512,
    "max_position_embeddings": 8192,
    "initial_context_length": 4096,
    "rms_norm_eps": 1e-5,
    "swiglu_limit": 7.0,
    "attention_bias": True,
    "rope_theta": 150_000,
    "rope_scaling": _YARN,
    "rope_parameters": _YARN,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}
"""gpt-oss in small: windows of 128 tokens and full attention in turn, two groups of equal size; experts, and attention sinks."""


def config_folder(path: Path, **changed: object) -> str:
    """The folder of a model that has only its configuration."""
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps({**WINDOWS, **changed}))
    return str(path)
