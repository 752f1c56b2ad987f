"""config.json that cannot be: a sentence with the place, whatever is wrong with it."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.capacity import PlannedPool
from kvtool.engine.groups.model_plan import ServeOptions, plan_model
from kvtool.engine.model.configs.family_defaults import DEFAULTS
from kvtool.engine.model.configs.find_served import find_served
from kvtool.engine.model.configs.served_presets import SERVED_PRESETS
from tests.conftest import some

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}
GEMMA: dict[str, Any] = {**LLAMA, "model_type": "gemma3_text", "head_dim": 16, "sliding_window": 8}
NEMOTRON: dict[str, Any] = {**LLAMA, "model_type": "nemotron_h", "hybrid_override_pattern": "M*-M", "head_dim": 16}
KIMI: dict[str, Any] = {
    **SERVED_PRESETS["moonshotai/Kimi-Linear-48B-A3B-Instruct"],
    "linear_attn_config": {"kda_layers": [1, 30], "num_heads": 2, "head_dim": 4, "short_conv_kernel_size": 4},
}


def written(folder: Path, config: dict[str, Any]) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    return path


def test_what_is_wrong_is_said_with_its_place(tmp_path: Path) -> None:
    for config, key, message in [
        ({**LLAMA, "model_type": "rwkv"}, "model_type", "unknown model family 'rwkv' (`model_type`)"),
        ({**LLAMA, "layer_types": ["full_attention"] * 3 + ["wavelet"]}, "layer_types", "entry 4 is 'wavelet'"),
        (
            {**LLAMA, "layer_types": ["full_attention"] * 5},
            "layer_types",
            "5 entries, `num_hidden_layers` says 4 layers",
        ),
        ({**LLAMA, "num_attention_heads": 0}, "num_attention_heads", "must be at least 1, not 0"),
        ({**LLAMA, "num_key_value_heads": 3}, "num_attention_heads", "cannot share 3 K/V heads evenly"),
        ({**LLAMA, "num_hidden_layers": 0}, "num_hidden_layers", "must be from 1 to 10,000, not 0"),
        ({**LLAMA, "num_hidden_layers": 10**9}, "num_hidden_layers", "must be from 1 to 10,000"),
        ({**LLAMA, "vocab_size": 10**400}, "vocab_size", "must be a whole number of at most"),
        ({**LLAMA, "hidden_size": 0}, "hidden_size", "not a multiple of"),
        ({**LLAMA, "num_hidden_layers": "4"}, "num_hidden_layers", "must be a whole number"),
        ({**LLAMA, "max_position_embeddings": -1}, "max_position_embeddings", "must be at least 1, not -1"),
        ({**GEMMA, "sliding_window": 0}, "sliding_window", "must be at least 1, not 0"),
        ({**GEMMA, "sliding_window": None}, "sliding_window", "is missing"),
        ({**GEMMA, "sliding_window_pattern": 0}, "sliding_window_pattern", "must be at least 1, not 0"),
        ({**GEMMA, "sliding_window_pattern": 50}, "sliding_window_pattern", "is 50, longer than its"),
        (
            {**LLAMA, "model_type": "qwen2", "layer_types": ["sliding_attention"] * 4},
            "layer_types",
            "is off or there is no",
        ),
        (
            {**LLAMA, "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2},
            "max_window_layers",
            "2 of 4 layers have a window",
        ),
        ({**NEMOTRON, "hybrid_override_pattern": "M*-M-"}, "hybrid_override_pattern", "has 5 layers"),
        ({**NEMOTRON, "hybrid_override_pattern": "M*Q-"}, "hybrid_override_pattern", "has 'Q'"),
        (KIMI, "kda_layers", "has layer 30 of 27"),
        ({**LLAMA, "dtype": "int3"}, "dtype", "is 'int3'"),
    ]:
        path = written(tmp_path, config)
        lines = path.read_text(encoding="utf-8").splitlines()
        with pytest.raises(EngineError) as caught:
            find_served(str(path))
        assert message in caught.value.message
        assert caught.value.message.startswith(f"{path}")
        found = [number for number, line in enumerate(lines, 1) if f'"{key}"' in line]
        if found:
            assert caught.value.message.startswith(f"{path}:{found[0]}:{lines[found[0] - 1].index(key)}: ")


def test_what_is_no_config(tmp_path: Path) -> None:
    for text, message in (("[1]", "not a JSON object"), ("{", "not JSON"), ("{}", "`model_type` is missing")):
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        with pytest.raises(EngineError, match=message):
            find_served(str(tmp_path))


def test_a_nested_language_model_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, {"model_type": "gemma3", "text_config": {**GEMMA, "num_hidden_layers": 6}})
    assert len(find_served(str(path)).layers) == 6
    path = written(
        tmp_path, {"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": {**LLAMA, "model_type": "qwen3"}}}
    )
    assert len(find_served(str(path)).layers) == 4


ODD = (
    None,
    0,
    1,
    -1,
    2,
    3,
    7,
    64,
    10**6,
    10**30,
    1.5,
    True,
    "",
    "x",
    "full_attention",
    [],
    [1, -1],
    ["a"],
    {},
    {"a": 1},
)


def mutated(chance: random.Random) -> dict[str, Any]:
    repository = chance.choice(list(SERVED_PRESETS))
    config: dict[str, Any] = json.loads(json.dumps(SERVED_PRESETS[repository]))
    config = {**DEFAULTS.get(config["model_type"], {}), **config}
    for _ in range(chance.choice((1, 1, 2, 3))):
        key = chance.choice(list(config))
        if isinstance(config[key], dict) and config[key] and chance.random() < 0.7:
            inner = chance.choice(list(config[key]))
            config[key][inner] = copy.deepcopy(chance.choice(ODD))
        elif isinstance(config[key], list) and config[key] and chance.random() < 0.7:
            config[key][chance.randrange(len(config[key]))] = copy.deepcopy(chance.choice(ODD))
        elif chance.random() < 0.2:
            del config[key]
        else:
            config[key] = copy.deepcopy(chance.choice(ODD))
    return {"text_config": config} if chance.random() < 0.2 else config


def test_mutated_configs_are_planned_or_refused(tmp_path: Path) -> None:
    chance, planned = random.Random(33), 0
    for _ in some(range(600), 250):
        path = written(tmp_path, mutated(chance))
        options = ServeOptions(
            tensor_parallel=chance.choice((1, 2, 3, 8)),
            kv_cache_dtype=chance.choice(("auto", "fp8", "int8")),
            block_size=chance.choice((None, None, 16, 17, 4096)),
            enable_prefix_caching=chance.choice((None, True, False)),
        )
        try:
            found = plan_model(find_served(str(path)), options)
        except EngineError:
            continue
        planned += 1
        if found.plan.groups:
            assert PlannedPool.of(1 << 36, found.plan).longest_request(10**6) >= 0
    assert planned > 25
