"""Extra computations of some families' layers, compared with Llama's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.json_object import JsonObject

Activation = Literal["silu", "gelu_tanh"]

_GEMMA_ACTIVATION = "gelu_pytorch_tanh"


@dataclass(frozen=True, slots=True)
class Traits:
    """Traits apply to every layer. No trait changes the size or number of a token's data in the cache's blocks."""

    activation: Activation = "silu"
    """Activation of an MLP's gate."""
    attention_scale: float | None = None
    """Scale of q.k: 1/sqrt(head_dim) by default."""
    attention_softcap: float | None = None
    logit_softcap: float | None = None
    """Numbers x become softcap * tanh(x / softcap)."""
    attention_sinks: bool = False
    """Each head has a score that takes its share of the attention and adds nothing."""
    embedding_scale: float = 1.0
    output_norms: bool = False
    """The outputs of attention and MLP are normed before they are added."""
    centred_norms: bool = False
    """Weights of norms are stored minus 1."""

    def __post_init__(self) -> None:
        for name in ("attention_scale", "attention_softcap", "logit_softcap", "embedding_scale"):
            number = getattr(self, name)
            if number is not None and not number > 0:
                raise EngineError(f"{name} must be above 0, not {number:g}")


def read_traits(config: JsonObject, family: str) -> Traits:
    """Read the traits of Gemma 2 and 3, and gpt-oss; other families have none."""
    if family == "gpt_oss":
        return Traits(attention_sinks=True)
    if not family.startswith("gemma"):
        return Traits()
    if (activation := config.text_or("hidden_activation", _GEMMA_ACTIVATION)) != _GEMMA_ACTIVATION:
        raise EngineError(
            f"`hidden_activation` {activation[:40]!a} is not supported",
            hint=f"for Gemma, kvtool supports {_GEMMA_ACTIVATION}",
        )
    if config.flag_or("use_bidirectional_attention", False):
        raise EngineError("`use_bidirectional_attention` is not supported: tokens would see later tokens")
    if family != "gemma2" and "attn_logit_softcapping" in config:
        raise EngineError("`attn_logit_softcapping` is not supported with Gemma3ForCausalLM, which ignores it")
    scalar = config.number_or("query_pre_attn_scalar", 256.0)
    if not scalar > 0:
        raise EngineError(f"`query_pre_attn_scalar` must be above 0, not {scalar:g}")
    caps = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0} if family == "gemma2" else {}

    def softcap(key: str) -> float | None:
        if key in config:
            return config.number(key)
        return None if config.is_null(key) else caps.get(key)

    return Traits(
        activation="gelu_tanh",
        attention_scale=scalar**-0.5,
        attention_softcap=softcap("attn_logit_softcapping"),
        logit_softcap=softcap("final_logit_softcapping"),
        embedding_scale=config.integer("hidden_size") ** 0.5 if config.integer("hidden_size") > 0 else 1.0,
        output_norms=True,
        centred_norms=True,
    )
