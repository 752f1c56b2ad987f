"""Rotary embeddings against transformers' own."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.json_object import JsonObject
from kvtool.engine.model.configs.rope_config import DefaultRope, LinearRope, Llama3Rope, Rope, YarnRope, read_ropes
from kvtool.engine.model.rope import Rotation, frequencies
from kvtool.kernels.rotary import rotary

POSITIONS = torch.tensor([0, 1, 2, 77, 4096, 8191, 8192, 40_000, 131_071])
VARIANTS: dict[str, dict[str, object]] = {
    "default": {"rope_type": "default", "rope_theta": 1e6},
    "linear": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "llama3.2": {
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "yarn": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32_768},
    "yarn with every key": {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 24,
        "beta_slow": 2,
        "mscale": 1.0,
        "mscale_all_dim": 0.7,
        "truncate": False,
    },
    "yarn with an attention factor": {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 2.0,
        "original_max_position_embeddings": 4096,
        "attention_factor": 0.9,
    },
    "yarn without a slope": {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 2.0,
        "original_max_position_embeddings": 128,
        "beta_fast": 8,
        "beta_slow": 8,
        "truncate": False,
    },
}


def hf_rope(parameters: dict[str, object], head_dim: int) -> LlamaRotaryEmbedding:
    config = LlamaConfig(
        hidden_size=head_dim * 2,
        num_attention_heads=2,
        head_dim=head_dim,
        max_position_embeddings=131_072,
        rope_parameters=dict(parameters),
    )
    return LlamaRotaryEmbedding(config)


def rope_of(config: JsonObject) -> Rope:
    """Of a family whose layers all have the same."""
    rope, other = read_ropes(config, "llama")
    assert other is None
    return rope


def read(parameters: dict[str, object]) -> Rope:
    return rope_of(JsonObject({"max_position_embeddings": 131_072, "rope_parameters": parameters}))


@pytest.mark.parametrize("head_dim", [16, 64, 128])
@pytest.mark.parametrize("name", VARIANTS)
def test_the_rotation_is_that_of_transformers(name: str, head_dim: int) -> None:
    theirs = hf_rope(VARIANTS[name], head_dim)
    rope = read(VARIANTS[name])
    torch.testing.assert_close(frequencies(rope, head_dim), theirs.inv_freq, rtol=2e-6, atol=0)
    q = torch.randn(1, 3, len(POSITIONS), head_dim)
    cos, sin = theirs(q, POSITIONS[None])
    expected, _ = apply_rotary_pos_emb(q, q, cos, sin)
    actual = rotary(q[0].transpose(0, 1), *Rotation(rope, head_dim).at(POSITIONS, torch.float32))
    # A frequency's last bit is worth some 1e-7 of it for each token of the position.
    torch.testing.assert_close(actual, expected[0].transpose(0, 1), rtol=0, atol=2e-2)
    torch.testing.assert_close(actual[:6], expected[0].transpose(0, 1)[:6], rtol=0, atol=2e-3)
    torch.testing.assert_close(actual[:4], expected[0].transpose(0, 1)[:4], rtol=0, atol=1e-4)


def test_variants_differ() -> None:
    """A reader that ignored the scaling would pass no test by accident."""
    found = [tuple(frequencies(read(parameters), 64).tolist()) for parameters in VARIANTS.values()]
    assert len(set(found)) == len(VARIANTS)


def test_bfloat16_is_rounded_once() -> None:
    """Angles of far positions need float32; only cos and sin are rounded."""
    rotation = Rotation(DefaultRope(), 64)
    exact, rounded = (rotation.at(POSITIONS, dtype) for dtype in (torch.float32, torch.bfloat16))
    for wide, narrow in zip(exact, rounded, strict=True):
        assert narrow.dtype == torch.bfloat16
        assert torch.equal(wide.to(torch.bfloat16), narrow)


@given(
    st.sampled_from(
        [
            DefaultRope(1e6),
            LinearRope(1e4, 3.0),
            Llama3Rope(5e5, 8.0, 1.0, 4.0, 8192),
            YarnRope(1e6, 4.0, 32_768, 1.0),
        ]
    ),
    st.integers(0, 100_000),
    st.integers(0, 5_000),
)
def test_attention_sees_distances_only(rope: Rope, start: int, distance: int) -> None:
    """A key and a query at a distance have one product wherever they are: what prefix reuse at other offsets must not break."""
    frequency = frequencies(rope, 32).double()  # float32 angles of far positions are too coarse to show it
    q, k = torch.randn(2, 1, 1, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def turned(x: torch.Tensor, position: int) -> torch.Tensor:
        cos, sin = (position * frequency).cos(), (position * frequency).sin()
        return x * torch.cat((cos, cos)) + x.roll(16, dims=-1) * torch.cat((-sin, sin))  # `rotary` takes no float64

    def product(position: int) -> float:
        return float((turned(k, position) * turned(q, position + distance)).sum())

    assert math.isclose(product(0), product(start), rel_tol=0, abs_tol=1e-6)


def test_both_spellings() -> None:
    scaling = {key: value for key, value in VARIANTS["llama3"].items() if key != "rope_theta"}
    old = {"rope_theta": 500_000.0, "rope_scaling": scaling}
    new = {"rope_parameters": VARIANTS["llama3"]}
    older = {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2}}
    assert rope_of(JsonObject(old)) == rope_of(JsonObject(new)) == Llama3Rope(5e5, 8.0, 1.0, 4.0, 8192)
    assert rope_of(JsonObject(older)) == LinearRope(5e5, 2.0)
    for plain in (
        {},
        {"rope_scaling": None},
        {"rope_scaling": {}, "rope_theta": 1e4},
        {"rope_parameters": {"rope_theta": 1e4}},
    ):
        assert rope_of(JsonObject(plain)) == DefaultRope(1e4)


def test_the_original_length_may_stand_beside() -> None:
    scaling = {"rope_type": "yarn", "factor": 2.0}
    assert rope_of(JsonObject({"rope_scaling": scaling, "max_position_embeddings": 512})) == YarnRope(
        1e4, 2.0, 512, 0.1 * math.log(2.0) + 1.0
    )
    with pytest.raises(EngineError, match=r"`rope_scaling.original_max_position_embeddings` is missing"):
        rope_of(JsonObject({"rope_scaling": scaling}))


def test_what_cannot_be_rotated() -> None:
    for config, message in [
        (
            {"rope_scaling": {"rope_type": "longrope", "factor": 2}},
            "`rope_scaling.rope_type` 'longrope' is not supported",
        ),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [1]}}, "'mrope' is not supported"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2}}, "dynamic is not supported: it rotates a token diff"),
        ({"rope_scaling": {"factor": 2}}, "`rope_scaling.rope_type` is missing"),
        ({"rope_scaling": {"rope_type": "linear"}}, "`rope_scaling.factor` is missing"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "factor must be above 0, not 0"),
        ({"rope_scaling": {"rope_type": "linear", "factor": "2"}}, '`rope_scaling.factor` must be a number, not "2"'),
        ({"rope_scaling": {"rope_type": ["yarn"]}}, "`rope_scaling.rope_type` must be a text"),
        ({"rope_scaling": ["yarn"]}, "`rope_scaling` must be an object"),
        ({"rope_theta": 1}, "rope_theta must be above 1, not 1"),
        (
            {"rope_parameters": {"full_attention": {}, "sliding_attention": {}}},
            "full_attention` sets rotary embeddings",
        ),
        ({"partial_rotary_factor": 0.5}, "`partial_rotary_factor` other than 1"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor` other than 1"),
        (
            {"rope_parameters": VARIANTS["llama3"] | {"high_freq_factor": 1.0}},
            r"high_freq_factor must be above low_freq_factor \(1\), not 1",
        ),
        ({"rope_parameters": VARIANTS["yarn"] | {"beta_fast": 0.5}}, r"beta_fast must not be below beta_slow \(1\)"),
        ({"rope_parameters": VARIANTS["yarn"] | {"original_max_position_embeddings": 0}}, "must be above 0, not 0"),
    ]:
        with pytest.raises(EngineError, match=message):
            rope_of(JsonObject(config))
