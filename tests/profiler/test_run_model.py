"""Sizes and times are those of the model that a log names, or absent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtool.cli.app import run
from kvtool.engine.config import DEFAULT_MODEL
from kvtool.engine.model.configs.find_served import find_preset
from kvtool.engine.prediction.accelerators import batch_limits_with, find_accelerator
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.engine.prediction.sizing import block_bytes, blocks_that_fit
from kvtool.results.report import Report
from tests.conftest import Command

KNOWN = {
    "Qwen/Qwen3-32B": "qwen3-32b",
    "qwen3-32b-awq": "qwen3-32b-awq",
    "meta-llama/Llama-3.1-70B-Instruct": "llama-3.1-70b",
}
UNKNOWN = ("qwen-foo", "our-model", "llama-3.1-8b-sql-lora", "../etc", "internal-70b-v2")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command of kvtool with its own tokenizer; gives exit code, stdout and stderr."""
    monkeypatch.setenv("NO_COLOR", "1")

    def start(*arguments: str) -> tuple[int, str, str]:
        code = run(list(arguments))
        said = capsys.readouterr()
        return code, said.out, said.err

    return start


def log(folder: Path, models: Sequence[str | None]) -> str:
    """Write one request for each name, all with a shared prefix."""
    path = folder / "log.jsonl"
    head = "You answer in one short sentence and never guess a date. " * 12
    with path.open("w", encoding="utf-8") as file:
        for number, model in enumerate(models):
            messages = [{"role": "system", "content": head}, {"role": "user", "content": f"Question {number}?"}]
            named = {} if model is None else {"model": model}
            file.write(json.dumps({**named, "messages": messages}) + "\n")
    return str(path)


def profile(path: str, command: Command, *flags: str) -> dict[str, Any]:
    code, out, err = command("profile", path, "--dry-run", "--no-advice", "--json", "-q", *flags)
    assert code == 0, err
    document: dict[str, Any] = json.loads(out)
    Report.model_validate(document)
    return document


def test_one_known_model_has_its_own_sizes_and_times(tmp_path: Path, command: Command) -> None:
    report = profile(log(tmp_path, ["Qwen/Qwen3-32B"] * 4), command)
    served = find_preset("qwen3-32b")
    assert served is not None
    assert (report["config"]["model"], report["config"]["model_from"]) == ("qwen3-32b", "log")
    assert report["kv_cache"]["bytes_per_block"] == block_bytes(served.geometry, 16)
    tokens = report["totals"]["prompt_tokens"] // 4
    latency = LatencyModel(served.geometry, find_accelerator("h100"))
    assert report["ttft"]["predicted"]["off"]["p50"] == pytest.approx(latency.prefill_seconds(tokens, 0, 8192))


@pytest.mark.parametrize("name", UNKNOWN[:2])
def test_an_unknown_model_has_no_figure_of_another(name: str, tmp_path: Path, command: Command) -> None:
    path = log(tmp_path, [name] * 3)
    report = profile(path, command)
    assert report["kv_cache"]["bytes_per_block"] is report["kv_cache"]["reused_bytes"] is None
    assert report["ttft"]["predicted"] == {"on": None, "off": None}
    assert report["decode"] is None
    assert all(group["predicted_ttft"] is None for group in report["groups"])
    assert report["config"]["model"] is report["config"]["accelerator"] is None
    said = [note for note in report["notes"] if "--model" in note]
    assert said == [f"model {name} is unknown: give --model NAME or config.json for memory and TTFT"]
    assert "tokens are counted by the built-in tokenizer; -t sets another" in report["notes"]
    outputs = [tmp_path / f"report.{output}" for output in ("md", "html", "csv")]
    assert command("profile", path, "--dry-run", "-q", *(f"-o{output}" for output in outputs))[0] == 0
    for output in outputs:
        text = output.read_text()
        assert "roofline" not in text
        assert "GiB" not in text
        assert f"{DEFAULT_MODEL} on" not in text


def test_memory_of_an_unknown_model_is_refused(tmp_path: Path, command: Command) -> None:
    path = log(tmp_path, ["qwen-foo"] * 3)
    for flags in (["--gpu-memory", "80GiB"], ["--capacity", "2GiB"], ["--capacity", "2GiB", "--rules", "sglang"]):
        code, _, err = command("profile", path, "--dry-run", *flags)
        assert code == 2
        assert "model qwen-foo is unknown" in err
        assert "give --model NAME or config.json" in err
    for axis in (["routing"], ["tier", "--capacity", "40"], ["pd"]):
        assert command("what-if", path, "--sweep", *axis)[0] == 2
    blocks = profile(path, command, "--capacity", "40")
    assert blocks["config"]["capacity_blocks"] == 40
    together = profile(path, command, "--concurrency", "2")
    assert f"the clock assumes step times of {DEFAULT_MODEL} on h100" in together["notes"]
    assert together["ttft"]["predicted"]["on"] is None


def test_blocks_of_a_memory_are_those_of_the_logs_model(tmp_path: Path, command: Command) -> None:
    for name, preset in KNOWN.items():
        served = find_preset(preset)
        assert served is not None
        memory = 192 << 30
        report = profile(log(tmp_path, [name] * 3), command, "--gpu-memory", f"{memory >> 30}GiB")
        limits = batch_limits_with(memory)._asdict()
        assert report["config"]["capacity_blocks"] == blocks_that_fit(served.geometry, memory, 16, **limits) - 1


def test_a_log_without_a_model_assumes_one_and_says_so(tmp_path: Path, command: Command) -> None:
    path = log(tmp_path, [None] * 3)
    report = profile(path, command)
    assert (report["config"]["model"], report["config"]["model_from"]) == (DEFAULT_MODEL, "assumed")
    _, shown, _ = command("profile", path, "--dry-run", "--width", "200")
    assert f"predicted: {DEFAULT_MODEL} (assumed) on h100" in shown
    _, limited, _ = command("profile", path, "--dry-run", "--gpu-memory", "80GiB", "--width", "200")
    assert f"for {DEFAULT_MODEL}, assumed)" in limited


def test_hosted_models_have_no_sizes(tmp_path: Path, command: Command) -> None:
    report = profile(log(tmp_path, ["gpt-4o"] * 3), command)
    assert report["config"]["model"] is report["kv_cache"]["bytes_per_block"] is report["decode"] is None
    assert report["ttft"]["predicted"]["on"] is None
    assert not [note for note in report["notes"] if "--model" in note]


def test_the_users_model_wins_and_a_contradiction_is_said(tmp_path: Path, command: Command) -> None:
    path = log(tmp_path, ["Qwen/Qwen3-32B"] * 3)
    other = profile(path, command, "--model", "llama-3.1-70b")
    assert (other["config"]["model"], other["config"]["model_from"]) == ("llama-3.1-70b", "given")
    assert "llama-3.1-70b is used, as given; the log names Qwen/Qwen3-32B" in other["notes"]
    same = profile(path, command, "--model", "qwen3-32b-fp8")
    assert not [note for note in same["notes"] if "as given" in note]
    unknown = profile(log(tmp_path, ["qwen-foo"] * 3), command, "--model", "qwen3-4b")
    assert unknown["config"]["model"] == "qwen3-4b"
    assert not [note for note in unknown["notes"] if "qwen-foo" in note]


def test_models_share_no_cache_and_each_has_its_sizes(tmp_path: Path, command: Command) -> None:
    models = ["Qwen/Qwen3-32B", "llama-3.1-70b"] * 3
    both = profile(log(tmp_path, models), command)
    alone = [profile(log(tmp_path, [name] * 3), command) for name in models[:2]]
    assert both["totals"]["hit_tokens"] == sum(each["totals"]["hit_tokens"] for each in alone)
    assert both["kv_cache"]["reused_bytes"] == sum(each["kv_cache"]["reused_bytes"] for each in alone)
    assert both["kv_cache"]["bytes_per_block"] is both["config"]["model"] is both["decode"] is None
    slow, fast = sorted(each["ttft"]["predicted"]["off"]["p50"] for each in alone)
    assert slow <= both["ttft"]["predicted"]["off"]["p50"] <= fast
    assert any("llama-3.1-70b 3 requests" in note and "qwen3-32b 3 requests" in note for note in both["notes"])
    names_of_one = profile(log(tmp_path, ["Qwen/Qwen3-32B", "qwen3-32b"] * 2), command)
    assert names_of_one["config"]["model"] == "qwen3-32b"


def test_a_config_json_is_found_by_name(tmp_path: Path, command: Command, byte_spec: str) -> None:
    """Beside the tokenizer, in a folder of the model's name; another folder is proposed, and not taken."""
    for name in ("qwen-foo", "another"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "tokenizer.json").write_text(byte_spec)
        config = {"model_type": "qwen3", "num_hidden_layers": 5, "hidden_size": 512, "intermediate_size": 1024}
        config |= {"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1000}
        (folder / "config.json").write_text(json.dumps(config))
    path = log(tmp_path, ["org/Qwen-Foo"] * 3)
    found = profile(path, command, "-t", str(tmp_path / "qwen-foo"))
    assert found["kv_cache"]["bytes_per_block"] == 16 * 5 * 2 * 2 * 64 * 2
    other = profile(path, command, "-t", str(tmp_path / "another"))
    assert other["kv_cache"]["bytes_per_block"] is None
    assert any(f"give --model {tmp_path / 'another'}" in note for note in other["notes"])


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from([None, *KNOWN, *UNKNOWN]), min_size=1, max_size=6))
def test_every_mix_of_names(tmp_path_factory: pytest.TempPathFactory, models: list[str | None]) -> None:
    """Bytes are those of the models that are named, or absent; no figure is one of the default's where any model is named."""
    folder = tmp_path_factory.mktemp("mix")
    target = folder / "report.json"
    assert run(["profile", log(folder, models), "--dry-run", "--no-advice", "-q", "-o", str(target)]) == 0
    report = json.loads(target.read_text())
    named = {KNOWN.get(name, name) for name in models if name is not None}
    presets = {name: find_preset(name) for name in named}
    bytes_ = report["kv_cache"]["bytes_per_block"]
    if not named:
        assert report["config"]["model_from"] == "assumed"
    elif len(named) == 1 and (served := next(iter(presets.values()))) is not None:
        assert bytes_ == block_bytes(served.geometry, 16)
    else:
        assert bytes_ is None
        assert report["config"]["model"] is None
    if named and not any(presets.values()):
        assert report["ttft"]["predicted"]["on"] is None
    assert not named or DEFAULT_MODEL not in json.dumps({**report, "notes": [], "findings": []})
