"""From presets and config.json to plans: recorded sizes of vLLM, block sizes, why caching is off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.capacity import PlannedPool
from kvtool.engine.groups.model_plan import ModelPlan, ServeOptions, plan_model
from kvtool.engine.groups.planner import Speculation
from kvtool.engine.model.configs.find_served import find_served, preset_sources
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.layer_shapes import AttentionLayerShape
from kvtool.engine.model.configs.presets import PRESETS
from kvtool.engine.model.configs.served_config import served_of
from kvtool.engine.model.configs.served_model import ServedModel
from kvtool.engine.model.configs.served_presets import SERVED_PRESETS

SIZES = Path(__file__).resolve().parents[4] / "shared" / "oracle" / "vllm-0.33-hybrid" / "sizing_hybrid.json"
ROWS: list[dict[str, Any]] = json.loads(SIZES.read_text(encoding="utf-8"))["rows"] if SIZES.exists() else []
NAMED = {
    "gpt-oss-20b+eagle3": "gpt-oss-20b",
    "llama-4-scout hybrid manager on": "llama-4-scout",
    "qwen3-next-80b-a3b+mtp": "qwen3-next-80b-a3b",
    "qwen3.5 dense": "qwen3.5-9b",
    "qwen3.5 moe": "qwen3.5-35b-a3b",
}
WRITTEN: dict[str, dict[str, Any]] = {
    "gemma-4-like": {"model_type": "gemma4_text"},
    "gemma-3-1b": {
        "model_type": "gemma3_text",
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "hidden_size": 1152,
        "intermediate_size": 6912,
        "sliding_window": 512,
    },
}
"""Of rows that no preset is for."""
LETTERS = {"full": "F", "sliding": "S", "chunked": "C", "mla": "A"}


def model(name: str) -> ServedModel:
    return served_of(WRITTEN[name], name, "") if name in WRITTEN else find_served(NAMED.get(name, name))


def planned(name: str | dict[str, Any], **options: Any) -> ModelPlan:
    found = served_of(name, "written", "") if isinstance(name, dict) else model(name)
    return plan_model(found, ServeOptions(**options))


def test_the_recorded_sizes_are_there() -> None:
    if not ROWS:
        pytest.skip("no recorded sizes of vLLM beside this checkout")
    assert len(ROWS) == 72


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['name']}-{row['tp']}-{row['kv_cache_dtype']}")
def test_a_recorded_size_comes_out_of_the_models_config(row: dict[str, Any]) -> None:
    """Groups, the block that holds a state, blocks of the pool and of a request: nothing of it is taken from the row."""
    params, served = row["params"], model(row["name"])
    drafts, longest = params["spec"], params["max_model_len"]
    found = plan_model(
        served,
        ServeOptions(
            kv_cache_dtype=row["kv_cache_dtype"],
            tensor_parallel=row["tp"],
            max_model_len=longest,
            max_num_batched_tokens=params["max_num_batched_tokens"],
            concurrent_batches=2,
            disable_hybrid_kv_cache_manager=False if row["name"].endswith("manager on") else None,
            speculation=drafts and Speculation(method=drafts["method"], tokens=drafts["num_speculative_tokens"]),
        ),
    )
    order = "".join(LETTERS[shape.kind] if isinstance(shape, AttentionLayerShape) else "M" for shape in served.layers)
    assert order == params["layers"]["order"].rstrip("D")
    pool = PlannedPool.of(row["available_bytes"], found.plan)
    if "error" in row:
        assert not pool.holds(longest)
        return
    assert found.block_size == params["block_size"]
    assert found.plan.bytes_per_block == row["bytes_per_block"]
    assert found.plan.scheduler_block_size == row["scheduler_block_size"]
    assert [(g.layers, g.block_size, list(g.page_bytes), g.eagle) for g in found.plan.groups] == [
        (g["layers"], g["block_size"], g["page_bytes"], g["eagle"]) for g in row["groups"]
    ]
    assert pool.num_blocks == row["num_gpu_blocks"]
    assert pool.tokens(longest) == row["logged_kv_tokens"]


def test_the_block_holds_a_state() -> None:
    for name, options, block in [
        ("qwen3-next-80b", {}, 544),
        ("qwen3-next-80b", {"kv_cache_dtype": "fp8"}, 1072),
        ("qwen3-next-80b", {"tensor_parallel": 4}, 272),
        ("qwen3-next-80b", {"block_size": 32}, 544),
        ("qwen3-next-80b", {"block_size": 1024}, 1024),
        ("nemotron-3-nano", {}, 2096),
        ("nemotron-3-nano", {"kv_cache_dtype": "fp8"}, 4176),
        ("granite-4.0-h-small", {}, 528),
        ("kimi-linear", {}, 1920),
        ("deepseek-v3", {}, 64),
        ("gpt-oss-20b", {}, 16),
    ]:
        assert planned(name, **options).block_size == block


def test_a_block_size_that_the_model_cannot_have() -> None:
    with pytest.raises(EngineError, match="cannot have blocks of 40 tokens") as caught:
        planned("qwen3-next-80b", block_size=40)
    assert caught.value.hint == "--block-size 32"


def test_without_caching_a_state_has_one_block() -> None:
    plan = planned("qwen3-next-80b", enable_prefix_caching=False, max_model_len=5440).plan
    assert {group.block_size for group in plan.groups if group.kind == "mamba"} == {5440}
    assert not any(group.mamba_align for group in plan.groups if group.kind == "mamba")


def test_llama_4_is_one_group_unless_the_hybrid_manager_is_on() -> None:
    off, on = planned("llama-4-scout"), planned("llama-4-scout", disable_hybrid_kv_cache_manager=False)
    assert [group.kind for group in off.plan.groups] == ["full"]
    assert off.one_group is not None
    assert [group.kind for group in on.plan.groups] == ["chunked", "chunked", "chunked", "full"]


def test_layers_that_share_keys_and_values_are_left_out() -> None:
    config = {"model_type": "gemma4_text", "num_hidden_layers": 12, "num_kv_shared_layers": 5}
    assert len(served_of(config, "shared", "").layers) == 7


def test_an_index_has_pages_of_its_own() -> None:
    [group] = planned("deepseek-v3.2").plan.groups
    assert (group.layers, group.page_bytes) == (122, (64 * 132, 64 * 1152))


MAMBA = {"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 3, "vocab_size": 10}
BERT = {"model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "vocab_size": 10}
RERANKER = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForSequenceClassification"],
    "hidden_size": 64,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "vocab_size": 10,
}


def test_why_caching_is_off() -> None:
    for config, reason in [
        (MAMBA, "no attention"),
        (BERT, "is bidirectional"),
        ({**BERT, "model_type": "whisper"}, "an encoder-decoder"),
        ({**RERANKER, "is_causal": False}, "is bidirectional"),
        ({**RERANKER, "architectures": ["LlamaBidirectionalModel"]}, "is bidirectional"),
        ({**RERANKER, "model_type": "llama", "use_bidirectional_attention": True}, "is bidirectional"),
        ({**RERANKER, "architectures": ["Qwen2ForProcessRewardModel"]}, "each step of a text"),
        ({**RERANKER, "rswa_window": 128}, "a window of the answer"),
    ]:
        found = planned(config)
        assert not found.caching
        assert found.caching_off is not None
        assert reason in found.caching_off


def test_caching_that_is_asked_for_is_on() -> None:
    found = planned(MAMBA, enable_prefix_caching=True)
    assert found.caching
    assert found.caching_off is None
    assert found.plan.groups[0].mamba_align
    assert planned("qwen3-8b").caching_off is None
    assert planned(RERANKER).caching  # its last token decides
    assert planned({**RERANKER, "use_bidirectional_attention": "vision"}).caching


def test_several_modules_of_mtp_read_further_ahead() -> None:
    config = {**SERVED_PRESETS["deepseek-ai/DeepSeek-V3"], "num_nextn_predict_layers": 3}
    plan = planned(config, speculation=Speculation(method="mtp", tokens=4)).plan
    assert (plan.num_prefill_lookahead, plan.groups[0].layers, plan.groups[0].eagle) == (4, 64, True)
    one = planned("deepseek-v3", speculation=Speculation(method="mtp", tokens=4)).plan
    assert (one.num_prefill_lookahead, one.groups[0].layers) == (1, 62)
    assert planned("deepseek-v3.2", speculation=Speculation(method="mtp", tokens=1)).plan.groups[0].layers == 124


def test_drafts_of_a_model_that_has_none() -> None:
    with pytest.raises(EngineError, match="has no MTP layers"):
        planned("qwen3-8b", speculation=Speculation(method="mtp", tokens=2))


def test_a_preset_is_planned_and_found_by_its_repository() -> None:
    for name in preset_sources():
        source = preset_sources()[name]
        assert source.count("/") == 1
        found = find_served(source)
        assert find_served(name) == found
        assert planned(name).plan.groups
        assert found.name == name


PUBLISHED = {
    "gpt-oss-20b": 20.9,
    "gpt-oss-120b": 116.8,
    "gemma-2-9b": 9.24,
    "gemma-2-27b": 27.2,
    "gemma-3-27b": 27.0,
    "gemma-4-26b-a4b": 25.2,
    "gemma-4-31b": 30.7,
    "qwen3-30b-a3b": 30.5,
    "qwen3-235b-a22b": 235.0,
    "qwen3-next-80b-a3b": 79.7,
    "nemotron-3-nano-30b-a3b": 31.6,
    "granite-4.0-h-small": 32.2,
    "kimi-linear-48b-a3b": 49.1,
    "kimi-k2": 1026.0,
    "deepseek-v2-lite": 15.7,
    "deepseek-v3": 671.0,
    "glm-4.5-air": 106.9,
    "minimax-m2": 228.7,
    "mistral-small-24b": 23.6,
    "phi-4": 14.7,
    "olmo-3-7b": 7.3,
    "olmo-3-32b": 32.2,
}
"""Billions of weights of the language model."""


def test_weights_are_counted_as_published() -> None:
    for name, billions in PUBLISHED.items():
        assert find_served(name).geometry.parameters / 1e9 == pytest.approx(billions, rel=4e-3)


def test_plain_presets_read_as_before() -> None:
    for name, config in PRESETS.items():
        assert find_served(name).geometry == Geometry.of(config)
