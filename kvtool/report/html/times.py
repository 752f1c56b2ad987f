"""Times to the first token and of decode steps, the memory that keys and values take, and what their type costs."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.report.html.commands import profile_command
from kvtool.report.html.page_parts import Missing, Section, Table, TableColumn
from kvtool.results.report import Report
from kvtool.results.run_times import Decode, Logits, Measured, Quantiles
from kvtool.text.terminal.numbers import percent, plural, size

_MOST_FLIPS = 10


def ttft_section(report: Report, prefix: str) -> Section:
    """Measured and predicted, with the cache and without."""
    measured, predicted = report.ttft.measured, report.ttft.predicted
    rows: list[tuple[object, ...]] = []
    for name, pair in (("measured here", measured), ("predicted", predicted)):
        if pair is not None:
            rows += [
                (f"{name}, cache {state}", *_milliseconds(quantiles))
                for state, quantiles in (("on", pair.on), ("off", pair.off))
                if quantiles is not None
            ]
    columns = (
        TableColumn("TTFT in ms"),
        TableColumn("p50", "number"),
        TableColumn("p90", "number"),
        TableColumn("p99", "number"),
    )
    missing = None
    if measured is None:
        missing = Missing(
            "Not measured: these are predictions. Real forward passes on this machine:", _measuring(report)
        )
    return Section(
        f"{prefix}-ttft",
        "Time to first token",
        tables=[Table("Time to first token", columns, rows)] if rows else [],
        notes=(*_measured_notes(report, measured), _predicted_for(report)),
        missing=missing,
    )


def _measuring(report: Report) -> str:
    return profile_command(report, measure_budget="30")


def _milliseconds(quantiles: Quantiles) -> tuple[str, str, str]:
    p50, p90, p99 = (f"{1000 * value:,.1f}" for value in (quantiles.p50, quantiles.p90, quantiles.p99))
    return p50, p90, p99


def _measured_notes(report: Report, measured: Measured | None) -> Iterator[str]:
    if measured is None:
        return
    if not measured.requests:
        yield f"Not measured: {measured.reason or 'there was nothing to run'}."
        return
    model = report.config.get("measured_model")
    told = "the embedded model with random weights" if model == "embedded" else f"{model}"
    rate = measured.hit_tokens / measured.prompt_tokens if measured.prompt_tokens else 0.0
    yield (
        f"Measured: the first {measured.requests:,} of {plural(report.totals.requests, 'request')} (their hit rate "
        f"{percent(rate)}), one at a time, on {told}, {measured.device}, {measured.kernels} kernels."
    )
    if measured.shortfall:
        yield f"{measured.shortfall}."
    if measured.too_large_requests:
        yield f"{plural(measured.too_large_requests, 'request')} left out, too large for the memory of the device."


def _predicted_for(report: Report) -> str:
    config = report.config
    model, where, ways = config.get("model"), config.get("accelerator"), config.get("tensor_parallel")
    if config.get("calibration") is None:
        return f"Predicted: {model} on {where if ways in (1, None) else f'{ways} x {where}'}, a roofline estimate."
    text = f"Predicted: {model}, fitted on {where}"
    fitted, predicted = config.get("calibration_dtype"), config.get("predicted_dtype")
    if fitted != predicted:
        text += f"; the fit is of {config.get('calibration_model')} in {fitted}, the prediction for {predicted}"
    return f"{text}."


def memory_section(report: Report, prefix: str) -> Section:
    """What the KV cache held, and what decode steps read of it."""
    cache, totals = report.kv_cache, report.totals
    happened = (("Evictions", totals.evictions), ("Preemptions", totals.preemptions))
    rows: list[tuple[object, ...]] = [
        ("Block", plural(cache.block_size, "token"), size(cache.bytes_per_block)),
        ("Filled", plural(cache.filled_blocks, "block"), size(cache.filled_blocks * cache.bytes_per_block)),
        ("Peak in use", plural(cache.peak_used_blocks, "block"), size(cache.peak_used_blocks * cache.bytes_per_block)),
        ("Reused, not computed again", plural(totals.hit_tokens, "token"), size(cache.reused_bytes)),
        *((name, f"{count:,}", "") for name, count in happened if count),
    ]
    columns = (TableColumn("What"), TableColumn("Count", "number"), TableColumn("Memory", "number"))
    tables = [Table("KV cache", columns, rows)]
    decode_notes: list[str] = []
    if report.decode is not None and _gains(report.decode):
        tables.append(_decode_table(report.decode))
        decode_notes = [_batch(report.decode), _chosen(report.decode)]
    return Section(
        f"{prefix}-memory",
        "Decode and KV memory",
        tables=tables,
        notes=(*decode_notes, *_dtype_notes(report), *_audit_notes(report.ttft.measured)),
    )


def _gains(decode: Decode) -> bool:
    """Whether reading a shared prefix once makes a difference, be it a tenth."""
    return f"{decode.flat_bytes_per_step / max(decode.prefix_aware_bytes_per_step, 1):.1f}" != "1.0"


def _decode_table(decode: Decode) -> Table:
    flat, aware = decode.flat_bytes_per_step, decode.prefix_aware_bytes_per_step
    batch = f"{decode.batch:,.0f}" if decode.batch == round(decode.batch) else f"{decode.batch:,.1f}"
    rows: list[tuple[object, ...]] = [
        ("KV read", batch, f"{decode.tokens_mean:,.0f}", size(flat), size(aware), _gain(flat, aware)),
        (
            "TPOT, predicted",
            batch,
            f"{decode.tokens_mean:,.0f}",
            _step(decode.tpot.predicted.flat),
            _step(decode.tpot.predicted.prefix_aware),
            _gain(decode.tpot.predicted.flat, decode.tpot.predicted.prefix_aware),
        ),
    ]
    measured = decode.tpot.measured
    if measured is not None:
        aware_seconds = measured.prefix_aware
        rows.append(
            (
                "TPOT, measured here",
                f"{measured.requests:,}",
                f"{measured.tokens_mean:,.0f}",
                _step(measured.flat),
                "none" if aware_seconds is None else _step(aware_seconds),
                "" if aware_seconds is None else _gain(measured.flat, aware_seconds),
            )
        )
    columns = (
        TableColumn("Per step"),
        TableColumn("Requests", "number"),
        TableColumn("Tokens per request", "number"),
        TableColumn("Flat", "number"),
        TableColumn("Prefix-aware", "number"),
        TableColumn("Gain", "number"),
    )
    return Table("Decode step", columns, rows)


def _step(seconds: float) -> str:
    return f"{1000 * seconds:,.2f} ms"


def _gain(before: float, after: float) -> str:
    return f"{before / after:,.1f}x" if after else "none"


def _batch(decode: Decode) -> str:
    if decode.sampled == "steps":
        return (
            f"Read and predicted: {plural(decode.samples, 'step')} of the run, {decode.batch:,.1f} requests on average."
        )
    text = f"Read and predicted: {decode.batch:,.0f} conversations, if they decoded together"
    return (
        f"{text}."
        if decode.sampled_of == 1
        else f"{text}; mean of {decode.samples:,} such batches of {decode.sampled_of:,}."
    )


def _chosen(decode: Decode) -> str:
    return f"--decode-attention {decode.decode_attention} is {decode.chosen.replace('_', '-')} here."


def _dtype_notes(report: Report) -> Iterator[str]:
    gain, measured = report.kv_cache_dtype, report.ttft.measured
    if gain is not None:
        text = (
            f"KV cache in {gain.dtype}: {gain.blocks:,} blocks instead of {gain.native_blocks:,} in {gain.native_dtype}"
        )
        if gain.native_hit_rate is not None:
            text += f"; hit rate {percent(gain.hit_rate)} instead of {percent(gain.native_hit_rate)}"
        yield f"{text}."
    price = measured.kv_cache_dtype_error if measured is not None else None
    if price is not None and price.tokens:
        yield f"Logits with that KV cache: {_difference(price)}."


def _audit_notes(measured: Measured | None) -> Iterator[str]:
    audit = measured.audit if measured is not None else None
    if audit is None:
        return
    if not audit.tokens:
        yield "Audit of reuse: nothing was compared."
        return
    yield f"Audit of reuse: {plural(audit.requests, 'request')}, {_difference(audit)}."
    for flip in audit.flips[:_MOST_FLIPS]:
        yield f"Flip in {flip.request} at position {flip.position:,}: token {flip.expected} became {flip.actual}."
    if len(audit.flips) > _MOST_FLIPS:
        yield f"{len(audit.flips) - _MOST_FLIPS:,} more flips."


def _difference(logits: Logits) -> str:
    largest = "infinite" if logits.max_difference is None else f"{logits.max_difference:.2g}"
    would = f"{len(logits.flips):,} of {plural(logits.tokens, 'token')} would be another"
    return f"largest difference {largest}; {would if logits.flips else 'no token flips'}"
