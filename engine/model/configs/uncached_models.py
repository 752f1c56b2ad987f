"""Models whose prefixes vLLM does not cache by default, and the reason."""

from __future__ import annotations

from kvtool.engine.model.configs.family_layers import count_layers
from kvtool.engine.model.configs.json_object import JsonObject
from kvtool.engine.model.configs.layer_shapes import LayerShape, StateShape, mamba2

_ATTENTION_FREE = ("mamba", "mamba2", "falcon_mamba")
_ENCODER_DECODERS = ("whisper", "bart", "mbart", "t5", "pegasus", "florence2", "nougat", "moonshine", "cohere_asr")
_ENCODERS = ("bert", "roberta", "xlm-roberta", "modernbert", "nomic_bert", "new", "gte", "distilbert", "eurobert")
_STEP_POOLING = "ForProcessRewardModel"


def why_not_cached(config: JsonObject, text: JsonObject, family: str) -> str | None:
    """Return the reason for a file and its language-model part; None where prefixes are cached."""
    named = config.texts("architectures")
    if family in _ATTENTION_FREE:
        return "it has no attention: vLLM caches it only with --enable-prefix-caching, which is experimental"
    if family in _ENCODER_DECODERS or config.flag_or("is_encoder_decoder", False):
        return "it is an encoder-decoder: vLLM caches no prefixes for it"
    causal = config.flag_or("is_causal", text.flag_or("is_causal", True))
    if family in _ENCODERS or not causal or any("Bidirectional" in name for name in named) or _is_bidirectional(text):
        return "its attention is bidirectional, so no prefix can be reused"
    if any(name.endswith(_STEP_POOLING) for name in named):
        return "it scores each step of a text: vLLM caches no prefixes for it"
    if "rswa_window" in config:
        return "it keeps the prompt and a window of the answer: vLLM caches no prefixes for it"
    return None


def _is_bidirectional(text: JsonObject) -> bool:
    """Return whether attention is bidirectional, as in Gemma's embedding models. Models that see images use another value, for
    images only."""
    return text.value("use_bidirectional_attention") in (True, "all")


def attention_free(text: JsonObject, family: str) -> list[LayerShape] | None:
    """Return the layers of a model without attention; None of one with it."""
    if family not in _ATTENTION_FREE:
        return None
    kernel, state = text.integer_or("conv_kernel", 4), text.integer_or("state_size", 16 if family != "mamba2" else 128)
    inner = text.integer_or("expand", 2) * text.integer("hidden_size")
    layer: StateShape
    if family == "mamba2":
        heads, size = text.integer_or("num_heads", 128), text.integer_or("head_dim", 64)
        layer = mamba2(inner, heads, size, state, kernel, text.integer_or("n_groups", 8))
    else:
        inner = text.integer_or("intermediate_size", inner)
        layer = StateShape(channels=inner, kernel=kernel, recurrent=(inner, state), draft_rows=False)
    return [layer] * count_layers(text)
