"""The structure of a decoder, under the names of Hugging Face's config.json."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.json_object import JsonObject
from kvtool.engine.model.configs.rope_config import DefaultRope, Rope, read_ropes
from kvtool.engine.model.configs.traits import Traits, read_traits
from kvtool.engine.model.configs.window_config import read_windows
from kvtool.engine.model.experts import Experts, read_experts
from kvtool.engine.model.latent import LatentDims, read_latent

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
}
"""The supported families: `model_type` and `architectures` in their config.json."""

CONFIG_FILE = "config.json"


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A decoder with RMS norms and rotary embeddings.

    By default it has grouped-query attention and a gated MLP; `latent`, `experts` and `traits` replace or extend these.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float = 1e-5
    rope: Rope = field(default_factory=DefaultRope)
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    """The projection after attention has a bias."""
    mlp_bias: bool = False
    qk_norm: bool = False
    """Queries and keys of each head are normed before they are rotated."""
    windows: tuple[int | None, ...] = ()
    """Window of each layer: tokens that a query sees, including its own, or None for all; empty where no layer has a window."""
    window_rope: Rope | None = None
    """Rotary embeddings of layers with a window, where they differ from the others."""
    latent: LatentDims | None = None
    """Latent attention; the head dimension is then that of queries, and all heads share one vector in the cache."""
    experts: Experts | None = None
    traits: Traits = field(default_factory=Traits)
    max_position_embeddings: int | None = None
    dtype: str | None = None
    """Type of the published weights, as config.json writes it."""
    name: str = field(default="model", compare=False)
    source: str = field(default="", compare=False)
    """The repository or file that has these figures."""

    def __post_init__(self) -> None:
        for name in (
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
        ):
            if getattr(self, name) < 1:
                raise EngineError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.num_attention_heads % self.num_key_value_heads:
            raise EngineError(
                f"{self.num_attention_heads} attention heads cannot share {self.num_key_value_heads} K/V heads evenly "
                "(num_attention_heads, num_key_value_heads)"
            )
        if self.head_dim % 2 and self.latent is None:
            raise EngineError(f"head_dim must be even for rotary embeddings, not {self.head_dim}")
        if not self.rms_norm_eps >= 0.0:
            raise EngineError(f"rms_norm_eps must not be negative: {self.rms_norm_eps:g}")
        if self.max_position_embeddings is not None and self.max_position_embeddings < 1:
            raise EngineError(f"max_position_embeddings must be at least 1, not {self.max_position_embeddings}")
        if self.windows and len(self.windows) != self.num_hidden_layers:
            raise EngineError(f"{len(self.windows)} windows do not match {self.num_hidden_layers} layers")
        if wrong := [window for window in self.windows if window is not None and window < 1]:
            raise EngineError(f"a window must be at least 1, not {wrong[0]}")

    @property
    def plain_attention(self) -> bool:
        """Return whether all layers attend to all tokens up to the query's own, as every kernel can."""
        traits = self.traits
        rules = (traits.attention_scale, traits.attention_softcap, traits.attention_sinks or None, self.latent)
        return not any(self.windows) and all(rule is None for rule in rules)

    @property
    def plain(self) -> bool:
        """Return whether layers equal Llama's but for biases and norms of heads; predictions of times are made for such models."""
        return self.plain_attention and self.experts is None and self.traits == Traits()

    @property
    def cache_heads(self) -> int:
        """Heads of a layer's K/V in the cache."""
        return self.num_key_value_heads if self.latent is None else 1

    @property
    def cache_dim(self) -> int:
        """Numbers of each: of a key, and of a value; or of a latent vector, which is both."""
        return self.head_dim if self.latent is None else self.latent.width

    def window(self, layer: int) -> int | None:
        """Return tokens that a query of a layer sees, its own included; None for all."""
        return self.windows[layer] if self.windows else None

    @classmethod
    def tiny(cls, vocab_size: int) -> ModelConfig:
        """Return the embedded default: small enough for a laptop's CPU, with the structure of the real ones."""
        return cls(
            vocab_size=vocab_size,
            hidden_size=256,
            intermediate_size=704,
            num_hidden_layers=4,
            num_attention_heads=8,
            num_key_value_heads=4,
            head_dim=32,
            tie_word_embeddings=True,
            name="tiny",
        )

    @classmethod
    def from_hf(cls, path: str | Path) -> ModelConfig:
        """Read a config.json, or that of a folder; EngineError names the file and the key that cannot be."""
        path = Path(path).expanduser()
        file = path / CONFIG_FILE if path.is_dir() else path
        try:
            return _read(JsonObject.read(file), file)
        except EngineError as error:
            raise EngineError(f"{file}: {error.message}", hint=error.hint) from error


def _read(config: JsonObject, file: Path) -> ModelConfig:
    family = _family(config)
    _refuse_model_changes(config, family)
    attention_bias = family not in ("mistral", "qwen2") and config.flag_or("attention_bias", family == "gpt_oss")
    latent = read_latent(config, family)
    rope, window_rope = read_ropes(config, family)
    return ModelConfig(
        vocab_size=config.integer("vocab_size"),
        hidden_size=config.integer("hidden_size"),
        intermediate_size=config.integer("intermediate_size"),
        num_hidden_layers=config.integer("num_hidden_layers"),
        num_attention_heads=config.integer("num_attention_heads"),
        num_key_value_heads=_kv_heads(config, family),
        head_dim=_head_dim(config, family) if latent is None else latent.query_dim,
        rms_norm_eps=config.number_or("rms_norm_eps", 1e-5 if family == "gpt_oss" else 1e-6),
        rope=rope,
        tie_word_embeddings=config.flag_or("tie_word_embeddings", family.startswith("gemma")),
        qkv_bias=attention_bias or family == "qwen2",
        output_bias=attention_bias,
        mlp_bias=family in ("llama", "deepseek_v2") and config.flag_or("mlp_bias", False),
        qk_norm=family in ("qwen3", "gemma3_text"),
        windows=read_windows(config, family),
        window_rope=window_rope,
        latent=latent,
        experts=read_experts(config, family),
        traits=read_traits(config, family),
        max_position_embeddings=config.integer("max_position_embeddings")
        if "max_position_embeddings" in config
        else None,
        dtype=config.text_or("dtype", config.text_or("torch_dtype", "")).removeprefix("torch.") or None,
        name=file.absolute().parent.name,
        source=str(file),
    )


def _family(config: JsonObject) -> str:
    """Return the key in ARCHITECTURES: by `architectures`, or where there are none by `model_type`."""
    named = config.texts("architectures")
    model_type = config.text_or("model_type", "")
    for family, architecture in ARCHITECTURES.items():
        if architecture in named or (not named and family == model_type):
            return family
    if not named and not model_type:
        raise EngineError(f"{config.named('architectures')} is missing", hint=_supported())
    found = ", ".join(named) or model_type
    raise EngineError(f"the architecture {found[:80]!a} is not supported", hint=_supported())


def _supported() -> str:
    return f"kvtool runs {', '.join(ARCHITECTURES.values())}"


def _kv_heads(config: JsonObject, family: str) -> int:
    """Return the number of K/V heads. Only Llama files may predate grouped queries; the defaults in transformers do not fit
    others."""
    if family == "llama" or config.is_null("num_key_value_heads"):
        return config.integer_or("num_key_value_heads", config.integer("num_attention_heads"))
    return config.integer("num_key_value_heads")


def _head_dim(config: JsonObject, family: str) -> int:
    """Return the given size, or the hidden size divided by the heads; families without this rule always give it."""
    if "head_dim" in config or family not in ("llama", "mistral", "qwen2"):
        return config.integer("head_dim")
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    if heads < 1 or hidden % heads:
        raise EngineError(
            f"`hidden_size` {hidden} is not a multiple of `num_attention_heads` {heads}, and `head_dim` is missing"
        )
    return hidden // heads


def _refuse_model_changes(config: JsonObject, family: str) -> None:
    # Gemma uses `hidden_activation` and ignores `hidden_act`.
    if not family.startswith("gemma") and (activation := config.text_or("hidden_act", "silu")) != "silu":
        raise EngineError(f"`hidden_act` {activation[:40]!a} is not supported", hint="kvtool's decoder supports silu")
    if (quantization := config.child("quantization_config")) is not None:
        method = quantization.text_or("quant_method", "unknown")
        raise EngineError(
            f"the weights are quantized ({method[:40]!a}), which is not supported",
            hint="use the model's float32, bfloat16 or float16 weights",
        )
