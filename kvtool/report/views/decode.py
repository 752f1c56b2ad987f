"""Decode steps: bytes read and time, with and without reading a shared prefix once."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.report.views.times import measured_model, model_of
from kvtool.results.report import Report
from kvtool.results.run_times import Decode
from kvtool.text.terminal.numbers import percent, plural, size

_COLUMNS = (
    TableColumn("Decode step"),
    TableColumn("Requests", "number", keep=2),
    TableColumn("Tokens per request", "number", "tokens/req", keep=1),
    TableColumn("Flat", "number"),
    TableColumn("Prefix-aware", "number"),
    TableColumn("Gain", "number", keep=3),
)
_SHARED = 4
"""The columns from here on are about what requests share."""
_NO_GAIN = "1.0x"


def view(report: Report) -> Section | None:
    """Return flat beside prefix-aware steps, the latter only where requests share something; None where none decode together."""
    decode = report.decode
    if decode is None:
        return None
    columns: tuple[TableColumn, ...] = _COLUMNS
    rows = _rows(decode)
    if rows[0][-1] == _NO_GAIN:
        columns, rows = columns[:_SHARED], [row[:_SHARED] for row in rows]
    table = Table("Decode step", columns, rows)
    return Section("decode", table.caption, tables=[table], notes=tuple(_notes(report, decode)))


def _rows(decode: Decode) -> list[tuple[str, ...]]:
    batch = _mean(decode.batch), f"{decode.tokens_mean:,.0f}"
    flat, shared = decode.flat_bytes_per_step, decode.prefix_aware_bytes_per_step
    predicted, measured = decode.tpot.predicted, decode.tpot.measured
    rows: list[tuple[str, ...]] = [
        ("KV read", *batch, size(flat), size(shared), _times(flat / shared)),
        ("TPOT, predicted", *batch, *_milliseconds(predicted.flat, predicted.prefix_aware)),
    ]
    if measured is not None:
        batch = f"{measured.requests:,}", f"{measured.tokens_mean:,.0f}"
        rows.append(("TPOT, measured here", *batch, *_milliseconds(measured.flat, measured.prefix_aware)))
    return rows


def _notes(report: Report, decode: Decode) -> Iterator[str]:
    config, mode = report.config, decode.decode_attention
    yield (
        f"KV read and predicted: {_batch(decode)}; {model_of(report)} on {config.get('accelerator')}, KV cache in "
        f"{config.get('kv_cache_dtype')}."
    )
    yield f"--decode-attention {mode} {_chosen(decode)}."
    if report.ttft.measured is None or not report.ttft.measured.requests:
        return
    measured = decode.tpot.measured
    if measured is not None:
        flat = ", where auto is flat" if measured.prefix_aware is None and mode == "auto" else ""
        yield (
            f"Measured: {plural(measured.requests, 'request')} together, the median of {plural(measured.steps, 'step')}, on "
            f"{measured_model(report)}, {config.get('device')}{flat}."
        )
    elif round(decode.batch) > 1 and not report.partial:
        yield "TPOT is not measured: it takes longer here than its part of --measure-budget."


def _batch(decode: Decode) -> str:
    if decode.sampled == "steps":
        return f"{plural(decode.samples, 'step')} of the run, in which {_mean(decode.batch)} requests decode on average"
    text = f"{_mean(decode.batch)} conversations, if they decoded together"
    if decode.sampled_of == 1:
        return text
    return f"{text}, mean of {decode.samples:,} such batches out of {decode.sampled_of:,}"


def _chosen(decode: Decode) -> str:
    """Say what the engine does with `--decode-attention` as it is."""
    if decode.flat_bytes_per_step == decode.prefix_aware_bytes_per_step:
        return "has nothing to share"
    if decode.decode_attention == "flat":
        return "reads every context by itself"
    if not decode.prefix_aware_share:
        return "is flat: sharing promises too little"
    if decode.prefix_aware_share == 1:
        return "is prefix-aware"
    return f"is prefix-aware in {percent(decode.prefix_aware_share)} of them"


def _mean(count: float) -> str:
    return f"{count:,.0f}" if count == int(count) else f"{count:,.1f}"


def _milliseconds(flat: float, shared: float | None) -> tuple[str, str, str]:
    if shared is None:
        return f"{1000 * flat:,.2f} ms", "-", ""
    return f"{1000 * flat:,.2f} ms", f"{1000 * shared:,.2f} ms", _times(flat / shared)


def _times(ratio: float) -> str:
    return f"{ratio:,.1f}x"
