"""The command `kvtool size`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kvtool.accounting.model_room import model_room
from kvtool.engine.engine_error import EngineError
from kvtool.engine.kv_dtype import AUTO
from kvtool.engine.model.geometry import Geometry, find_geometry
from kvtool.engine.prediction.latency import ACCELERATORS, find_accelerator
from kvtool.engine.prediction.sizing import DEFAULT_UTILIZATION, kv_heads_per_rank
from kvtool.errors import KvtoolError
from kvtool.report.terminal.size import print_size
from kvtool.results.documents.size import SizeDocument
from kvtool.text.terminal.console import ColorChoice, make_console
from kvtool.text.terminal.streams import printing

_DEFAULT_BLOCK_SIZE = 16


def run_size(
    model: str,
    *,
    gpu_memory_utilization: float = DEFAULT_UTILIZATION,
    max_model_len: int | None = None,
    kv_cache_dtype: str = AUTO,
    tensor_parallel: int = 1,
    block_size: int = _DEFAULT_BLOCK_SIZE,
    json: bool = False,
    color: ColorChoice = "auto",
    plain: bool = False,
    width: int | None = None,
    accelerators: Sequence[str] | None = None,
) -> int:
    """Print what the model leaves for its KV cache on each accelerator (None: all that are known); returns 0.

    `max_model_len` is the model's own unless given, as in vLLM.
    """
    if not 0.0 < gpu_memory_utilization <= 1.0:
        raise KvtoolError(f"--gpu-memory-utilization is in (0, 1], not {gpu_memory_utilization}")
    for flag, value in (
        ("--max-model-len", max_model_len),
        ("--tensor-parallel", tensor_parallel),
        ("--block-size", block_size),
    ):
        if value is not None and value < 1:
            raise KvtoolError(f"{flag} must be at least 1, not {value}")
    geometry = find_geometry(model)
    if max_model_len is None:
        max_model_len = geometry.max_position_embeddings
    chosen = [find_accelerator(name) for name in accelerators] if accelerators else list(ACCELERATORS.values())
    document = model_room(
        model,
        geometry,
        chosen,
        max_model_len=max_model_len,
        kv_cache_dtype=kv_cache_dtype,
        tensor_parallel=tensor_parallel,
        block_size=block_size,
        utilization=gpu_memory_utilization,
    )
    with printing():
        if json:
            sys.stdout.write(document.to_json())
        else:
            console = make_console(color=color, width=width, plain=plain)
            print_size(console, document, _next_command(document, geometry, accelerators or ()))
    return 0


def _next_command(report: SizeDocument, geometry: Geometry, accelerators: Sequence[str]) -> list[str]:
    """More accelerators where none is enough, or else fp8, which holds twice as much; empty where neither can be."""
    parts, dtype = report.tensor_parallel, report.kv_cache_dtype
    if not any(room.fits for room in report.accelerators):
        parts *= 2
        try:
            kv_heads_per_rank(geometry, parts)
        except EngineError:
            return []
    elif dtype == report.native_dtype:
        dtype = "fp8_e4m3"
    else:
        return []
    command = ["kvtool", "size", report.model]
    if dtype != report.native_dtype:
        command += ["--kv-cache-dtype", dtype]
    if report.max_model_len not in (None, geometry.max_position_embeddings):
        command += ["--max-model-len", str(report.max_model_len)]
    if parts > 1:
        command += ["--tensor-parallel", str(parts)]
    if report.block_size != _DEFAULT_BLOCK_SIZE:
        command += ["--block-size", str(report.block_size)]
    if report.gpu_memory_utilization != DEFAULT_UTILIZATION:
        command += ["--gpu-memory-utilization", f"{report.gpu_memory_utilization:g}"]
    for name in accelerators:
        command += ["--accelerator", name]
    return command
