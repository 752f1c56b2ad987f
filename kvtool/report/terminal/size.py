"""The views of a `SizeReport`: the table of `kvtool size`, and its JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvtool.engine.prediction.sizing import Sizing
from kvtool.report.terminal.next_command import shell_lines
from kvtool.text.terminal.console import ascii_only, fold, pack, put, sanitize
from kvtool.text.terminal.numbers import size
from kvtool.text.terminal.table import Column, table

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = "kvtool.size/1"


@dataclass(frozen=True, slots=True)
class SizeReport:
    """What a model leaves for its KV cache on each accelerator; `sizings` are in the order of their names."""

    model: str
    max_model_len: int | None
    kv_cache_dtype: str
    native_dtype: str
    capacity_gain: float
    """Blocks in the same memory, as a multiple of the native type's."""
    tensor_parallel: int
    block_size: int
    utilization: float
    sizings: dict[str, Sizing]

    @property
    def too_small(self) -> dict[str, int]:
        """Accelerators that hold the model and a cache, but no request of full length; with the longest that they hold."""
        length = self.max_model_len
        return {
            name: sizing.pool.longest_request
            for name, sizing in self.sizings.items()
            if length is not None and sizing.fits and not sizing.pool.holds(length)
        }


def document(report: SizeReport) -> dict[str, Any]:
    """The report as plain data: bytes, tokens and blocks; what does not fit is null."""
    return {
        "schema": SCHEMA,
        "model": report.model,
        "max_model_len": report.max_model_len,
        "kv_cache_dtype": report.kv_cache_dtype,
        "native_dtype": report.native_dtype,
        "capacity_gain": report.capacity_gain,
        "tensor_parallel": report.tensor_parallel,
        "block_size": report.block_size,
        "gpu_memory_utilization": report.utilization,
        "accelerators": [_row_document(name, sizing, report.max_model_len) for name, sizing in report.sizings.items()],
    }


def _row_document(name: str, sizing: Sizing, max_model_len: int | None) -> dict[str, Any]:
    pool, fits = sizing.pool, sizing.fits
    concurrency = round(pool.max_concurrency(max_model_len), 4) if max_model_len is not None else None
    return {
        "name": name,
        "memory_bytes": sizing.memory,
        "usable_bytes": sizing.usable,
        "weight_bytes": sizing.weights,
        "activation_bytes_estimate": sizing.activations,
        "graph_bytes_estimate": sizing.graphs,
        "bytes_per_block": pool.bytes_per_block,
        "fits": fits,
        "available_bytes": sizing.available if fits else None,
        "num_blocks": pool.num_blocks if fits else None,
        "usable_blocks": pool.usable_blocks if fits else None,
        "tokens": pool.tokens if fits else None,
        "longest_request": pool.longest_request if fits else None,
        "max_concurrency": concurrency if fits else None,
        "fits_max_model_len": (fits and pool.holds(max_model_len)) if max_model_len is not None else None,
    }


def print_size(console: Console, report: SizeReport, command: Sequence[str]) -> None:
    """Header, table and what it rests on, in lines no wider than the console; `command` is proposed as the next."""
    plain = ascii_only(console)
    each = report.max_model_len
    head = [
        f"kvtool size {sanitize(report.model, ascii_only=plain)}",
        f"KV cache {report.kv_cache_dtype}",
        f"block {report.block_size}",
        *([f"max-model-len {each:,}"] if each is not None else []),
        *([f"tensor parallel {report.tensor_parallel}"] if report.tensor_parallel > 1 else []),
        f"{100 * report.utilization:g}% of the memory",
    ]
    for line in pack(head, console.width, separator=" | " if plain else " · ", indent=2):
        put(console, line, "bold")
    put(console)
    columns = [
        Column("accelerator", "<"),
        Column("memory", keep=1),
        Column("weights", keep=0),
        Column("KV cache"),
        Column("blocks", keep=2),
        Column("tokens"),
        *([Column("requests")] if each is not None else []),
    ]
    rows = [_cells(name, sizing, each) for name, sizing in report.sizings.items()]
    for line in table(columns, rows, console.width, ascii_only=plain):
        put(console, line)
    put(console)
    for note in _notes(report):
        for line in fold(f"  {note}", console.width, indent=4):
            put(console, line, "dim")
    if command:
        put(console)
        put(console, "Next:", "dim")
        for line in shell_lines(command, console.width, plain):
            put(console, line, "dim")


def _cells(name: str, sizing: Sizing, max_model_len: int | None) -> list[str]:
    pool = sizing.pool
    cells = [name, size(sizing.memory), size(sizing.weights)]
    if not sizing.fits:
        cells += ["does not fit", "", ""]
    else:
        cells += [size(sizing.available), f"{pool.num_blocks:,}", f"{pool.tokens:,}"]
    if max_model_len is not None:
        holds = sizing.fits and pool.holds(max_model_len)
        cells.append(f"{pool.max_concurrency(max_model_len):,.1f}" if holds else "none" if sizing.fits else "")
    return cells


def _notes(report: SizeReport) -> list[str]:
    some = next(iter(report.sizings.values()))
    per_block = some.pool.bytes_per_block
    one = " on each accelerator" if report.tensor_parallel > 1 else ""
    notes = [f"KV cache: {size(per_block / report.block_size)} a token, {size(per_block)} a block{one}"]
    if report.kv_cache_dtype != report.native_dtype:
        notes[0] += f"; {report.capacity_gain:.2f} times the blocks of {report.native_dtype}"
    if report.max_model_len is not None:
        notes.append(
            f"requests: of {report.max_model_len:,} tokens each, at once, sharing nothing (vLLM's maximum concurrency)"
        )
    else:
        notes.append("--max-model-len N shows how many requests of that length there is room for at once")
    if report.too_small:
        longest = ", ".join(f"{name} {tokens:,}" for name, tokens in report.too_small.items())
        notes.append(f"none: vLLM would not start with such a --max-model-len; the longest request: {longest} tokens")
    notes.append("memory: the data sheet's; what vLLM finds on the device is up to a tenth less")
    notes.append(
        f"exact: blocks of the KV cache; from the config: weights; estimates: {size(some.activations)} for activations, "
        f"{size(some.graphs)} for CUDA graphs"
    )
    return notes
