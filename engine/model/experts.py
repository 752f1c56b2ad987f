"""Mixtures of experts: which of an MLP's many parts a token goes through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.json_object import JsonObject

Scoring = Literal["softmax", "sigmoid", "softmax of chosen"]

_MOST_EXPERTS = 1 << 16
"""Bound against broken files; published models have some hundreds of experts."""


@dataclass(frozen=True, slots=True)
class Experts:
    """`chosen` of `count` experts work on a token, each with `intermediate_size`, weighted by their scores.

    With `groups`, only experts of the best `groups_chosen` are chosen from; a group is as good as the sum of its `group_best` best.
    """

    count: int
    chosen: int
    intermediate_size: int
    scoring: Scoring
    shared_size: int = 0
    """Intermediate size of the MLP for all tokens; 0 where there is none."""
    dense_layers: int = 0
    """The first layers, which have an MLP in place of experts."""
    groups: int = 1
    groups_chosen: int = 1
    group_best: int = 1
    corrected: bool = False
    """True if a bias of each expert corrects scores before the choice, but not as weights."""
    normalized: bool = False
    """True if a token's weights are normalized to sum 1."""
    scale: float = 1.0
    """Factor of the weights."""
    clamped: tuple[float, float] | None = None
    """gpt-oss: SwiGLU's sigmoid gain and the limit of its inputs; experts have biases, and each kind of weight is one tensor."""

    def __post_init__(self) -> None:
        for name in ("count", "chosen", "intermediate_size", "groups", "groups_chosen", "group_best"):
            if getattr(self, name) < 1:
                raise EngineError(f"{name} of experts must be at least 1, not {getattr(self, name)}")
        if self.count > _MOST_EXPERTS:
            raise EngineError(f"{self.count} experts are more than any model has")
        for name in ("shared_size", "dense_layers"):
            if getattr(self, name) < 0:
                raise EngineError(f"{name} of experts must not be negative: {getattr(self, name)}")
        if self.count % self.groups:
            raise EngineError(f"{self.count} experts do not make {self.groups} equal groups (`n_group`)")
        if self.groups_chosen > self.groups:
            raise EngineError(
                f"{self.groups_chosen} groups cannot be chosen from {self.groups} (`topk_group`, `n_group`)"
            )
        each = self.count // self.groups
        if self.chosen > each * self.groups_chosen:
            raise EngineError(
                f"{self.chosen} experts cannot be chosen from {each * self.groups_chosen} (`num_experts_per_tok`)"
            )
        if self.group_best > each:
            raise EngineError(f"a group has only {each} experts, not the {self.group_best} best to add (`n_group`)")


def read_experts(config: JsonObject, family: str) -> Experts | None:
    """Read the experts of gpt-oss, DeepSeek V2 and V3; other families have none."""
    if family == "gpt_oss":
        return Experts(
            count=config.integer("num_local_experts"),
            chosen=config.integer_or("num_experts_per_tok", config.integer_or("experts_per_token", 4)),
            intermediate_size=config.integer("intermediate_size"),
            scoring="softmax of chosen",
            clamped=(config.number_or("swiglu_alpha", 1.702), config.number_or("swiglu_limit", 7.0)),
        )
    if family not in ("deepseek_v2", "deepseek_v3"):
        return None
    if config.integer_or("moe_layer_freq", 1) != 1:
        raise EngineError(f"`moe_layer_freq` {config.integer('moe_layer_freq')} is not supported: it must be 1")
    inner = config.integer("moe_intermediate_size")
    third = family == "deepseek_v3"
    method = config.text_or("topk_method", "noaux_tc" if third else "greedy")
    if method not in (("noaux_tc",) if third else ("greedy", "group_limited_greedy")):
        raise EngineError(f"`topk_method` {method[:40]!a} is not supported")
    normalized = config.flag_or("norm_topk_prob", third)
    if normalized and not third:
        raise EngineError("`norm_topk_prob` is not supported with DeepseekV2ForCausalLM, which ignores it")
    grouped = method != "greedy"
    return Experts(
        count=config.integer("n_routed_experts"),
        chosen=config.integer("num_experts_per_tok"),
        intermediate_size=inner,
        scoring="sigmoid" if third else "softmax",
        shared_size=inner * config.integer_or("n_shared_experts", 1 if third else 2),
        dense_layers=config.integer_or("first_k_dense_replace", 3 if third else 0),
        groups=config.integer("n_group") if grouped else 1,
        groups_chosen=config.integer("topk_group") if grouped else 1,
        group_best=2 if third else 1,
        corrected=third,
        normalized=normalized,
        scale=config.number_or("routed_scaling_factor", 2.5 if third else 1.0),
    )
