"""Read a served model from the config.json of any family that vLLM serves."""

from __future__ import annotations

import re
from pathlib import Path

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.family_defaults import DEFAULTS
from kvtool.engine.model.configs.family_layers import FAMILIES, kv_heads
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.json_object import JsonObject
from kvtool.engine.model.configs.layer_shapes import AttentionLayerShape, LayerShape
from kvtool.engine.model.configs.served_model import ServedModel
from kvtool.engine.model.configs.uncached_models import attention_free, why_not_cached
from kvtool.engine.model.configs.weight_count import count_weights

_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys under which models that see or hear nest their language model."""
_TEXT_TYPES = {
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_text",
    "gemma4_unified_text": "gemma4_text",
    "llama4": "llama4_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "deepseek_vl_v2": "deepseek_v2",
    "kimi_k25": "deepseek_v3",
    "mistral3": "mistral",
    "qwen2_vl": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_vl_moe_text": "qwen3_moe",
}
"""Other names of a family's language model, mapped to its own."""
_ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "Phi3ForCausalLM": "phi3",
}
"""Families of files that have no `model_type`, by their architecture."""
_LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen3")
"""Families of which all layers have the same weights, which a geometry counts by itself."""
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "bf16", "float": "bf16"}
"""Servers load float32 checkpoints in 16 bits."""
_KEY = re.compile(r"`(?:[\w.]+\.)?(\w+)`")


def read_served_model(file: Path, name: str) -> ServedModel:
    """Return the model of a config.json; EngineError names the file, and the place of the key that is wrong."""
    try:
        config = JsonObject.read(file)
        return _read(config, name, str(file))
    except EngineError as error:
        raise EngineError(f"{file}{_place(file, error.message)}: {error.message}", hint=error.hint) from error
    except RecursionError as error:
        raise EngineError(f"{file}: nested too deeply") from error


def served_of(values: dict[str, object], name: str, source: str) -> ServedModel:
    """Return the model that a config.json describes."""
    return _read(JsonObject(values), name, source)


def _place(file: Path, message: str) -> str:
    """Return the `:line:column` of the first key that a message names, if the file has it."""
    if (found := _KEY.search(message)) is None:
        return ""
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError):
        return ""
    wanted = f'"{found[1]}"'
    for number, line in enumerate(lines, 1):
        if (at := line.find(wanted)) >= 0:
            return f":{number}:{at + 1}"
    return ""


def _read(config: JsonObject, name: str, source: str) -> ServedModel:
    text, family = _language_model(config)
    off = why_not_cached(config, text, family)
    layers = attention_free(text, family)
    if layers is None:
        if family not in FAMILIES:
            if off is not None:
                return ServedModel(geometry=_bare(text, name), layers=(), caching_off=off, source=source)
            raise EngineError(
                f"unknown model family {family[:40]!a} ({config.named('model_type')})",
                hint=f"kvtool plans {', '.join(FAMILIES)}",
            )
        text = text.over(DEFAULTS.get(family, {}))
        layers = FAMILIES[family](text)
    longest = text.integer("max_position_embeddings") if "max_position_embeddings" in text else None
    if longest is not None and longest < 1:
        raise EngineError(f"{text.named('max_position_embeddings')} must be at least 1, not {longest}")
    chunk = "attention_chunk_size" in text and family != "mimo_v2"
    return ServedModel(
        geometry=_geometry(config, text, family, name, layers),
        layers=tuple(layers),
        dtype=_dtype(config, text),
        mtp_layers=_mtp_layers(text),
        caching_off=off,
        one_group="vLLM turns the hybrid KV cache manager off for chunked attention" if chunk else None,
        sparse="index_topk" in text,
        source=source,
    )


def _language_model(config: JsonObject) -> tuple[JsonObject, str]:
    """Return the part that keeps a KV cache, and its family."""
    text, outer = config, config.text_or("model_type", "")
    while (child := next((part for key in _NESTED if (part := text.child(key)) is not None), None)) is not None:
        text = child
    family = text.text_or("model_type", "") or outer
    if not family:
        named = config.texts("architectures")
        known = [_ARCHITECTURES[each] for each in named if each in _ARCHITECTURES]
        if named and not known:
            raise EngineError(
                f"the architecture {', '.join(named)[:80]!a} is not supported ({config.named('architectures')})",
                hint=f"kvtool plans {', '.join(FAMILIES)}",
            )
        if not known:
            raise EngineError(f"{config.named('model_type')} is missing", hint=f"kvtool plans {', '.join(FAMILIES)}")
        family = known[0]
    return text, _TEXT_TYPES.get(family, family)


def _bare(text: JsonObject, name: str) -> Geometry:
    """Return a model whose layers are unknown."""
    hidden = max(text.integer_or("hidden_size", text.integer_or("d_model", 1)), 1)
    return Geometry(name, 1, hidden, 1, 1, 1, 1, max(text.integer_or("vocab_size", 1), 1), True)


def _geometry(config: JsonObject, text: JsonObject, family: str, name: str, layers: list[LayerShape]) -> Geometry:
    """Return the geometry that predictions and sizes use."""
    tied = text.flag_or("tie_word_embeddings", config.flag_or("tie_word_embeddings", False))
    for key in ("hidden_size", "vocab_size"):
        if text.integer(key) < 1:
            raise EngineError(f"{text.named(key)} must be at least 1, not {text.integer(key)}")
    quantized = config.child("quantization_config") or text.child("quantization_config")
    first = next((layer for layer in layers if isinstance(layer, AttentionLayerShape)), None)
    heads = text.integer_or("num_attention_heads", 1)
    counted = count_weights(text, family, quantized, tied) if first is not None else None
    alike = counted is not None and family in _LLAMA_LIKE and quantized is None
    return Geometry(
        name=name,
        num_layers=text.integer("num_hidden_layers"),
        hidden_size=text.integer("hidden_size"),
        num_heads=heads,
        num_kv_heads=1 if first is None or first.kind == "mla" else kv_heads(text),
        head_dim=1 if first is None else first.head_size,
        intermediate_size=text.integer_or("intermediate_size", text.integer_or("moe_intermediate_size", 1)),
        vocab_size=text.integer("vocab_size"),
        tied_embeddings=tied,
        max_position_embeddings=text.integer("max_position_embeddings") if "max_position_embeddings" in text else None,
        vector_parameters=counted.vectors if counted is not None else 0,
        counted=None if alike else counted,
    )


def _dtype(config: JsonObject, text: JsonObject) -> str:
    names = [each.text_or(key, "") for each in (config, text) for key in ("dtype", "torch_dtype")]
    name = next((each.removeprefix("torch.") for each in names if each), "bfloat16")
    if name not in _DTYPES:
        raise EngineError(f"`dtype` is {name[:40]!a}", hint=f"use one of {', '.join(_DTYPES)}")
    return _DTYPES[name]


def _mtp_layers(text: JsonObject) -> int:
    return max(text.integer_or("num_nextn_predict_layers", text.integer_or("mtp_num_hidden_layers", 0)), 0)
