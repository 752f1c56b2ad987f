"""What a step takes where nobody says it: as vLLM's API server has it on the accelerator that is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvtool
from kvtool.config.option_values import option_values
from kvtool.engine.config import EngineConfig
from kvtool.engine.prediction.accelerators import ACCELERATORS


@pytest.mark.parametrize(
    ("names", "limits"),
    [
        (("a100-80g", "l4", "l40s", "rtx-4090"), (2048, 256)),
        (("h100", "h200", "rtx-pro-6000", "rtx-pro-6000-se"), (8192, 1024)),
        (("b200", "mi300x"), (16384, 1024)),
    ],
)
def test_the_limits_go_by_memory_but_for_the_a100(names: tuple[str, ...], limits: tuple[int, int]) -> None:
    assert {ACCELERATORS[name].batch_limits for name in names} == {limits}


@pytest.mark.parametrize(
    ("said", "limits", "source"),
    [
        ({}, (EngineConfig.max_num_batched_tokens, EngineConfig.max_num_seqs), None),
        ({"accelerator": "L4"}, (2048, 256), "vLLM 0.33's API server on l4"),
        ({"accelerator": "h100"}, (8192, 1024), "vLLM 0.33's API server on h100"),
        ({"accelerator": "b200", "max_num_seqs": 3}, (16384, 3), "vLLM 0.33's API server on b200"),
        ({"accelerator": "b200", "max_num_batched_tokens": 64}, (64, 64), "vLLM 0.33's API server on b200"),
        ({"accelerator": "b200", "max_num_seqs": 3, "max_model_len": 100}, (300, 3), "vLLM 0.33's API server on b200"),
        ({"accelerator": "b200", "max_num_batched_tokens": 64, "max_num_seqs": 3}, (64, 3), None),
    ],
)
def test_a_profile_takes_them(
    said: dict[str, Any], limits: tuple[int, int], source: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"prompt": [1, 2, 3], "max_tokens": 1}) + "\n")
    report = kvtool.profile(path, **said)
    assert (report.config["max_num_batched_tokens"], report.config["max_num_seqs"]) == limits
    assert report.config.get("batch_limits_of") == source
    step = f"Largest step: {limits[0]:,} tokens and {limits[1]:,} requests (defaults of {source})."
    assert [note for note in report.notes if note.startswith("Largest step")] == ([step] if source else [])


@pytest.mark.parametrize(("accelerator", "tokens"), [("b200", 16384), ("l4", 2048)])
def test_kvtool_config_shows_them(accelerator: str, tokens: int) -> None:
    given = {"accelerator": (accelerator, "--accelerator"), "max_num_seqs": (7, "--max-num-seqs")}
    values = {each.name: each.value for each in option_values(given, None, None)}
    assert (values["engine.max_num_batched_tokens"], values["engine.max_num_seqs"]) == (tokens, 7)
