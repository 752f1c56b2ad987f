"""Count the weights of a model from its config.json, and the weights that one token meets."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.engine.model.configs.json_object import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightCount:
    """Counts for the language model; parts that see images or predict further tokens are not included.

    `active` counts the numbers of `matrices` and `experts` that one token is multiplied with. `bits` is the size of a number of
    the published matrices, and `expert_bits` that of experts, scales included.
    """

    embeddings: int
    matrices: int
    experts: int
    vectors: int
    active: int
    bits: float = 16.0
    expert_bits: float = 16.0
    note: str | None = None
    """The quantization, or a note that its size is unknown."""

    @property
    def total(self) -> int:
        """Return the sum of all weights."""
        return self.embeddings + self.matrices + self.experts + self.vectors

    def stored_bytes(self, tensor_parallel: int) -> int:
        """Return the bytes on each accelerator: its part of all matrices, and all norms and biases."""
        matrices = (self.matrices * self.bits + self.experts * self.expert_bits + self.embeddings * 16) / 8
        return -(-int(matrices) // tensor_parallel) + 2 * self.vectors


@dataclass(slots=True)
class _Tally:
    """Numbers of one layer."""

    matrices: int = 0
    experts: int = 0
    vectors: int = 0
    active: int = 0

    def dense(self, count: int) -> None:
        self.matrices += count
        self.active += count


def count_weights(config: JsonObject, family: str, quantized: JsonObject | None, tied: bool) -> WeightCount:
    """Return the weights of a language model of a known family."""
    hidden, layers = config.integer("hidden_size"), config.integer("num_hidden_layers")
    whole = _Tally()
    for at in range(layers):
        _mixer(whole, config, family, at, hidden)
        _mlp(whole, config, family, at, hidden)
        whole.vectors += _NORMS.get(family, 2) * hidden
    vocabulary = config.integer("vocab_size") * hidden
    bits, expert_bits, note = bits_of_weights(quantized)
    return WeightCount(
        embeddings=vocabulary if tied else 2 * vocabulary,
        matrices=whole.matrices,
        experts=whole.experts,
        vectors=whole.vectors + hidden,
        active=whole.active,
        bits=bits,
        expert_bits=expert_bits,
        note=note,
    )


_SCALE_BITS = 0.25
"""Bits of a scale and a zero per number, about: AWQ and GPTQ with groups of 128 numbers."""

_NORMS = {"gemma2": 4, "gemma3_text": 4, "gemma4_text": 4, "nemotron_h": 1, "glm4": 4, "cohere2": 1}
"""Norms of a layer, where they are not two."""
_QUERY_NORMS = ("qwen3", "qwen3_moe", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "gemma3_text", "gemma4_text")
_QKV_BIAS = ("qwen2", "qwen2_moe")


def _mixer(whole: _Tally, config: JsonObject, family: str, at: int, hidden: int) -> None:
    """Count attention or its replacement."""
    kind = _mixer_kind(config, family, at)
    if kind == "mamba":
        _mamba(whole, config, family, hidden)
    elif kind == "delta":
        _delta(whole, config, family, hidden)
    elif kind == "latent":
        _latent(whole, config, hidden)
    elif kind == "plain":
        _attention(whole, config, family, at, hidden)


def _mixer_kind(config: JsonObject, family: str, at: int) -> str:
    kinds = config.texts("layer_types") or config.texts("layers_block_type")
    if family == "nemotron_h":
        pattern = config.text_or("hybrid_override_pattern", "")
        letter = (
            pattern[at : at + 1]
            if pattern
            else {"attention": "*", "full_attention": "*", "mlp": "-"}.get(kinds[at], "M")
        )
        return {"M": "mamba", "*": "plain"}.get(letter, "" if kinds[at : at + 1] != ["mamba"] else "mamba")
    if family == "kimi_linear":
        linear = config.child("linear_attn_config")
        return "delta" if linear is not None and at + 1 in linear.integers("kda_layers") else "latent"
    if "kv_lora_rank" in config:
        return "latent"
    if family in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"):
        every = config.integer("full_attention_interval")
        linear_here = kinds[at] == "linear_attention" if kinds else bool((at + 1) % every)
        return "delta" if linear_here else "plain"
    if family == "granitemoehybrid":
        return "mamba" if kinds[at] in ("mamba", "linear_attention") else "plain"
    return "plain"


def _attention(whole: _Tally, config: JsonObject, family: str, at: int, hidden: int) -> None:
    heads = config.integer("num_attention_heads")
    shared, size, both = config.integer_or("num_key_value_heads", heads), config.integer_or("head_dim", 0), 2
    size = size or hidden // heads
    if family == "gemma4_text" and (not (at + 1) % 6 or at + 1 == config.integer("num_hidden_layers")):
        size = config.integer("global_head_dim")
        if config.flag_or("attention_k_eq_v", False):
            shared, both = config.integer_or("num_global_key_value_heads", shared), 1
    gated = family in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
    queries, keys = heads * size, shared * size
    whole.dense(hidden * (queries * (2 + gated) + both * keys))
    if family in _QUERY_NORMS:
        whole.vectors += 2 * size
    if family in ("olmo2", "olmo3", "minimax_m2"):
        whole.vectors += queries + keys
    if family in _QKV_BIAS or (family != "mistral" and config.flag_or("attention_bias", False)):
        whole.vectors += queries + 2 * keys
    if family in ("llama", "qwen3") and config.flag_or("attention_bias", False):
        whole.vectors += hidden
    if family == "gpt_oss":
        whole.vectors += queries + 2 * keys + hidden + heads  # biases and a sink of each head


def _latent(whole: _Tally, config: JsonObject, hidden: int) -> None:
    heads, rank = config.integer("num_attention_heads"), config.integer("kv_lora_rank")
    rope, plain, value = (config.integer(f"{name}_head_dim") for name in ("qk_rope", "qk_nope", "v"))
    if "q_lora_rank" in config:
        inner = config.integer("q_lora_rank")
        whole.dense(hidden * inner + inner * heads * (plain + rope))
        whole.vectors += inner
    else:
        whole.dense(hidden * heads * (plain + rope))
    whole.dense(hidden * (rank + rope) + rank * heads * (plain + value) + heads * value * hidden)
    whole.vectors += rank
    if "index_topk" in config:
        index = config.integer("index_head_dim")
        many = config.integer_or("index_n_heads", 64)
        whole.dense(config.integer("q_lora_rank") * many * index + hidden * index + hidden * many)


def _delta(whole: _Tally, config: JsonObject, family: str, hidden: int) -> None:
    """Count Gated DeltaNet of Qwen, or Kimi's."""
    if family == "kimi_linear":
        linear = config.child("linear_attn_config")
        assert linear is not None
        heads, size, kernel = (linear.integer(name) for name in ("num_heads", "head_dim", "short_conv_kernel_size"))
        inner = heads * size
        whole.dense(4 * hidden * inner + 2 * (hidden * size + size * inner) + hidden * heads + 3 * inner * kernel)
        whole.vectors += heads + inner + size
        return
    names = ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim", "conv_kernel_dim")
    keys, values, key, value, kernel = (config.integer(f"linear_{name}") for name in names)
    read, written = keys * key, values * value
    whole.dense(hidden * (2 * read + 2 * written + 2 * values) + written * hidden + (2 * read + written) * kernel)
    whole.vectors += 2 * values + value


def _mamba(whole: _Tally, config: JsonObject, family: str, hidden: int) -> None:
    if family == "nemotron_h":
        heads = config.integer("mamba_num_heads")
        state, kernel, groups = (config.integer(name) for name in ("ssm_state_size", "conv_kernel", "n_groups"))
        inner = heads * config.integer("mamba_head_dim")
    else:
        heads, state, kernel, groups = (
            config.integer(f"mamba_{n}") for n in ("n_heads", "d_state", "d_conv", "n_groups")
        )
        inner = config.integer("mamba_expand") * hidden
    convolved = inner + 2 * groups * state
    whole.dense(hidden * (inner + convolved + heads) + inner * hidden + convolved * kernel)
    whole.vectors += convolved + 3 * heads + inner


def _mlp(whole: _Tally, config: JsonObject, family: str, at: int, hidden: int) -> None:
    """Count a gated MLP, experts, or none."""
    if family == "nemotron_h":
        _nemotron_mlp(whole, config, at, hidden)
        return
    experts = _experts(config)
    inner = config.integer("intermediate_size")
    if family == "gemma4_text" and experts:
        whole.dense(3 * hidden * inner)
    dense = not experts or at < config.integer_or("first_k_dense_replace", 0)
    if family == "llama4_text":
        every = config.integer_or("interleave_moe_layer_step", 1)
        dense = every < 1 or bool((at + 1) % every)
        if dense:
            inner = config.integer("intermediate_size_mlp")
    if dense:
        whole.dense(3 * hidden * inner)
        if family == "llama" and config.flag_or("mlp_bias", False):
            whole.vectors += 2 * inner + hidden
        return
    each = config.integer_or("moe_intermediate_size", inner)
    chosen = config.integer_or("num_experts_per_tok", config.integer_or("num_experts_per_token", 1))
    one = 3 * hidden * each
    whole.experts += experts * one
    whole.active += chosen * one
    whole.dense(experts * hidden + 3 * hidden * _shared(config, family, each))
    if family == "gpt_oss":
        whole.vectors += experts * (2 * each + hidden + 1)
    if config.text_or("topk_method", "") == "noaux_tc" or family in ("deepseek_v3", "glm4_moe", "minimax_m2"):
        whole.vectors += experts


def _shared(config: JsonObject, family: str, each: int) -> int:
    """Return the width of the shared part beside the experts."""
    if family == "granitemoehybrid":
        return config.integer_or("shared_intermediate_size", 0)
    if family == "llama4_text":
        return each
    width = config.integer_or("shared_expert_intermediate_size", 0)
    many = config.integer_or("n_shared_experts", config.integer_or("num_shared_experts", 0))
    return width or many * each


def _nemotron_mlp(whole: _Tally, config: JsonObject, at: int, hidden: int) -> None:
    """Without gates."""
    letter = config.text_or("hybrid_override_pattern", "")[at : at + 1]
    if letter == "-":
        whole.dense(2 * hidden * config.integer("intermediate_size"))
    elif letter == "E":
        experts, each = _experts(config), config.integer("moe_intermediate_size")
        whole.experts += experts * 2 * hidden * each
        whole.active += config.integer("num_experts_per_tok") * 2 * hidden * each
        shared = config.integer_or("moe_shared_expert_intermediate_size", each) * config.integer_or(
            "n_shared_experts", 1
        )
        whole.dense(experts * hidden + 2 * hidden * shared)
        whole.vectors += experts


def _experts(config: JsonObject) -> int:
    for key in ("n_routed_experts", "num_local_experts", "num_experts"):
        if config.integer_or(key, 0) > 0:
            return config.integer(key)
    return 0


def bits_of_weights(quantized: JsonObject | None) -> tuple[float, float, str | None]:
    """Return the bits of a number of the matrices and of the experts, with scales, as far as a quantization gives them, and a
    note."""
    if quantized is None:
        return 16.0, 16.0, None
    method = quantized.text_or("quant_method", "")[:40]
    if "fp8" in method:
        return 8.0, 8.0, "matrices in fp8, embeddings in 16 bits"
    given = quantized.integer_or("bits", quantized.integer_or("w_bit", 4 if method in ("awq", "gptq") else 0))
    if given > 0:
        bits = given + _SCALE_BITS
        return bits, bits, f"matrices by {method} in {bits:g} bits with scales, embeddings in 16"
    if method == "mxfp4":
        return 16.0, 4.25, "experts in mxfp4, the rest in 16 bits"
    return 16.0, 16.0, f"kvtool does not know the size of {method!a} weights: it counts 16 bits, an upper limit"
