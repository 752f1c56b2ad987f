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

ALTERNATING: dict[str, object] = {**WINDOWS, "layer_types": ["sliding_attention", "full_attention"] * 3}
"""The layers of gpt-oss in small: windows of 128 tokens and full attention in turn, two groups of equal size."""


def config_folder(path: Path, **changed: object) -> str:
    """The folder of a model that has only its configuration."""
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps({**WINDOWS, **changed}))
    return str(path)
