"""The table of `kvtool size`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from kvtool.cli.size import SizeCommand
from kvtool.config.option import made
from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.geometry import find_geometry
from kvtool.engine.prediction.latency import ACCELERATORS
from kvtool.engine.prediction.sizing import size_cache
from kvtool.errors import KvtoolError
from kvtool.text.terminal.console import cell_width

LLAMA = "llama-3.1-8b"


def shown(capsys: pytest.CaptureFixture[str], model: str = LLAMA, **options: Any) -> list[str]:
    options.setdefault("width", 80)
    assert made(SizeCommand, model=model, color="never", **options).run() == 0
    return capsys.readouterr().out.splitlines()


def document(capsys: pytest.CaptureFixture[str], model: str = LLAMA, **options: Any) -> dict[str, Any]:
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
        pool = size_cache(find_geometry(LLAMA), accelerator.memory).pool
        concurrency = f"{pool.max_concurrency(8192):,.1f}"
        assert row(lines, name)[-3:] == [f"{pool.usable_blocks:,}", f"{pool.usable_blocks * 16:,}", concurrency]


def test_the_json_has_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, max_model_len=8192, accelerators=["L4", "h100"])
    assert (found["schema"], found["model"], found["max_model_len"]) == ("kvtool.size/1", LLAMA, 8192)
    assert [each["name"] for each in found["accelerators"]] == ["l4", "h100"]
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
    assert max(cell_width(line) for line in lines) <= max(width, 26)  # below, the parts of a row are not cut


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
    assert f"longest request: l4 {longest:,} tokens" in " ".join(" ".join(lines).split())
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpu_memory_utilization": 0.0}, r"--gpu-memory-utilization is in \(0, 1\], not 0.0"),
        ({"max_model_len": 0}, "--max-model-len must be at least 1, not 0"),
        ({"block_size": -16}, "--block-size must be at least 1, not -16"),
        ({"tensor_parallel": 0}, "--tensor-parallel must be at least 1, not 0"),
    ],
)
def test_impossible_settings(options: dict[str, Any], message: str) -> None:
    with pytest.raises(KvtoolError, match=message):
        made(SizeCommand, model=LLAMA, **options).run()


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("llama-9", {}, "unknown model"),
        (LLAMA, {"kv_cache_dtype": "int2"}, "unknown KV cache dtype `int2`"),
        (LLAMA, {"accelerators": ["h1000"]}, "unknown accelerator `h1000`"),
        (LLAMA, {"tensor_parallel": 3}, "cannot be cut for 3 accelerators"),
    ],
)
def test_unknown_names(model: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        made(SizeCommand, model=model, **options).run()


def test_it_needs_no_torch() -> None:
    program = (
        "import sys; from kvtool.cli.app import run; run(['size', 'llama-3.1-8b', '--no-config']); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=False).returncode == 0
