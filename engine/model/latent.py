"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): a token leaves one compressed vector for all heads."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.json_object import JsonObject


@dataclass(frozen=True, slots=True)
class LatentDims:
    """Keys of a head are `nope_dim` numbers of the latent vector and `rope_dim` rotated ones, which all heads share."""

    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    query_rank: int | None = None
    """Size of compressed queries; None where queries are not compressed."""
    scale: float | None = None
    """Scale of q.k: 1/sqrt(nope_dim + rope_dim) by default."""
    interleaved: bool = True
    """True if the checkpoint stores the two numbers of a rotated pair side by side."""

    def __post_init__(self) -> None:
        for name in ("kv_rank", "nope_dim", "rope_dim", "value_dim"):
            if getattr(self, name) < 1:
                raise EngineError(f"{name} of latent attention must be at least 1, not {getattr(self, name)}")
        if self.query_rank is not None and self.query_rank < 1:
            raise EngineError(f"query_rank of latent attention must be at least 1, not {self.query_rank}")
        if self.rope_dim % 2:
            raise EngineError(f"rope_dim must be even for rotary embeddings, not {self.rope_dim}")

    @property
    def query_dim(self) -> int:
        """Size of a head's query before it is compared with latent vectors."""
        return self.nope_dim + self.rope_dim

    @property
    def width(self) -> int:
        """Numbers that a token leaves in a layer."""
        return self.kv_rank + self.rope_dim

    @property
    def attention_scale(self) -> float:
        """Factor of q.k."""
        return float(self.query_dim**-0.5) if self.scale is None else self.scale


def read_latent(config: JsonObject, family: str) -> LatentDims | None:
    """Read the latent attention of DeepSeek V2 and V3; heads of other families keep keys and values of their own."""
    if family not in ("deepseek_v2", "deepseek_v3"):
        return None
    nope, rope = config.integer("qk_nope_head_dim"), config.integer("qk_rope_head_dim")
    return LatentDims(
        kv_rank=config.integer("kv_lora_rank"),
        nope_dim=nope,
        rope_dim=rope,
        value_dim=config.integer("v_head_dim"),
        query_rank=None if config.is_null("q_lora_rank") else config.integer("q_lora_rank"),
        scale=_scale(config, nope + rope),
        interleaved=family == "deepseek_v2" or config.flag_or("rope_interleave", True),
    )


def _scale(config: JsonObject, query_dim: int) -> float | None:
    """Return larger where a yarn of a factor has `mscale_all_dim`."""
    scaling = config.child("rope_scaling") or config.child("rope_parameters")
    if scaling is None or query_dim < 1:
        return None
    kind = scaling.text_or("rope_type", scaling.text_or("type", "default"))
    weight = scaling.number_or("mscale_all_dim", 0.0)
    factor = scaling.number_or("factor", 1.0)
    if kind == "default" or not weight or factor <= 1.0:
        return None
    return float(query_dim**-0.5 * (0.1 * weight * math.log(factor) + 1.0) ** 2)
