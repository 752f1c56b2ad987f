"""Times of a profile: to the first token, and of decode steps with what they read; measured and predicted ones side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvtool.config.command_line import flags
from kvtool.results.report import Report
from kvtool.results.run_times import Decode, Measured, OnOff
from kvtool.text.terminal.console import put, put_field, sanitize, say
from kvtool.text.terminal.numbers import percent, plural, size
from kvtool.text.terminal.table import Column, table

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = [
    Column("Decode step", "<"),
    Column("requests", keep=2),
    Column("tokens/req", keep=1),
    Column("flat"),
    Column("prefix-aware"),
    Column("gain", keep=3),
]
_SHARED = 4
"""From this column on it is about what requests share."""
_NO_GAIN = "1.0x"
_LABEL = 10


def print_predicted(console: Console, report: Report, plain: bool) -> None:
    """The predicted time to the first token, which must be known, in a line with the model and the machine that it is of."""
    told = sanitize(f"predicted for {_predicted_for(report)}", ascii_only=plain)
    _put_times(console, report.ttft.predicted, told)


def print_measured(console: Console, report: Report, plain: bool) -> None:
    """The measured one with its model and machine, or why there is none; nothing where none was asked for."""
    measured = report.ttft.measured
    if measured is None:
        return
    if measured.requests:
        _put_times(console, measured, f"measured {_measured_on(report, measured, plain)}")
        _shortfalls(console, measured, plain, indent=_LABEL + 2)
    else:
        put_field(console, "TTFT p50", _not_measured(measured, plain), size=_LABEL, hang=_LABEL + 2, style="dim")


def _put_times(console: Console, times: OnOff, of: str) -> None:
    """The medians, then what they are `of`."""
    assert times.on is not None
    with_cache = f"{1000 * times.on.p50:,.1f} ms"
    text = with_cache
    if times.off is not None:
        without = f"{1000 * times.off.p50:,.1f} ms"
        text += " with the cache or without" if without == with_cache else f" with the cache, {without} without"
    put_field(console, "TTFT p50", f"{text}; {of}", size=_LABEL, hang=_LABEL + 2)


def _not_measured(measured: Measured, plain: bool) -> str:
    return f"not measured: {sanitize(measured.reason or 'there was nothing to run', ascii_only=plain)}"


def _measured_on(report: Report, measured: Measured, plain: bool) -> str:
    """The machine, the model, and the requests."""
    share = measured.hit_tokens / measured.prompt_tokens
    device = sanitize(str(report.config.get("device")), ascii_only=plain)
    return (
        f"on this machine ({device}) with {_measured_model(report, plain)}, one at a time, the first "
        f"{measured.requests:,} of {plural(report.totals.requests, 'request')} (their hit rate {percent(share)})"
    )


def print_ttft(console: Console, report: Report, plain: bool) -> None:
    """Time to the first token, measured and predicted, with the cache on and off."""
    measured, predicted = report.ttft.measured, report.ttft.predicted
    rows: list[tuple[str, ...]] = []
    for label, quantiles in (
        ("measured here, cache on", measured.on if measured is not None else None),
        ("measured here, cache off", measured.off if measured is not None else None),
        ("predicted, cache on", predicted.on),
        ("predicted, cache off", predicted.off),
    ):
        if quantiles is not None:
            rows.append((label, *(f"{1000 * value:,.1f}" for value in (quantiles.p50, quantiles.p90, quantiles.p99))))
    columns = [Column("TTFT in ms", "<"), Column("p50"), Column("p90"), Column("p99")]
    for line in table(columns, rows, console.width, ascii_only=plain):
        put(console, line)
    if measured is not None and measured.requests:
        say(console, f"measured: {_measured_on(report, measured, plain)}", indent=4, style="dim")
    elif measured is not None:
        say(console, _not_measured(measured, plain), indent=4, style="dim")
    else:
        why = "interrupted" if report.partial else " ".join(flags(measure_budget=0))
        say(console, f"not measured: {why}", indent=4, style="dim")
    if measured is not None:
        _shortfalls(console, measured, plain)
    say(console, sanitize(f"predicted: {_predicted_for(report)}", ascii_only=plain), indent=4, style="dim")


def _predicted_for(report: Report) -> str:
    """What the predictions are about, and what they rest on."""
    config = report.config
    model, where, ways = config.get("model"), config.get("accelerator"), config.get("tensor_parallel")
    if config.get("calibration") is None:
        return f"{model} on {where if ways == 1 else f'{ways} x {where}'}, a roofline estimate"
    text = f"{model}, fitted on {where}"
    fitted, predicted = config.get("calibration_dtype"), config.get("predicted_dtype")
    if fitted != predicted:
        text += f"; the fit is of {config.get('calibration_model')} in {fitted}, the prediction for {predicted}"
    return text


def _shortfalls(console: Console, measured: Measured, plain: bool, *, indent: int = 4) -> None:
    """What the device or its software lacked."""
    if measured.shortfall:
        say(console, f"note: {sanitize(measured.shortfall, ascii_only=plain)}", indent=indent, style="yellow")
    if measured.too_large_requests and measured.requests:
        text = (
            f"note: {plural(measured.too_large_requests, 'request')} left out, too large for the memory of the device"
        )
        say(console, text, indent=indent, style="yellow")


def _measured_model(report: Report, plain: bool) -> str:
    model = str(report.config.get("measured_model"))
    if model == "embedded":
        return "the embedded model with random weights"
    shown = sanitize(model, ascii_only=plain)
    return f"{shown} with random weights" if report.config.get("load_format") == "dummy" else shown


def print_decode(console: Console, report: Report, plain: bool) -> None:
    """What decode steps read and take, and an empty line; flat beside prefix-aware only where there is something to share.

    Nothing where no requests decode together.
    """
    if report.decode is None:
        return
    columns, rows = _COLUMNS, _decode_rows(report.decode)
    if rows[0][-1] == _NO_GAIN:
        columns, rows = columns[:_SHARED], [row[:_SHARED] for row in rows]
    for line in table(columns, rows, console.width, ascii_only=plain):
        put(console, line)
    for text in _decode_notes(report, report.decode, plain):
        say(console, text, indent=4, style="dim")
    put(console)


def _decode_rows(decode: Decode) -> list[tuple[str, ...]]:
    """Bytes, then the prediction, then the measurement."""
    batch = _mean(decode.batch), f"{decode.tokens_mean:,.0f}"
    flat, shared = decode.flat_bytes_per_step, decode.prefix_aware_bytes_per_step
    predicted, measured = decode.tpot.predicted, decode.tpot.measured
    rows: list[tuple[str, ...]] = [
        ("KV read", *batch, size(flat), size(shared), _times(flat / shared)),
        ("TPOT ms, predicted", *batch, *_milliseconds(predicted.flat, predicted.prefix_aware)),
    ]
    if measured is not None:
        batch = f"{measured.requests:,}", f"{measured.tokens_mean:,.0f}"
        rows.append(("TPOT ms, measured here", *batch, *_milliseconds(measured.flat, measured.prefix_aware)))
    return rows


def _decode_notes(report: Report, decode: Decode, plain: bool) -> Iterator[str]:
    """What the rows are of, and what the engine would choose."""
    config = report.config
    model = sanitize(str(config.get("model")), ascii_only=plain)
    mode = decode.decode_attention
    yield f"KV read and predicted: {_batch(decode)}; {model}, KV cache in {config.get('kv_cache_dtype')}"
    yield f"on {sanitize(str(config.get('accelerator')), ascii_only=plain)}, --decode-attention {mode} {_chosen(decode)}"
    if report.ttft.measured is None or not report.ttft.measured.requests:
        return
    measured = decode.tpot.measured
    if measured is None:
        if round(decode.batch) < 2 or report.partial:
            return
        yield "TPOT is not measured: it takes longer here than the part of --measure-budget that it has"
    else:
        alone = measured.prefix_aware is None and mode == "auto"
        yield (
            f"measured: {plural(measured.requests, 'request')} together, the median of {plural(measured.steps, 'step')}, "
            f"on {_measured_model(report, plain)}, {config.get('device')}"
            f"{', where auto is flat' if alone else ''}"
        )


def _batch(decode: Decode) -> str:
    if decode.sampled == "steps":
        return f"{plural(decode.samples, 'step')} of the run, in which {_mean(decode.batch)} requests decode on average"
    text = f"{_mean(decode.batch)} conversations, if they decoded together"
    return (
        text
        if decode.sampled_of == 1
        else f"{text}, mean of {decode.samples:,} such batches out of {decode.sampled_of:,}"
    )


def _mean(count: float) -> str:
    return f"{count:,.0f}" if count == int(count) else f"{count:,.1f}"


def _chosen(decode: Decode) -> str:
    """What the engine does with `--decode-attention` as it is."""
    if decode.flat_bytes_per_step == decode.prefix_aware_bytes_per_step:
        return "has nothing to share"
    if decode.decode_attention == "flat":
        return "reads every context by itself"
    if not decode.prefix_aware_share:
        return "is flat: sharing promises too little"
    return (
        "is prefix-aware"
        if decode.prefix_aware_share == 1
        else f"is prefix-aware in {percent(decode.prefix_aware_share)} of them"
    )


def _milliseconds(flat: float, sharing: float | None) -> tuple[str, str, str]:
    if sharing is None:
        return f"{1000 * flat:,.2f}", "-", ""
    return f"{1000 * flat:,.2f}", f"{1000 * sharing:,.2f}", _times(flat / sharing)


def _times(ratio: float) -> str:
    return f"{ratio:,.1f}x"
