"""--kv-cache-dtype: blocks, bytes, gains, and the price in logits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.engine_flags.conftest import MEASURED, SMALL, TINY_BLOCK_BYTES, TOKENS, Document, Shown

BLOCK_MIB = 2
"""Of Llama-3.1-8B in bf16, with 16 tokens."""


@pytest.mark.parametrize(
    ("name", "blocks"),
    [("auto", 20), ("bf16", 20), ("fp16", 20), ("fp8", 40), ("fp8_e5m2", 40), ("int8", 20 * 2 * 128 // 132)],
)
def test_blocks_follow_the_dtype(name: str, blocks: int, shown: Shown, document: Document) -> None:
    flags = ("--capacity", SMALL, "--kv-cache-dtype", name, "--dry-run")
    found = document(*flags)
    assert found["config"]["capacity_blocks"] == blocks
    gain = found["kv_cache_dtype"]
    text = shown(*flags)
    if blocks == 20:
        assert gain is None
        assert "instead of" not in text
        assert found["totals"]["hit_rate"] == 0
        return
    assert gain == {
        "dtype": found["config"]["kv_cache_dtype"],
        "native_dtype": "bf16",
        "blocks": blocks,
        "native_blocks": 20,
        "hit_rate": found["totals"]["hit_rate"],
        "native_hit_rate": 0.0,
    }
    assert found["totals"]["hit_rate"] == 18 * 64 / (24 * 80)
    assert f"KV cache in {gain['dtype']}: {blocks} blocks instead of 20 in bf16, hit rate 60.0% instead of 0.0%" in text
    assert f"cache of {blocks} blocks" in text


def test_what_the_dtype_does_not_decide_is_not_told(document: Document) -> None:
    for flags in ([], ["--capacity", "25"], ["--capacity", "400 tokens"]):
        assert document("--kv-cache-dtype", "fp8", "--dry-run", *flags)["kv_cache_dtype"] is None


def test_bytes_of_the_kv_cache_are_those_of_the_dtype(document: Document) -> None:
    native, small = (document("--dry-run", "--kv-cache-dtype", name)["kv_cache"] for name in ("auto", "int8"))
    assert native["bytes_per_block"] == BLOCK_MIB << 20
    assert small["bytes_per_block"] == (BLOCK_MIB << 20) * 132 // 256
    assert small["filled_blocks"] == native["filled_blocks"]
    assert small["reused_bytes"] == native["reused_bytes"] * 132 // 256


@pytest.mark.parametrize("flags", [["--rules", "block-lru"], ["--concurrency", "2"]])
def test_the_gain_however_requests_run(flags: list[str], document: Document) -> None:
    gain = document("--capacity", SMALL, "--kv-cache-dtype", "fp8", "--dry-run", *flags)["kv_cache_dtype"]
    assert (gain["blocks"], gain["native_blocks"]) == (40, 20)
    assert gain["native_hit_rate"] < gain["hit_rate"]


def test_a_dtype_of_the_workload_file(folder: Path, document: Document) -> None:
    options = "engine: {kv_cache_dtype: fp8, tensor_parallel: 2, capacity: 40MiB}\n"
    (folder / "w.yaml").write_text(TOKENS + options, encoding="utf-8")
    found = document("--dry-run")
    assert (found["config"]["kv_cache_dtype"], found["config"]["tensor_parallel"]) == ("fp8_e4m3", 2)
    assert found["kv_cache_dtype"]["native_blocks"] == 20
    found = document("--dry-run", "--kv-cache-dtype", "auto", "--tensor-parallel", "1")
    assert (found["config"]["kv_cache_dtype"], found["config"]["tensor_parallel"]) == ("bf16", 1)
    assert found["kv_cache_dtype"] is None


def test_only_the_smaller_dtype_fits(document: Document) -> None:
    """There is nothing to compare with, and that is no mistake."""
    found = document("--dry-run", "--gpu-memory", "19.5GiB", "--kv-cache-dtype", "fp8", "--max-model-len", "15000")
    assert found["config"]["capacity_blocks"] * 16 >= 15_000
    assert found["kv_cache_dtype"] is None


def test_the_price_in_logits(checkpoint: Path, shown: Shown, document: Document) -> None:
    flags = ("--capacity", f"{20 * TINY_BLOCK_BYTES // 1024}KiB", "--kv-cache-dtype", "fp8", *MEASURED)
    found = document(*flags)
    assert (found["kv_cache_dtype"]["blocks"], found["kv_cache_dtype"]["native_blocks"]) == (40, 20)
    error = found["ttft"]["measured"]["kv_cache_dtype_error"]
    assert (error["requests"], error["tokens"]) == (24, 24)
    assert 0.001 < error["relative_error"] < 0.3
    assert error["max_difference"] > 0
    assert found["ttft"]["measured"]["audit"] is None
    text = shown(*flags)
    assert "Logits with a KV cache in fp8_e4m3: " in text
    assert "of 24 first tokens differ" in text
