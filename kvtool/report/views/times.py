"""Time to the first token, measured and predicted, with the cache and without."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.config.command_line import flag
from kvtool.report.views.page_commands import profile_command
from kvtool.report.views.section import Missing, Section, Table, TableColumn
from kvtool.results.report import Report
from kvtool.results.run_times import Interval, Measured, OnOff, Quantiles
from kvtool.text.terminal.numbers import percent, plural

_COLUMNS = (
    TableColumn("TTFT in ms"),
    TableColumn("p50", "number"),
    TableColumn("p90", "number"),
    TableColumn("p99", "number"),
)


def view(report: Report) -> Section:
    """Return the quantiles, and what they are measured on and predicted for."""
    measured, predicted = report.ttft.measured, report.ttft.predicted
    rows = [
        (f"{name}, cache {state}", *(f"{1000 * value:,.1f}" for value in (times.p50, times.p90, times.p99)))
        for name, pair in (("measured here", measured), ("predicted", predicted))
        if pair is not None
        for state, times in (("on", pair.on), ("off", pair.off))
        if times is not None
    ]
    missing = None
    if measured is None:
        why = "the run was interrupted" if report.partial else f"{flag('measure_budget')} is 0"
        command = profile_command(report, measure_budget="30")
        missing = Missing(f"Not measured: {why}.", "Real forward passes on this machine:", command)
    known = f"Predicted for {predicted_for(report)}." if predicted.on else "Not predicted: the model's size is unknown."
    notes = *_measured_notes(report, measured), known
    table = Table("Time to first token", _COLUMNS, rows)
    return Section("ttft", table.caption, tables=[table] if rows else [], notes=notes, missing=missing)


def medians(times: OnOff) -> str:
    """Return the medians with the cache, which must be known, and without, with their intervals where they were measured."""
    assert times.on is not None
    on, off = (times.on_interval, times.off_interval) if isinstance(times, Measured) else (None, None)
    with_cache = _median(times.on, on)
    if times.off is None:
        return with_cache
    without = _median(times.off, off)
    return with_cache + (
        " with the cache or without" if without == with_cache else f" with the cache, {without} without"
    )


def _median(times: Quantiles, interval: Interval | None) -> str:
    text = f"{1000 * times.p50:,.1f} ms"
    return text if interval is None else f"{text} ({1000 * interval.low:,.1f} to {1000 * interval.high:,.1f})"


def _measured_notes(report: Report, measured: Measured | None) -> Iterator[str]:
    if measured is None:
        return
    if not measured.requests:
        yield f"Not measured: {not_measured(measured)}."
        return
    yield f"Measured {measured_on(report, measured)}."
    yield from shortfalls(measured)


def not_measured(measured: Measured) -> str:
    """Return why no request was measured."""
    return measured.reason or "there was nothing to run"


def measured_on(report: Report, measured: Measured) -> str:
    """Name the machine, the model and the requests that were measured."""
    share = measured.hit_tokens / measured.prompt_tokens if measured.prompt_tokens else 0.0
    device = f"{report.config.get('device')}, {measured.kernels} kernels"
    return (
        f"on this machine ({device}) with {measured_model(report)}, one at a time: "
        f"{measured.requests:,} of {plural(report.totals.requests, 'request')}, drawn from all of the run "
        f"(hit rate {percent(share)}, run {percent(report.totals.hit_rate)})"
    )


def measured_model(report: Report) -> str:
    """Name the model of the forward passes."""
    model = str(report.config.get("measured_model"))
    if model == "embedded":
        return "the embedded model with random weights"
    return f"{model} with random weights" if report.config.get("load_format") == "dummy" else model


def shortfalls(measured: Measured) -> Iterator[str]:
    """Say what the device or its software lacked."""
    if measured.shortfall:
        yield f"Note: {measured.shortfall}."
    if measured.too_large_requests and measured.requests:
        yield f"Note: {plural(measured.too_large_requests, 'request')} left out, too large for the memory of the device."


def model_of(report: Report) -> str:
    """Name the model of sizes and predictions, and say where nobody named it."""
    model = report.config.get("model")
    if model is None:
        return "each request's own model" + ("" if report.kv_cache.reused_bytes is not None else ", where it is known,")
    return f"{model} (assumed)" if report.config.get("model_from") == "assumed" else str(model)


def predicted_for(report: Report) -> str:
    """Name the model and the machine of the predictions, and what they are derived from."""
    config = report.config
    model, where, ways = model_of(report), config.get("accelerator"), config.get("tensor_parallel")
    if config.get("calibration") is None:
        return f"{model} on {where if ways in (1, None) else f'{ways} x {where}'}, a roofline estimate"
    text = f"{model}, fitted on {where}"
    fitted, predicted = config.get("calibration_dtype"), config.get("predicted_dtype")
    if fitted != predicted:
        text += f"; the fit is of {config.get('calibration_model')} in {fitted}, the prediction for {predicted}"
    return text
