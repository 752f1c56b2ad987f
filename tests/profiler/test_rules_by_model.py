"""What the rules of another engine take from the model that is served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtool.cli.app import run

RULES = ["--rules", "llamacpp", "--model"]


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "prompts.jsonl"
    head = "a word and another " * 120
    path.write_text("".join(json.dumps({"prompt": f"{head}{number} " * 2}) + "\n" for number in range(6)))
    return str(path)


@pytest.mark.parametrize(
    ("model", "window", "context"),
    [("gpt-oss-20b", 128, 131_072), ("gemma-2-9b", 4096, 8192), ("qwen3-8b", None, 40_960)],
)
def test_llama_cpp_knows_the_windows_of_a_model(
    model: str, window: int | None, context: int, prompts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", prompts, *RULES, model, "--json", "-q"]) == 0
    config = json.loads(capsys.readouterr().out)["config"]
    assert (config["sliding_window"], config["ctx_size"]) == (window, context)


def test_a_window_by_a_flag_overrules_the_models(prompts: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["profile", prompts, *RULES, "gpt-oss-20b", "--sliding-window", "64", "--ctx-size", "9000", "--json", "-q"])
        == 0
    )
    config = json.loads(capsys.readouterr().out)["config"]
    assert (config["sliding_window"], config["ctx_size"]) == (64, 9000)


def test_states_of_a_model_go_back_only_to_checkpoints(prompts: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", prompts, *RULES, "qwen3-next-80b-a3b", "--parallel", "1", "--json", "-q"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["config"]["state_layers"], report["config"]["kv_layers"]) == (36, 12)
    saved = report["totals"]["prompt_tokens"] // 6 - 516  # a micro batch of 512 tokens and 4 before the end of each prompt
    assert report["totals"]["hit_tokens"] == 5 * saved
    assert report["groups"][0]["fates"]["no_state"] > 0
    assert [each["code"] for each in report["findings"]].count("KV333") == 1
