"""What has a forward pass, and what the others are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.find_runnable import find_runnable
from kvtool.engine.model.configs.find_served import find_preset, find_served, preset_sources
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.configs.presets import PRESETS

MAMBA = {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "hidden_size": 64,
    "intermediate_size": 64,
    "vocab_size": 100,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
}


def test_every_preset_runs_or_says_why_not() -> None:
    """No preset is unknown to real runs only."""
    for name in preset_sources():
        if name in PRESETS:
            assert isinstance(find_runnable(name), ModelConfig)
            continue
        with pytest.raises(EngineError, match="preset for accounting only, without a forward pass") as caught:
            find_runnable(name)
        assert "--dry-run" in (caught.value.hint or "")


def test_a_folder_without_a_forward_pass(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MAMBA))
    assert find_served(str(tmp_path)).hybrid
    with pytest.raises(EngineError, match="'Qwen3NextForCausalLM' is not supported: the model is for accounting only"):
        find_runnable(str(tmp_path))


@pytest.mark.parametrize("change", [{"layer_types": ["chunked_attention"] * 4}, {"quantization_config": {"bits": 4}}])
def test_a_known_family_that_cannot_be_computed(change: dict[str, object], tmp_path: Path) -> None:
    plain = MAMBA | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    (tmp_path / "config.json").write_text(json.dumps(plain | change))
    with pytest.raises(EngineError) as caught:
        find_runnable(str(tmp_path))
    assert str(tmp_path) in caught.value.message


def test_what_nobody_knows() -> None:
    with pytest.raises(EngineError, match="unknown model `gpt2`"):
        find_runnable("gpt2")
    with pytest.raises(EngineError, match="no such file or folder"):
        find_runnable("./nothing")


def test_the_beginning_of_one_preset_names_it() -> None:
    """Up to a hyphen; what begins several is refused with them all, and no name of one word is guessed from."""
    for name in preset_sources():
        short = name.rsplit("-", 1)[0]
        others = [other for other in preset_sources() if other != name and other.startswith(f"{short}-")]
        if "-" in short and short not in preset_sources() and not others:
            assert find_served(short) == find_served(name)
    with pytest.raises(EngineError, match=r"did you mean gemma-4-26b-a4b or gemma-4-31b\?"):
        find_served("gemma-4")
    with pytest.raises(EngineError, match="unknown model `phi`"):
        find_served("phi")


DECORATED = {
    "owner": "{}",
    "case": "{}",
    "path": "/models/{}/",
    "cache": "/hub/models--org--{}/snapshots/0123abcd",
    "tuned": "{}-Instruct",
    "dated": "{}-2507",
}
QUANTIZED = {
    "FP8": 8.0,
    "AWQ": 4.25,
    "GPTQ-Int4": 4.25,
    "quantized.w8a8": 8.25,
    "q4_k_m.gguf": 4.25,
    "FP8-dynamic": 8.0,
}


@given(
    st.sampled_from(sorted(preset_sources())),
    st.sampled_from(sorted(DECORATED)),
    st.sampled_from([None, *QUANTIZED]),
    st.sampled_from([str.upper, str.lower, str.title]),
)
def test_names_as_servers_write_them(preset: str, way: str, quantized: str | None, case: Callable[[str], str]) -> None:
    """Owner, folder, case, tuning, date and quantization leave the layers of a preset as they are."""
    name = DECORATED[way].format(case(preset) + ("" if quantized is None else f"-{quantized}"))
    found, plain = find_preset(name), find_served(preset)
    assert found is not None
    assert found.layers == plain.layers
    counted = found.geometry.counted
    if quantized is None:
        assert found == plain
    elif plain.geometry.counted is None:
        assert counted is not None
        assert counted.bits == QUANTIZED[quantized]
        assert (counted.total, counted.active // found.geometry.num_layers) == (
            plain.geometry.parameters,
            plain.geometry.layer_parameters,
        )


@given(st.sampled_from(sorted(preset_sources())), st.from_regex(r"[a-z]{4,9}", fullmatch=True), st.sampled_from("-:@_"))
def test_another_word_makes_another_model(preset: str, word: str, joint: str) -> None:
    """A distilled, tuned or drafted model may have other sizes: its name alone does not say so."""
    assume(word not in ("instruct", "chat", "base", "think", "thinking", "awq", "gptq", "gguf", "ggml", "quantized"))
    for name in (f"{preset}{joint}{word}", f"{word}-{preset}"):
        assume(not any(other.startswith(name) for other in preset_sources()))
        assert find_preset(name) is None
        with pytest.raises(EngineError, match="did you mean"):
            find_served(name)


def test_names_that_are_no_presets() -> None:
    for name in ["gpt-4o", "claude-sonnet-4-5", "gemini-2.5-pro", "qwen3", "32b", "", "/", "../..", "b" * 999]:
        assert find_preset(name) is None
