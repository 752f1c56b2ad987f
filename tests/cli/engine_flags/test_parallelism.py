"""--tensor-parallel, asynchronous scheduling, and the width of the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.text.terminal.console import cell_width
from tests.cli.engine_flags.conftest import MEASURED, Capture, Document, Shown


def test_tensor_parallelism(shown: Shown, document: Document) -> None:
    flags = ("--dry-run", "--gpu-memory", "24GiB")
    one, two = (document(*flags, "--tensor-parallel", ways) for ways in ("1", "2"))
    assert two["config"]["tensor_parallel"] == 2
    assert two["config"]["capacity_blocks"] > 2 * one["config"]["capacity_blocks"]
    assert two["ttft"]["predicted"]["off"]["p50"] != one["ttft"]["predicted"]["off"]["p50"]
    assert two["totals"] == one["totals"]
    assert "predicted: llama-3.1-8b (assumed) on 2 x h100, roofline estimate" in shown(*flags, "--tensor-parallel", "2")


def test_a_smaller_cache_is_read_faster(document: Document) -> None:
    """Predictions know the dtype."""
    native, small = (
        document("--dry-run", "--kv-cache-dtype", name)["ttft"]["predicted"]["on"]["p50"] for name in ("auto", "fp8")
    )
    assert small < native


@pytest.mark.parametrize("flags", [[], ["--concurrency", "4"]])
def test_asynchronous_scheduling_without_pressure(flags: list[str], shown: Shown, document: Document) -> None:
    one, other = (document("--dry-run", *flags, *more) for more in ([], ["--async-scheduling"]))
    assert (one["config"]["async_scheduling"], other["config"]["async_scheduling"]) == (False, True)
    for key in ("totals", "fates", "groups"):
        assert one[key] == other[key]
    assert "asynchronous scheduling" in shown("--dry-run", "--async-scheduling", *flags)


@pytest.mark.parametrize("width", [60, 120])
def test_the_report_fits_its_width(width: int, checkpoint: Path, bytes_json: str, capsys: Capture) -> None:
    flags = [
        "--kv-cache-dtype", "int8", "--capacity", "40KiB", "--audit", "--tensor-parallel", "2", "--async-scheduling",
    ]  # fmt: skip
    assert run(["profile", "w.yaml", "-q", "-t", bytes_json, *MEASURED, *flags, "--width", str(width)]) == 0
    out = capsys.readouterr().out
    assert width * 2 // 3 < max(map(cell_width, out.splitlines())) <= width
    assert "KV cache in int8" in " ".join(out.split())
