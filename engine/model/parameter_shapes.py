"""Names and shapes of a complete checkpoint, as Hugging Face's classes write them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.experts import Experts
from kvtool.engine.model.latent import LatentDims

Shape = tuple[int, ...]

EMBEDDING, HEAD, NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"
CORRECTION = "mlp.gate.e_score_correction_bias"
_SHOWN = 4
"""Names of tensors in an error message; the rest is counted."""
_MISMATCH_HINT = "use config.json and weights of the same model"


def parameter_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Return the shapes of the whole model."""
    shapes: dict[str, Shape] = {EMBEDDING: (config.vocab_size, config.hidden_size)}
    kinds: dict[bool, dict[str, Shape]] = {}
    for index in range(config.num_hidden_layers):
        kind = has_experts(config, index)
        if kind not in kinds:
            kinds[kind] = layer_shapes(config, has_experts=kind)
        shapes |= {f"model.layers.{index}.{name}": shape for name, shape in kinds[kind].items()}
    shapes[NORM] = (config.hidden_size,)
    if not config.tie_word_embeddings:
        shapes[HEAD] = (config.vocab_size, config.hidden_size)
    return shapes


def parameter_count(config: ModelConfig) -> int:
    """Return the count of the whole model, without a list of its layers, which may be absurdly many."""
    layers, experts = config.num_hidden_layers, config.experts
    sparse = 0 if experts is None else max(layers - experts.dense_layers, 0)
    count = config.hidden_size * (1 + config.vocab_size * (1 if config.tie_word_embeddings else 2))
    for number, kind in ((layers - sparse, False), (sparse, True)):
        if number:
            count += number * sum(math.prod(shape) for shape in layer_shapes(config, has_experts=kind).values())
    return count


def has_experts(config: ModelConfig, layer: int) -> bool:
    """Return whether a layer has experts in place of an MLP."""
    return config.experts is not None and layer >= config.experts.dense_layers


def layer_shapes(config: ModelConfig, *, has_experts: bool) -> dict[str, Shape]:
    """Return the shapes of a layer, without the layer's own name."""
    hidden = config.hidden_size
    shapes: dict[str, Shape] = {"input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,)}
    if config.traits.output_norms:
        shapes |= {f"{name}_feedforward_layernorm.weight": (hidden,) for name in ("pre", "post")}
    if config.latent is None:
        shapes |= _grouped(config)
    else:
        shapes |= _latent(config, config.latent)
    if not has_experts or config.experts is None:
        return shapes | _mlp("mlp", hidden, config.intermediate_size, bias=config.mlp_bias)
    return shapes | (
        _experts(config, config.experts) if config.experts.clamped is None else _clamped(config, config.experts)
    )


def _projections(rows: dict[str, tuple[int, int, bool]]) -> dict[str, Shape]:
    """Return weights, and biases where they exist, for (out, in, bias)."""
    shapes: dict[str, Shape] = {}
    for name, (out, columns, bias) in rows.items():
        shapes[f"{name}.weight"] = (out, columns)
        if bias:
            shapes[f"{name}.bias"] = (out,)
    return shapes


def _grouped(config: ModelConfig) -> dict[str, Shape]:
    hidden, dim = config.hidden_size, config.head_dim
    q_size, kv_size = config.num_attention_heads * dim, config.num_key_value_heads * dim
    shapes: dict[str, Shape] = {}
    if config.qk_norm:
        shapes |= {"self_attn.q_norm.weight": (dim,), "self_attn.k_norm.weight": (dim,)}
    if config.traits.attention_sinks:
        shapes["self_attn.sinks"] = (config.num_attention_heads,)
    return shapes | _projections(
        {
            "self_attn.q_proj": (q_size, hidden, config.qkv_bias),
            "self_attn.k_proj": (kv_size, hidden, config.qkv_bias),
            "self_attn.v_proj": (kv_size, hidden, config.qkv_bias),
            "self_attn.o_proj": (hidden, q_size, config.output_bias),
        }
    )


def _latent(config: ModelConfig, latent: LatentDims) -> dict[str, Shape]:
    hidden, heads = config.hidden_size, config.num_attention_heads
    query, bias = heads * latent.query_dim, config.qkv_bias
    if latent.query_rank is None:
        shapes = _projections({"self_attn.q_proj": (query, hidden, False)})
    else:
        shapes = _projections(
            {
                "self_attn.q_a_proj": (latent.query_rank, hidden, bias),
                "self_attn.q_b_proj": (query, latent.query_rank, False),
            }
        )
        shapes["self_attn.q_a_layernorm.weight"] = (latent.query_rank,)
    shapes["self_attn.kv_a_layernorm.weight"] = (latent.kv_rank,)
    return shapes | _projections(
        {
            "self_attn.kv_a_proj_with_mqa": (latent.width, hidden, bias),
            "self_attn.kv_b_proj": (heads * (latent.nope_dim + latent.value_dim), latent.kv_rank, False),
            "self_attn.o_proj": (hidden, heads * latent.value_dim, config.output_bias),
        }
    )


def _mlp(name: str, hidden: int, inner: int, *, bias: bool = False) -> dict[str, Shape]:
    return _projections(
        {
            f"{name}.gate_proj": (inner, hidden, bias),
            f"{name}.up_proj": (inner, hidden, bias),
            f"{name}.down_proj": (hidden, inner, bias),
        }
    )


def _experts(config: ModelConfig, experts: Experts) -> dict[str, Shape]:
    hidden = config.hidden_size
    shapes: dict[str, Shape] = {"mlp.gate.weight": (experts.count, hidden)}
    if experts.corrected:
        shapes[CORRECTION] = (experts.count,)
    for expert in range(experts.count):
        shapes |= _mlp(f"mlp.experts.{expert}", hidden, experts.intermediate_size)
    if experts.shared_size:
        shapes |= _mlp("mlp.shared_experts", hidden, experts.shared_size, bias=config.mlp_bias)
    return shapes


def _clamped(config: ModelConfig, experts: Experts) -> dict[str, Shape]:
    hidden, count, inner = config.hidden_size, experts.count, experts.intermediate_size
    return {
        "mlp.router.weight": (count, hidden),
        "mlp.router.bias": (count,),
        "mlp.experts.gate_up_proj": (count, hidden, 2 * inner),
        "mlp.experts.gate_up_proj_bias": (count, 2 * inner),
        "mlp.experts.down_proj": (count, inner, hidden),
        "mlp.experts.down_proj_bias": (count, hidden),
    }


def check_names(config: ModelConfig, found: Iterable[str], where: str) -> list[str]:
    """Return the names of `found` that the decoder uses, in its order; EngineError unless they are exactly the model's.

    Ignored names: a tied head that is written out, the rotary frequencies of old versions of transformers, which follow from the
    config, and DeepSeek's layers after the last, which predict further tokens.
    """
    expected = parameter_shapes(config)
    found = dict.fromkeys(found)  # `in` of a lazy state dict would read the tensor
    aside = {HEAD} if config.tie_word_embeddings else set()

    def is_extra(name: str) -> bool:
        return name not in expected and name not in aside and not name.endswith(".rotary_emb.inv_freq")

    extra = [name for name in found if is_extra(name) and not _predicts_further(config, name)]
    for problem, names in (("lacks", [name for name in expected if name not in found]), ("has the unknown", extra)):
        if names:
            raise EngineError(f"{where} {problem} {_listed(names)}", hint=_MISMATCH_HINT)
    return [name for name in found if name in expected]


def check_shapes(expected: Mapping[str, Shape], found: Mapping[str, Shape], where: str) -> None:
    """Raise EngineError unless tensors of these names have the shapes from `parameter_shapes`."""
    for name, shape in found.items():
        if name in expected and shape != expected[name]:
            raise EngineError(
                f"{where}: {name} is {list(shape)}, not {list(expected[name])} as the config says",
                hint=_MISMATCH_HINT,
            )


def _listed(names: list[str]) -> str:
    shown = ", ".join(name if name.isprintable() else ascii(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _predicts_further(config: ModelConfig, name: str) -> bool:
    """Return whether a tensor is in a layer after the last, as in DeepSeek V3's checkpoints."""
    before, _, rest = name.partition("model.layers.")
    number = rest.partition(".")[0]
    is_behind = number.isdecimal() and len(number) < 8 and int(number) >= config.num_hidden_layers
    return config.latent is not None and not before and is_behind
