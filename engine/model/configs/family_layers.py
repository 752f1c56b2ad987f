"""Build the list of a family's layers from config.json, as vLLM does."""

from __future__ import annotations

from collections.abc import Callable

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.json_object import JsonObject
from kvtool.engine.model.configs.layer_shapes import (
    AttentionLayerShape,
    LayerShape,
    StateShape,
    attention,
    chunked,
    delta_net,
    kimi_delta,
    latent,
    mamba2,
)

Layers = list[LayerShape]

MOST_LAYERS = 10_000
"""Bound against broken files, which would otherwise take all memory; published models have about 100 layers."""
_FULL = ("full_attention", "attention")
_SLIDING = "sliding_attention"
_CHUNKED = "chunked_attention"
_LINEAR = ("linear_attention", "mamba")


def count_layers(config: JsonObject, key: str = "num_hidden_layers") -> int:
    """Return the number of layers of the model."""
    count = config.integer(key)
    if not 1 <= count <= MOST_LAYERS:
        raise EngineError(f"{config.named(key)} must be from 1 to {MOST_LAYERS:,}, not {count}")
    return count


def layer_kinds(config: JsonObject, known: tuple[str, ...]) -> list[str]:
    """Return `layer_types`, one of `known` for each layer; empty if the file has none."""
    kinds, count = config.texts("layer_types") or config.texts("layers_block_type"), count_layers(config)
    key = "layer_types" if config.texts("layer_types") else "layers_block_type"
    if kinds and len(kinds) != count:
        raise EngineError(
            f"{config.named(key)} has {len(kinds)} entries, {config.named('num_hidden_layers')} says {count} layers"
        )
    for at, kind in enumerate(kinds):
        if kind not in known:
            raise EngineError(
                f"{config.named(key)}: entry {at + 1} is {kind[:40]!a}, which kvtool does not know for this family",
                hint=f"known entries: {', '.join(known)}",
            )
    return kinds


def at_least(config: JsonObject, key: str, least: int = 1) -> int:
    """Return a number that must be there, and that large."""
    value = config.integer(key)
    if value < least:
        raise EngineError(f"{config.named(key)} must be at least {least}, not {value}")
    return value


def kv_heads(config: JsonObject) -> int:
    """Return the number of K/V heads; by default it equals the number of query heads."""
    heads = at_least(config, "num_attention_heads")
    shared = at_least(config, "num_key_value_heads") if "num_key_value_heads" in config else heads
    if heads % shared:
        raise EngineError(
            f"{heads} attention heads cannot share {shared} K/V heads evenly "
            f"({config.named('num_attention_heads')}, {config.named('num_key_value_heads')})"
        )
    return shared


def head_size(config: JsonObject) -> int:
    """Return the given size, or the hidden size divided by the heads."""
    if config.integer_or("head_dim", 0) > 0:
        return config.integer("head_dim")
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    if heads < 1 or hidden % heads or hidden < 1:
        raise EngineError(
            f"{config.named('hidden_size')} {hidden} is not a multiple of {config.named('num_attention_heads')} {heads}, "
            f"and {config.named('head_dim')} is missing"
        )
    return hidden // heads


def window_size(config: JsonObject) -> int:
    """Return `sliding_window`, which must be there."""
    return at_least(config, "sliding_window")


def _pattern(config: JsonObject, key: str) -> list[str]:
    """Return every so-many-th layer sees everything, the others a window."""
    every, layers = at_least(config, key), count_layers(config)
    if config.is_written(key) and every > layers:
        raise EngineError(f"{config.named(key)} is {every}, longer than its {layers} layers")
    return [_SLIDING if (at + 1) % every else _FULL[0] for at in range(layers)]


def _plain(config: JsonObject) -> Layers:
    """Return equal attention layers, with the model's one window if it has any; `layer_types` overrides this."""
    heads, size = kv_heads(config), head_size(config)
    kinds = layer_kinds(config, (*_FULL, _SLIDING))
    if not kinds:
        window = window_size(config) if "sliding_window" in config else None
        return [attention(heads, size, window=window)] * count_layers(config)
    return [attention(heads, size, window=window_size(config) if kind == _SLIDING else None) for kind in kinds]


def _full(config: JsonObject) -> Layers:
    return [attention(kv_heads(config), head_size(config))] * count_layers(config)


def _qwen(config: JsonObject) -> Layers:
    """Return the layers of Qwen 2 and 3: they have a window only with `use_sliding_window`, and vLLM gives it to all layers or
    none."""
    if not config.flag_or("use_sliding_window", False) or "sliding_window" not in config:
        if _SLIDING in layer_kinds(config, (*_FULL, _SLIDING)):
            raise EngineError(
                f"{config.named('layer_types')} has {_SLIDING}, but {config.named('use_sliding_window')} is off or there is "
                f"no {config.named('sliding_window')}"
            )
        return _full(config)
    count = count_layers(config)
    kinds = layer_kinds(config, (*_FULL, _SLIDING))
    first = config.integer_or("max_window_layers", 28)
    windowed = sum(kind == _SLIDING for kind in kinds) if kinds else max(count - max(first, 0), 0)
    if windowed not in (0, count):
        raise EngineError(
            f"{windowed} of {count} layers have a window ({config.named('max_window_layers')}), which vLLM does not support: "
            "use all layers or none"
        )
    window = window_size(config) if windowed else None
    return [attention(kv_heads(config), head_size(config), window=window)] * count


def _interleaved(config: JsonObject) -> Layers:
    """Return windows and full attention in turn: Gemma 2 and 3, OLMo 3, Cohere 2."""
    heads, size = kv_heads(config), head_size(config)
    kinds = layer_kinds(config, (*_FULL, _SLIDING)) or _pattern(config, "sliding_window_pattern")
    return [attention(heads, size, window=window_size(config) if kind == _SLIDING else None) for kind in kinds]


def _gpt_oss(config: JsonObject) -> Layers:
    """Return the layers of gpt-oss: vLLM gives every other layer a window, beginning with the first, and ignores `layer_types`."""
    heads, size = kv_heads(config), head_size(config)
    layer_kinds(config, (*_FULL, _SLIDING))
    window = window_size(config)
    return [attention(heads, size, window=None if at % 2 else window) for at in range(count_layers(config))]


def _gemma4(config: JsonObject) -> Layers:
    """Return full attention has larger heads; the last layers may read the keys and values of earlier ones."""
    kinds = layer_kinds(config, (*_FULL, _SLIDING)) or _pattern(config, "sliding_window_pattern")
    heads, wide = kv_heads(config), config.integer("global_head_dim")
    few = config.integer_or("num_global_key_value_heads", heads) if config.flag_or("attention_k_eq_v", False) else heads
    kinds[-1] = _FULL[0]
    shared = config.integer_or("num_kv_shared_layers", 0)
    if not 0 <= shared < len(kinds):
        raise EngineError(f"{config.named('num_kv_shared_layers')} is {shared} of {len(kinds)} layers")
    sliding = attention(heads, head_size(config), window=window_size(config))
    return [sliding if kind == _SLIDING else attention(few, wide) for kind in kinds[: len(kinds) - shared]]


def _llama4(config: JsonObject) -> Layers:
    """Return chunks in the layers that rotate, full attention in the others."""
    heads, size, count = kv_heads(config), head_size(config), count_layers(config)
    if kinds := layer_kinds(config, (*_FULL, _CHUNKED)):
        rotated = [kind == _CHUNKED for kind in kinds]
    elif flags := config.integers("no_rope_layers"):
        rotated = [flag != 0 for flag in flags]
    else:
        every = at_least(config, "no_rope_layer_interval")
        rotated = [(at + 1) % every != 0 for at in range(count)]
    if len(rotated) != count:
        raise EngineError(
            f"{config.named('no_rope_layers')} has {len(rotated)} entries, {config.named('num_hidden_layers')} says {count} layers"
        )
    if "attention_chunk_size" not in config:
        return _full(config)
    local = chunked(heads, size, at_least(config, "attention_chunk_size"))
    return [local if each else attention(heads, size) for each in rotated]


def _latent(config: JsonObject) -> Layers:
    """Return layers of MLA; DeepSeek V3.2 also keeps the keys of an index for each layer, with a scale for each 128 of their
    numbers."""
    if "kv_lora_rank" not in config:
        return _full(config)
    kv_heads(config)
    layer = latent(at_least(config, "kv_lora_rank"), at_least(config, "qk_rope_head_dim", 0))
    if "index_topk" not in config:
        return [layer] * count_layers(config)
    size = at_least(config, "index_head_dim")
    index = AttentionLayerShape(
        kind="mla", kv_heads=1, head_size=size + size // 128 * 4, value_size=0, dtype="fp8_e4m3"
    )
    return [index, layer] * count_layers(config)


def _linear(config: JsonObject, state: StateShape) -> Layers:
    """Return linear attention mixed with plain attention: by `layer_types`, or with every n-th layer plain."""
    kinds = layer_kinds(config, (*_FULL, *_LINEAR))
    if not kinds:
        every = at_least(config, "full_attention_interval")
        kinds = [_LINEAR[0] if (at + 1) % every else _FULL[0] for at in range(count_layers(config))]
    plain = attention(kv_heads(config), head_size(config)) if set(kinds) & set(_FULL) else None
    return [state if kind in _LINEAR or plain is None else plain for kind in kinds]


def _state_dtype(config: JsonObject, key: str) -> str:
    name = config.text_or(key, "auto")
    if name not in ("auto", "float32", "float16", "bfloat16"):
        raise EngineError(f"{config.named(key)} is {name[:40]!a}", hint="float32, bfloat16, float16 or auto")
    return name


def _qwen_next(config: JsonObject) -> Layers:
    sizes = ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")
    keys, values, key, value = (at_least(config, f"linear_{name}") for name in sizes)
    kernel = at_least(config, "linear_conv_kernel_dim", 2)
    return _linear(config, delta_net(keys, values, key, value, kernel, _state_dtype(config, "mamba_ssm_dtype")))


def _kimi_linear(config: JsonObject) -> Layers:
    """Return layers are counted from 1 in `linear_attn_config`."""
    count = count_layers(config)
    linear = config.child("linear_attn_config")
    if linear is None:
        return _latent(config)
    numbers = set(linear.integers("kda_layers"))
    if beyond := [number for number in numbers if not 1 <= number <= count]:
        raise EngineError(f"{linear.named('kda_layers')} has layer {beyond[0]} of {count}")
    kernel = at_least(linear, "short_conv_kernel_size", 2)
    state = kimi_delta(at_least(linear, "num_heads"), at_least(linear, "head_dim"), kernel)
    plain = latent(at_least(config, "kv_lora_rank"), at_least(config, "qk_rope_head_dim", 0))
    return [state if number in numbers else plain for number in range(1, count + 1)]


_PATTERN = {"M": "mamba", "*": "attention", "-": "", "E": ""}


def _nemotron_h(config: JsonObject) -> Layers:
    """Return a letter for each layer: Mamba 2, attention (*), and MLPs (- and E), which keep nothing."""
    pattern = config.text_or("hybrid_override_pattern", "")
    if not pattern:
        kinds = layer_kinds(config, (*_FULL, *_LINEAR, "moe", "mlp"))
        letters = {**dict.fromkeys(_FULL, "*"), **dict.fromkeys(_LINEAR, "M")}
        pattern = "".join(letters.get(kind, "-") for kind in kinds)
    if not pattern:
        raise EngineError(f"{config.named('hybrid_override_pattern')} is missing")
    count = count_layers(config)
    if len(pattern) != count:
        raise EngineError(
            f"{config.named('hybrid_override_pattern')} has {len(pattern)} layers, "
            f"{config.named('num_hidden_layers')} says {count}"
        )
    if unknown := [letter for letter in pattern if letter not in _PATTERN]:
        raise EngineError(
            f"{config.named('hybrid_override_pattern')} has {unknown[0]!a}, which kvtool does not know",
            hint=f"known letters: {' '.join(_PATTERN)}",
        )
    heads, size = at_least(config, "mamba_num_heads"), at_least(config, "mamba_head_dim")
    state = mamba2(
        heads * size,
        heads,
        size,
        at_least(config, "ssm_state_size"),
        at_least(config, "conv_kernel", 2),
        at_least(config, "n_groups", 0),
        _state_dtype(config, "mamba_ssm_cache_dtype"),
    )
    plain = attention(kv_heads(config), head_size(config))
    return [state if letter == "M" else plain for letter in pattern if _PATTERN[letter]]


def _granite_hybrid(config: JsonObject) -> Layers:
    """Return some Granite 4 have the file of a hybrid, and attention in all layers."""
    if not layer_kinds(config, (*_FULL, *_LINEAR)):
        raise EngineError(f"{config.named('layer_types')} is missing")
    inner, heads = at_least(config, "mamba_expand") * at_least(config, "hidden_size"), at_least(config, "mamba_n_heads")
    size = at_least(config, "mamba_d_head") if isinstance(config.value("mamba_d_head"), int) else inner // heads
    state, groups = at_least(config, "mamba_d_state"), at_least(config, "mamba_n_groups", 0)
    return _linear(config, mamba2(inner, heads, size, state, at_least(config, "mamba_d_conv", 2), groups))


FAMILIES: dict[str, Callable[[JsonObject], Layers]] = {
    **dict.fromkeys(("llama", "mistral", "ministral3", "mixtral", "phi3", "starcoder2"), _plain),
    **dict.fromkeys(("gemma", "glm4", "glm4_moe", "minimax_m2", "granite", "granitemoe", "olmo2", "qwen3_moe"), _full),
    **dict.fromkeys(("qwen2", "qwen3", "qwen2_moe"), _qwen),
    **dict.fromkeys(("gemma2", "gemma3_text", "olmo3", "cohere2"), _interleaved),
    "gpt_oss": _gpt_oss,
    "gemma4_text": _gemma4,
    "llama4_text": _llama4,
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe_lite"), _latent),
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), _qwen_next),
    "kimi_linear": _kimi_linear,
    "nemotron_h": _nemotron_h,
    "granitemoehybrid": _granite_hybrid,
}
"""Builders of layers by the `model_type` of the language model."""
