"""The table of `kvtool size`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.cli.commands.size import SizeCommand
from kvtool.config.option import made
from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import ACCELERATORS
from kvtool.engine.prediction.sizing import size_cache
from kvtool.errors import KvtoolError
from kvtool.text.terminal.console import cell_width
from tests.files import widest

LLAMA = "llama-3.1-8b"


def shown(capsys: pytest.CaptureFixture[str], model: str = LLAMA, **options: Any) -> list[str]:
    options.setdefault("width", 80)
    assert made(SizeCommand, model=model, color="never", **options).run() == 0
    return capsys.readouterr().out.splitlines()


def document(capsys: pytest.CaptureFixture[str], model: str | None = LLAMA, **options: Any) -> dict[str, Any]:
    assert made(SizeCommand, model=model, json=True, **options).run() == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def row(lines: list[str], name: str) -> list[str]:
    """The cells of the table, which is between the first and the second empty line."""
    first = lines.index("")
    table = lines[first + 1 : lines.index("", first + 1)]
    [found] = [line.split() for line in table if line.split()[:1] == [name]]
    return found


def test_a_row_for_every_accelerator(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, max_model_len=8192, width=120)
    heading = row(lines, "accelerator")
    assert heading == ["accelerator", "memory", "weights", "KV", "cache", "blocks", "tokens", "requests"]
    for name, accelerator in ACCELERATORS.items():
        pool = size_cache(find_geometry(LLAMA), accelerator.memory, **accelerator.batch_limits._asdict()).pool
        concurrency = f"{pool.max_concurrency(8192):,.1f}"
        assert row(lines, name)[-3:] == [f"{pool.usable_blocks:,}", f"{pool.usable_blocks * 16:,}", concurrency]


def test_the_json_has_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, max_model_len=8192, accelerators=["L4", "h100"])
    assert (found["schema"], found["model"], found["max_model_len"]) == ("kvtool.size/1", LLAMA, 8192)
    assert [each["name"] for each in found["accelerators"]] == ["l4", "h100"]
    assert [each["max_num_batched_tokens"] for each in found["accelerators"]] == [2048, 8192]
    for each in found["accelerators"]:
        assert each["fits"]
        assert each["fits_max_model_len"]
        assert each["bytes_per_block"] == 2_097_152
        reserved = each["weight_bytes"] + each["activation_bytes_estimate"] + each["graph_bytes_estimate"]
        assert each["available_bytes"] == each["usable_bytes"] - reserved
        assert each["num_blocks"] == each["available_bytes"] // 2_097_152
        assert each["usable_blocks"] == each["num_blocks"] - 1
        assert each["tokens"] == each["num_blocks"] * 16
        assert each["max_concurrency"] == round(each["num_blocks"] / 512, 4)


def test_the_length_is_the_models_unless_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys)["max_model_len"] == 131_072
    assert document(capsys, max_model_len=100)["max_model_len"] == 100


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        (LLAMA, {}),
        (LLAMA, {"kv_cache_dtype": "int8", "tensor_parallel": 8, "max_model_len": 123_456_789}),
        ("llama-3.3-70b", {"gpu_memory_utilization": 0.5}),
    ],
)
def test_lines_fit_the_width(
    capsys: pytest.CaptureFixture[str], model: str, options: dict[str, Any], width: int
) -> None:
    lines = shown(capsys, model, width=width, **options)
    assert widest("\n".join(lines)) <= max(width, 26)  # below, the parts of a row are not cut


def test_a_model_that_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "llama-3.3-70b", accelerators=["l4", "h100"], width=120)
    assert row(lines, "l4")[-3:] == ["does", "not", "fit"]
    assert lines[-1] == "  kvtool size llama-3.3-70b --tensor-parallel 2 --accelerator l4 --accelerator h100"
    [l4, h100] = document(capsys, "llama-3.3-70b", accelerators=["l4", "h100"], tensor_parallel=4)["accelerators"]
    assert not l4["fits"]
    assert {l4[key] for key in ("available_bytes", "num_blocks", "tokens", "max_concurrency")} == {None}
    assert l4["fits_max_model_len"] is False
    assert h100["fits"]


def test_requests_that_are_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, accelerators=["l4", "h100"])
    assert row(lines, "l4")[-1] == "none"
    assert float(row(lines, "h100")[-1]) > 1
    longest = document(capsys, accelerators=["l4"])["accelerators"][0]["longest_request"]
    assert f"Longest request that fits: l4 {longest:,} tokens" in " ".join(" ".join(lines).split())
    assert row(shown(capsys, accelerators=["l4"], max_model_len=longest), "l4")[-1] == "1.0"
    assert row(shown(capsys, accelerators=["l4"], max_model_len=longest + 1), "l4")[-1] == "none"


def test_a_smaller_cache_dtype(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = {}
    for name in ("auto", "fp8", "int8"):
        lines = shown(capsys, kv_cache_dtype=name, accelerators=["h100"])
        blocks[name] = document(capsys, kv_cache_dtype=name, accelerators=["h100"])["accelerators"][0]["num_blocks"]
        text = " ".join(" ".join(lines).split())
        gain = {"fp8": "2.00 times the blocks of bf16", "int8": "1.94 times the blocks of bf16"}.get(name)
        assert ("times the blocks" in text) == (gain is not None)
        assert gain is None or gain in text
    assert blocks["fp8"] in (2 * blocks["auto"], 2 * blocks["auto"] + 1)
    assert blocks["auto"] < blocks["int8"] < blocks["fp8"]


def test_the_next_command_repeats_what_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, width=200, max_model_len=4096, tensor_parallel=2, block_size=32, gpu_memory_utilization=0.8)
    assert lines[-1] == (
        "  kvtool size llama-3.1-8b --kv-cache-dtype fp8_e4m3 --max-model-len 4096 --tensor-parallel 2 --block-size 32 "
        "--gpu-memory-utilization 0.8"
    )
    assert "Next:" not in shown(capsys, kv_cache_dtype="fp8")


def test_it_needs_no_torch() -> None:
    program = (
        "import sys; from kvtool.cli.app import run; run(['size', 'llama-3.1-8b', '--no-config']); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_the_groups_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "qwen3-next-80b", accelerators=["b200"])
    assert row(lines, "layers") == ["layers", "groups", "of", "layers", "block", "page", "a", "request's", "blocks"]
    assert row(lines, "states") == ["states", "3", "12", "544", "1.1", "MiB", "3", "x", "2"]
    text = " ".join(" ".join(lines).split())
    assert "block 544: one state takes 1,097,728 bytes, the size of 536 tokens of attention" in text
    assert "hits end on multiples of 544 tokens" in text
    assert "kept: only the states at the end of each prompt" in text
    assert "Next:" not in lines  # fp8 would double the block


def test_the_groups_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "gpt-oss-20b", accelerators=["h100"], max_model_len=32_768)
    assert [(g["kind"], g["count"], g["layers"], g["window"], g["blocks_per_request"]) for g in found["groups"]] == [
        ("sliding", 1, [12], 128, 1033),
        ("full", 1, [12], None, 2048),
    ]
    assert (found["hit_unit"], found["keeps_prompt_ends_only"], found["weights_note"]) == (
        16,
        True,
        "experts in mxfp4, the rest in 16 bits",
    )
    [h100] = found["accelerators"]
    assert h100["max_concurrency"] == round(h100["num_blocks"] / (1033 + 2048), 4)
    assert h100["tokens"] == int(h100["num_blocks"] / (1033 + 2048) * 32_768)


def test_a_plain_model_says_nothing_of_groups(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(shown(capsys, accelerators=["h100"]))
    assert all(word not in text for word in ("groups", "kept:", "hits end", "one group", "FlashMLA", "weights:"))
    found = document(capsys, accelerators=["h100"])
    assert (found["block_reason"], found["caching_off"], found["one_group_reason"]) == (None, None, None)
    assert (found["hit_unit"], found["keeps_prompt_ends_only"]) == (16, False)


def test_what_is_missing_and_what_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "qwen3-next-80b", accelerators=["h100"])
    [room] = document(capsys, "qwen3-next-80b", accelerators=["h100"])["accelerators"]
    assert not room["fits"]
    assert "does not fit: needs more memory (h100 80.1 GiB)" in " ".join(" ".join(lines).split())
    assert room["lacking_bytes"] / (1 << 30) == pytest.approx(80.1, abs=0.05)
    assert lines[-1] == "  kvtool size qwen3-next-80b --tensor-parallel 4 --accelerator h100"
    assert document(capsys, "qwen3-next-80b", accelerators=["h100"], tensor_parallel=4)["accelerators"][0]["fits"]


def test_a_model_without_caching(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "model_type": "mamba2",
        "hidden_size": 2560,
        "num_hidden_layers": 64,
        "vocab_size": 50_288,
        "num_heads": 80,
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    text = " ".join(" ".join(shown(capsys, str(tmp_path), accelerators=["h100"], max_model_len=4096)).split())
    assert "prefix caching is off: it has no attention" in text
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "bert"}), encoding="utf-8")
    text = " ".join(" ".join(shown(capsys, str(tmp_path), accelerators=["h100"])).split())
    assert "its layers keep no KV cache" in text


def test_the_model_by_a_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, None, named="gpt-oss-20b") == document(capsys, "gpt-oss-20b")
    with pytest.raises(KvtoolError, match="given twice"):
        made(SizeCommand, model=LLAMA, named=LLAMA).run()
    with pytest.raises(EngineError, match=r"cannot have blocks of 40 tokens"):
        made(SizeCommand, model="qwen3-next-80b", block_size=40).run()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("model", ["qwen3-next-80b", "gemma-4-31b", "deepseek-v3", "llama-4-scout", "kimi-linear"])
def test_groups_fit_the_width(capsys: pytest.CaptureFixture[str], model: str, width: int) -> None:
    lines = shown(capsys, model, width=width)
    assert max(cell_width(line) for line in lines) <= width


def test_a_run_with_the_memory_of_a_card_has_its_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    model, length = "llama-3.1-8b", ["--max-model-len", "8192", "--json"]
    asked = ["workloads/support-bot.yaml", "--dry-run", "--no-advice", "--gpu-memory", "80GiB", "--model", model]
    assert run(["profile", *asked, *length]) == 0
    profiled = json.loads(capsys.readouterr().out)["config"]["capacity_blocks"]
    assert run(["size", model, "--accelerator", "h100", *length]) == 0
    assert profiled == json.loads(capsys.readouterr().out)["accelerators"][0]["usable_blocks"]
