"""The models that users serve, as their repositories' config.json describe them, and finding a model by name or folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from kvtool.engine.config import DEFAULT_MODEL
from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.model_config import CONFIG_FILE, ModelConfig
from kvtool.engine.model.configs.rope_config import DefaultRope, Llama3Rope

_LLAMA_3_CONTEXT = 131_072
"""`max_position_embeddings` in the config.json of Llama 3.1 and later."""
_VARIANT = re.compile(r"-(instruct|chat|it|hf|base)(?=-|$)")
_CACHED = re.compile(r"models--[^/]+--([^/]+)")
"""A repository's folder in the Hugging Face cache."""
_TUNED = re.compile(r"[-_:](?:instruct|chat|it|hf|base|think(?:ing)?)(?=[-_.:]|$)")
"""Training that leaves all sizes of a model as they are."""
_DATED = re.compile(r"[-_:](?:\d{4}|\d{6}|\d{8})(?=[-_.:]|$)")
"""The date of a release."""
_BITS = re.compile(
    r"[-_.:]((?:nv|mx)?fp(\d+)|b?f(16|32)|int(\d+)|w(\d+)a\d+|i?q(\d)(?:_[a-z0-9]+)*|(\d+)[-_]?bits?)"
    r"(?:[-_](?:dynamic|static|block))?(?=[-_.:]|$)"
)
"""A quantization that says how many bits a weight takes."""
_METHOD = re.compile(r"[-_.:](awq|gptq|gguf|ggml|bnb|exl\d|mlx|hqq|auto[-_]?round|quantized)(?=[-_.:]|$)")
"""A way to quantize, which alone does not say how many bits a weight takes."""
_METHOD_BITS = {"awq": 4, "gptq": 4}
_MOST_NAME = 200
"""Characters of a name that are read."""
_NATIVE_BITS = 16


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


@dataclass(frozen=True, slots=True)
class ServedName:
    """A model's name as servers and logs write it: `words` tell models apart.

    `quantization` is as the name has it, such as `fp8` or `awq`; `bits` of a weight are 0 where only the method is known.
    """

    words: tuple[str, ...]
    quantization: str | None = None
    bits: int = _NATIVE_BITS

    @property
    def has_size(self) -> bool:
        """Return whether it contains a number of parameters, such as `8b`."""
        return any(one.isdigit() and unit in ("b", "m") for one, unit in zip(self.words, self.words[1:], strict=False))


def read_name(name: str) -> ServedName:
    """Read a name: owner, folders, case, separators, tuning and date of release do not matter; a quantization is kept apart."""
    text = name.strip().rstrip("/").lower()[-_MOST_NAME:]
    cached = _CACHED.search(text)
    text = (cached[1] if cached else text.rsplit("/", 1)[-1]).removeprefix("meta-")
    text = _DATED.sub("", _TUNED.sub("", text))
    sized = [(found[1], int(next(filter(None, found.groups()[1:])))) for found in _BITS.finditer(text)]
    methods = _METHOD.findall(text)
    text = _METHOD.sub("", _BITS.sub("", text))
    words = tuple(re.findall(r"[a-z]+|\d+", text)) if text.isascii() else (text,)
    bits = sized[0][1] if sized else _METHOD_BITS.get(methods[0], 0) if methods else _NATIVE_BITS
    if bits >= _NATIVE_BITS:
        return ServedName(words)
    by_method = next((method for method in methods if method in _METHOD_BITS or not sized), None)
    return ServedName(words, by_method or sized[0][0], bits)


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
    raise unknown_model(name, nearest(name, PRESETS))


def unknown_model(name: str, close: Sequence[str]) -> EngineError:
    """Return the error for a name that no preset has, with the nearest presets."""
    shown = f"unknown model `{ascii(name[:80])[1:-1]}`"
    if close:
        shown += f"; did you mean {' or '.join(filter(None, (', '.join(close[:-1]), close[-1])))}?"
    return EngineError(shown, hint=f"give a preset such as {DEFAULT_MODEL}, or a folder with a {CONFIG_FILE}")


def plain_preset(name: str) -> ModelConfig | None:
    """Return the preset of that name or repository in 16 bits, if all its layers are the same full attention."""
    wanted = read_name(name)
    if wanted.quantization is not None:
        return None
    return next((config for config in PRESETS.values() if wanted.words in name_words(config.name, config.source)), None)


def name_words(*names: str) -> set[tuple[str, ...]]:
    """Return the words of several names of one model."""
    return {read_name(name).words for name in names}


def nearest(name: str, known: Iterable[str], most: int = 4) -> list[str]:
    """Return the known names that a name contains, the longest first; without any, those most like it."""
    key, names = preset_key(name)[-_MOST_NAME:], list(known)
    within = sorted((each for each in names if each in key), key=len, reverse=True)
    return (within or get_close_matches(key, names, n=most, cutoff=0.5))[:most]


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
