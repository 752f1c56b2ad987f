"""The variants of rotary position embedding that the decoder knows, and how config.json spells them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.json_object import JsonObject

SUPPORTED = "default, linear, llama3 and yarn"


@dataclass(frozen=True, slots=True)
class DefaultRope:
    """Dimension pair j turns by theta^(-2j / D) radians a token."""

    theta: float = 10_000.0

    def __post_init__(self) -> None:
        _check_above(1.0, rope_theta=self.theta)


@dataclass(frozen=True, slots=True)
class LinearRope:
    """All pairs turn `factor` times as slowly (position interpolation, arXiv 2306.15595)."""

    theta: float
    factor: float

    def __post_init__(self) -> None:
        _check_above(1.0, rope_theta=self.theta)
        _check_above(0.0, factor=self.factor)


@dataclass(frozen=True, slots=True)
class Llama3Rope:
    """Pairs that turn less than `low_freq_factor` times over the original context turn `factor` times as slowly, those that turn
    more than `high_freq_factor` times as before, those between by a mixture (Llama 3.1)."""

    theta: float
    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def __post_init__(self) -> None:
        _check_above(1.0, rope_theta=self.theta)
        _check_above(0.0, factor=self.factor, low_freq_factor=self.low_freq_factor)
        _check_above(0.0, original_max_position_embeddings=self.original_max_position_embeddings)
        if self.high_freq_factor <= self.low_freq_factor:
            raise EngineError(
                f"high_freq_factor must be above low_freq_factor ({self.low_freq_factor:g}), not {self.high_freq_factor:g}"
            )


@dataclass(frozen=True, slots=True)
class YarnRope:
    """Frequencies like Llama3Rope's, with a mixture linear in the number of the pair, between the pairs that turn `beta_fast` and
    `beta_slow` times over the original context. `attention_factor` scales queries and keys (YaRN, arXiv 2309.00071)."""

    theta: float
    factor: float
    original_max_position_embeddings: int
    attention_factor: float
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    """Round the numbers of the pairs between which the mixture is, to a wider range."""

    def __post_init__(self) -> None:
        _check_above(1.0, rope_theta=self.theta)
        _check_above(0.0, factor=self.factor, attention_factor=self.attention_factor)
        _check_above(0.0, original_max_position_embeddings=self.original_max_position_embeddings)
        _check_above(0.0, beta_fast=self.beta_fast, beta_slow=self.beta_slow)
        if self.beta_fast < self.beta_slow:
            raise EngineError(f"beta_fast must not be below beta_slow ({self.beta_slow:g}), not {self.beta_fast:g}")


Rope: TypeAlias = DefaultRope | LinearRope | Llama3Rope | YarnRope


def read_ropes(config: JsonObject, family: str) -> tuple[Rope, Rope | None]:
    """Read the rotary embeddings of a model's layers, and of its windowed layers where they differ, as in Gemma 3.

    The source is `rope_parameters` (transformers 5), or `rope_scaling` and `rope_theta` (before). Where a file has both,
    transformers decides: `rope_scaling` first, and the theta inside before the outer one.
    """
    nothing = JsonObject({}, "rope_parameters.")
    if family == "gemma3_text":
        parameters = config.child("rope_parameters") or nothing
        full = config.child("rope_scaling") or parameters.child("full_attention") or nothing
        windowed = parameters.child("sliding_attention") or nothing
        return (
            _rope(config, full, config.number_or("rope_theta", 1_000_000.0)),
            _rope(config, windowed, config.number_or("rope_local_base_freq", 10_000.0)),
        )
    scaling = config.child("rope_scaling") or config.child("rope_parameters") or nothing
    if nested := scaling.children():
        raise EngineError(
            f"{scaling.named(nested[0])} sets rotary embeddings only for some layers",
            hint="kvtool's decoder rotates all layers of this family alike",
        )
    if family == "gpt_oss" and "rope_theta" not in scaling:
        return _rope(config, scaling, config.number("rope_theta")), None
    return _rope(config, scaling, config.number_or("rope_theta", 10_000.0)), None


def _rope(config: JsonObject, scaling: JsonObject, theta: float) -> Rope:
    """Read one set of embeddings from `scaling`; its own theta overrides the given one."""
    for found in (scaling, config):
        if found.number_or("partial_rotary_factor", 1.0) != 1.0:
            raise EngineError(f"{found.named('partial_rotary_factor')} other than 1 is not supported")
    theta = scaling.number_or("rope_theta", theta)
    kind = scaling.text_or("rope_type", scaling.text_or("type", ""))
    match kind:
        case "default" | "" if kind or "factor" not in scaling:
            return DefaultRope(theta)
        case "linear":
            return LinearRope(theta, scaling.number("factor"))
        case "llama3":
            return Llama3Rope(
                theta,
                scaling.number("factor"),
                scaling.number("low_freq_factor"),
                scaling.number("high_freq_factor"),
                _original_length(config, scaling),
            )
        case "yarn":
            factor = scaling.number("factor")
            return YarnRope(
                theta,
                factor,
                _original_length(config, scaling),
                scaling.number_or("attention_factor", _yarn_attention_factor(scaling, factor)),
                scaling.number_or("beta_fast", 32.0),
                scaling.number_or("beta_slow", 1.0),
                scaling.flag_or("truncate", True),
            )
        case "":
            raise EngineError(f"{scaling.named('rope_type')} is missing", hint=f"kvtool supports {SUPPORTED}")
        case "dynamic":
            raise EngineError(
                f"{scaling.named('rope_type')} dynamic is not supported: it rotates a token differently as its sequence grows, "
                "so its cached key could not be reused",
                hint=f"kvtool supports {SUPPORTED}",
            )
    raise EngineError(
        f"{scaling.named('rope_type')} {kind[:40]!a} is not supported", hint=f"kvtool supports {SUPPORTED}"
    )


def _original_length(config: JsonObject, scaling: JsonObject) -> int:
    """Return the context that the model was trained on before it was extended."""
    key = "original_max_position_embeddings"
    for found, name in ((config, key), (scaling, key), (config, "max_position_embeddings")):
        if name in found:
            return found.integer(name)
    return scaling.integer(key)


def _yarn_attention_factor(scaling: JsonObject, factor: float) -> float:
    """Return the paper's 0.1 ln(factor) + 1, or DeepSeek's ratio of two of these where both its keys are there and not zero."""

    def scale(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1.0 else 1.0

    numerator, denominator = scaling.number_or("mscale", 0.0), scaling.number_or("mscale_all_dim", 0.0)
    return scale(numerator) / scale(denominator) if numerator and denominator else scale(1.0)


def _check_above(bound: float, **values: float) -> None:
    for name, value in values.items():
        if not value > bound:
            raise EngineError(f"{name} must be above {bound:g}, not {value:g}")
