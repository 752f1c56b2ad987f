"""`kvtool size` agrees with the engine flags of `kvtool profile`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.engine.kv_dtype import KV_CACHE_DTYPES
from tests.cli.engine_flags.conftest import TINY_BLOCK_BYTES, Capture, Document, refused


def test_size_and_profile_agree(folder: Path, document: Document, capsys: Capture) -> None:
    flags = ["--kv-cache-dtype", "fp8", "--tensor-parallel", "2"]
    assert run(["size", "llama-3.1-8b", "--json", "--accelerator", "l4", *flags]) == 0
    [row] = json.loads(capsys.readouterr().out)["accelerators"]
    memory = f"{row['memory_bytes'] / 2**30}GiB"
    found = document("--dry-run", "--accelerator", "l4", "--gpu-memory", memory, *flags)
    assert found["config"]["capacity_blocks"] == row["usable_blocks"]


def test_size_of_a_folder(checkpoint: Path, capsys: Capture) -> None:
    assert run(["size", "tiny", "--json", "--max-model-len", "100"]) == 0
    rows = json.loads(capsys.readouterr().out)["accelerators"]
    assert {row["bytes_per_block"] for row in rows} == {TINY_BLOCK_BYTES}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["size"], "MODEL is missing"),
        (["size", "llama-9"], "unknown model `llama-9`"),
        (["size", "llama-3.1-8b", "--kv-cache-dtype", "int3"], f"one of {', '.join(KV_CACHE_DTYPES)}"),
        (["size", "llama-3.1-8b", "--accelerator", "h1000"], "unknown accelerator `h1000`"),
        (
            ["size", "llama-3.1-8b", "--gpu-memory-utilization", "2"],
            "--gpu-memory-utilization must be in (0, 1], not 2.0",
        ),
        (["size", "llama-3.1-8b", "--block-size", "0"], "--block-size must be at least 1, not 0"),
        (["size", "llama-3.1-8b", "--max-model-len", "0"], "--max-model-len must be at least 1, not 0"),
        (["size", "llama-3.1-8b", "--tensor-parallel", "0"], "--tensor-parallel must be at least 1, not 0"),
        (["size", "llama-3.1-8b", "--tensor-parallel", "3"], "cannot be split over 3 accelerators"),
    ],
)
def test_sizes_that_cannot_be(arguments: list[str], said: str, folder: Path, capsys: Capture) -> None:
    assert said in refused(arguments, capsys)
