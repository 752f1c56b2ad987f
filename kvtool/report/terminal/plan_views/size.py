"""The table of `kvtool size`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.engine.prediction.accelerators import BATCH_LIMITS_SOURCE
from kvtool.report.terminal.next_command import shell_lines
from kvtool.report.terminal.plan_views.size_groups import group_table, plan_notes, several
from kvtool.results.documents.size import AcceleratorRoom, SizeDocument
from kvtool.text.terminal.console import ascii_only, fold, pack, put, sanitize
from kvtool.text.terminal.numbers import size
from kvtool.text.terminal.table import Column, put_table, table

if TYPE_CHECKING:
    from rich.console import Console


_SHORT = 3
"""Of the accelerators that lack memory, those that are named."""


def print_size(console: Console, report: SizeDocument, command: Sequence[str]) -> None:
    """Header, table and what it rests on, in lines no wider than the console; `command` is proposed as the next."""
    plain = ascii_only(console)
    each = report.max_model_len
    head = [
        f"kvtool size {sanitize(report.model, ascii_only=plain)}",
        f"KV cache {report.kv_cache_dtype}",
        f"block {report.block_size}",
        *([f"max-model-len {each:,}"] if each is not None else []),
        *([f"tensor parallel {report.tensor_parallel}"] if report.tensor_parallel > 1 else []),
        f"{100 * report.gpu_memory_utilization:g}% of the memory",
    ]
    for line in pack(head, console.width, separator=" | " if plain else " · ", indent=2):
        put(console, line, "bold")
    put(console)
    if several(report):
        put_table(console, *group_table(report))
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
    rows = [_cells(room, None if several(report) else report.block_size) for room in report.accelerators]
    for line in table(columns, rows, console.width, ascii_only=plain):
        put(console, line)
    put(console)
    for note in (*plan_notes(report), *_notes(report)):
        for line in fold(f"  {note}", console.width, indent=4):
            put(console, line, "dim")
    if command:
        put(console)
        put(console, "Next:", "dim")
        for line in shell_lines(command, console.width, plain):
            put(console, line, "dim")


def _cells(room: AcceleratorRoom, block_size: int | None) -> list[str]:
    """Blocks and tokens are those that requests can use, as `--capacity` and the report of a profile count them; of several groups
    (`block_size` is None) tokens are vLLM's count."""
    cells = [room.name, size(room.memory_bytes), size(room.weight_bytes)]
    if room.available_bytes is None:
        cells += ["does not fit", "", ""]
    else:
        blocks = room.usable_blocks or 0
        tokens = room.tokens if block_size is None else blocks * block_size
        cells += [size(room.available_bytes), f"{blocks:,}", "" if tokens is None else f"{tokens:,}"]
    if room.fits_max_model_len is not None:
        some = "" if room.max_concurrency is None else f"{room.max_concurrency:,.1f}"
        cells.append(some if room.fits_max_model_len else "none" if room.fits else "")
    return cells


def _notes(report: SizeDocument) -> list[str]:
    some = report.accelerators[0]
    per_block = some.bytes_per_block
    one = " on each accelerator" if report.tensor_parallel > 1 else ""
    many = several(report)
    notes = [] if many else [f"KV cache: {size(per_block / report.block_size)} a token, {size(per_block)} a block{one}"]
    if many:
        notes.append(f"KV cache: {size(per_block)} a block{one}, whichever group takes it")
    if report.kv_cache_dtype != report.native_dtype:
        notes[0] += (
            f"; {report.capacity_gain:.2f} times the {'requests' if many else 'blocks'} of {report.native_dtype}"
        )
    notes.append("blocks: those that requests can use, as in --capacity; vLLM's own count has its null block, one more")
    if many and report.max_model_len is not None:
        notes.append(
            "tokens: vLLM's KV cache size, those of all requests that fit; blocks times their size would be more"
        )
    if report.max_model_len is not None:
        notes.append(
            f"requests: of {report.max_model_len:,} tokens each, at once, sharing nothing (vLLM's maximum concurrency)"
        )
    else:
        notes.append("--max-model-len N shows how many requests of that length there is room for at once")
    too_small = [room for room in report.accelerators if room.fits and room.fits_max_model_len is False]
    if too_small:
        longest = ", ".join(f"{room.name} {room.longest_request:,}" for room in too_small)
        notes.append(f"none: vLLM would not start with such a --max-model-len; the longest request: {longest} tokens")
    if lacking := sorted((room for room in report.accelerators if not room.fits), key=lambda room: room.lacking_bytes):
        short = ", ".join(f"{room.name} {size(room.lacking_bytes)}" for room in lacking[:_SHORT])
        rest = f" and {len(lacking) - _SHORT} others more" if len(lacking) > _SHORT else ""
        notes.append(
            f"does not fit: missing are {short}{rest}; more accelerators share the weights (--tensor-parallel)"
        )
    if report.weights_note is not None:
        notes.append(f"weights: {report.weights_note}")
    notes.append("memory: the data sheet's; what vLLM finds on the device is up to a tenth less")
    steps: dict[str, list[str]] = {}
    for room in report.accelerators:
        limits = f"{room.max_num_batched_tokens:,} tokens and {room.max_num_seqs:,} requests"
        steps.setdefault(limits, []).append(room.name)
    said = "; ".join(f"{limits} on {', '.join(names)}" for limits, names in steps.items())
    notes.append(f"a step, by {BATCH_LIMITS_SOURCE}: {said}")
    most = [min, max] if len({room.activation_bytes_estimate for room in report.accelerators}) > 1 else [max]
    activations = " to ".join(size(of(room.activation_bytes_estimate for room in report.accelerators)) for of in most)
    estimates = f"{activations} for activations, {size(some.graph_bytes_estimate)} for CUDA graphs"
    notes.append(f"exact: blocks of the KV cache; from the config: weights; estimates: {estimates}")
    return notes
