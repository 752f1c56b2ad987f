"""The models that users serve, as their repositories' config.json describe them, and finding a model by name or folder."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.model_config import CONFIG_FILE, ModelConfig
from kvtool.engine.model.configs.rope_config import DefaultRope, Llama3Rope

_LLAMA_3_CONTEXT = 131_072
"""`max_position_embeddings` in the config.json of Llama 3.1 and later."""
_VARIANT = re.compile(r"-(instruct|chat|it|hf|base)(?=-|$)")


def _llama(
    repository: str,
    layers: int,
    hidden: int,
    heads: int,
    head_dim: int,
    inner: int,
    *,
    rope_factor: float,
    tied: bool = False,
) -> ModelConfig:
    return ModelConfig(
        vocab_size=128_256,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=head_dim,
        rope=Llama3Rope(500_000.0, rope_factor, 1.0, 4.0, 8192),
        tie_word_embeddings=tied,
        max_position_embeddings=_LLAMA_3_CONTEXT,
        dtype="bfloat16",
        name=preset_key(repository),
        source=f"meta-llama/{repository}",
    )


def _qwen2(
    repository: str,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    inner: int,
    *,
    context: int,
    eps: float = 1e-6,
    vocab_size: int = 152_064,
    tied: bool = False,
) -> ModelConfig:
    return ModelConfig(
        vocab_size=vocab_size,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=hidden // heads,
        rms_norm_eps=eps,
        rope=DefaultRope(1_000_000.0),
        tie_word_embeddings=tied,
        qkv_bias=True,
        max_position_embeddings=context,
        dtype="bfloat16",
        name=preset_key(repository),
        source=f"Qwen/{repository}",
    )


def _qwen3(repository: str, layers: int, hidden: int, heads: int, inner: int, *, tied: bool = False) -> ModelConfig:
    return ModelConfig(
        vocab_size=151_936,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
        rms_norm_eps=1e-6,
        rope=DefaultRope(1_000_000.0),
        tie_word_embeddings=tied,
        qk_norm=True,
        max_position_embeddings=40_960,
        dtype="bfloat16",
        name=preset_key(repository),
        source=f"Qwen/{repository}",
    )


def preset_key(name: str) -> str:
    """Return the key of a model's lookup: its name without owner, tuning (instruct and the like) and case."""
    return _VARIANT.sub("", name.rsplit("/", 1)[-1].lower()).removeprefix("meta-")


PRESETS = {
    config.name: config
    for config in (
        _llama("Llama-3.2-1B", 16, 2048, 32, 64, 8192, rope_factor=32.0, tied=True),
        _llama("Llama-3.2-3B", 28, 3072, 24, 128, 8192, rope_factor=32.0, tied=True),
        _llama("Llama-3.1-8B", 32, 4096, 32, 128, 14_336, rope_factor=8.0),
        _llama("Llama-3.1-70B", 80, 8192, 64, 128, 28_672, rope_factor=8.0),
        _llama("Llama-3.3-70B-Instruct", 80, 8192, 64, 128, 28_672, rope_factor=8.0),
        _llama("Llama-3.1-405B", 126, 16_384, 128, 128, 53_248, rope_factor=8.0),
        ModelConfig(
            vocab_size=32_768,
            hidden_size=4096,
            intermediate_size=14_336,
            num_hidden_layers=32,
            num_attention_heads=32,
            num_key_value_heads=8,
            head_dim=128,
            rope=DefaultRope(1_000_000.0),
            max_position_embeddings=32_768,
            dtype="bfloat16",
            name="mistral-7b",
            source="mistralai/Mistral-7B-v0.3",
        ),
        _qwen2("Qwen2.5-0.5B", 24, 896, 14, 2, 4864, context=32_768, vocab_size=151_936, tied=True),
        _qwen2("Qwen2.5-1.5B", 28, 1536, 12, 2, 8960, context=131_072, vocab_size=151_936, tied=True),
        _qwen2("Qwen2.5-3B", 36, 2048, 16, 2, 11_008, context=32_768, vocab_size=151_936, tied=True),
        _qwen2("Qwen2.5-7B", 28, 3584, 28, 4, 18_944, context=131_072),
        _qwen2("Qwen2.5-14B", 48, 5120, 40, 8, 13_824, context=131_072, eps=1e-5),
        _qwen2("Qwen2.5-32B", 64, 5120, 40, 8, 27_648, context=131_072, eps=1e-5),
        _qwen2("Qwen2.5-72B", 80, 8192, 64, 8, 29_568, context=131_072, eps=1e-5),
        _qwen3("Qwen3-0.6B", 28, 1024, 16, 3072, tied=True),
        _qwen3("Qwen3-1.7B", 28, 2048, 16, 6144, tied=True),
        _qwen3("Qwen3-4B", 36, 2560, 32, 9728, tied=True),
        _qwen3("Qwen3-8B", 36, 4096, 32, 12_288),
        _qwen3("Qwen3-14B", 40, 5120, 40, 17_408),
        _qwen3("Qwen3-32B", 64, 5120, 64, 25_600),
    )
}


def find_model(name: str) -> ModelConfig:
    """Return a model by its folder or config.json, by the name of a preset, or by the HF id of a preset's repository or of an
    instruction-tuned sibling."""
    if (file := config_file(name)) is not None:
        return ModelConfig.from_hf(file)
    if (config := plain_preset(name)) is not None:
        return config
    close = get_close_matches(preset_key(name), PRESETS, n=1)
    raise EngineError(
        f"unknown model `{ascii(name[:80])[1:-1]}`" + (f"; did you mean {close[0]}?" if close else ""),
        hint=f"one of {', '.join(PRESETS)}, or a folder with a {CONFIG_FILE}",
    )


def plain_preset(name: str) -> ModelConfig | None:
    """Return the preset of that name or repository, if all its layers are the same full attention."""
    key = preset_key(name)
    return next((config for config in PRESETS.values() if key in (config.name, preset_key(config.source))), None)


def config_file(name: str) -> Path | None:
    """Return the path of the config.json, also inside a folder; None where the name can only be a preset."""
    path = model_path(name)
    if name and path.is_dir():
        if not (path / CONFIG_FILE).is_file():
            raise EngineError(f"{name}: the folder has no {CONFIG_FILE}")
        return path / CONFIG_FILE
    if name and path.suffix == ".json" and path.is_file():
        return path
    if path.suffix == ".json" or name.startswith((".", "/", "~")):
        raise EngineError(f"{name}: no such file or folder")
    return None


def model_path(name: str | Path) -> Path:
    """Return the path that a name would be, whether or not there is anything."""
    try:
        return Path(name).expanduser()
    except RuntimeError:  # ~ of an unknown user
        return Path(name)
