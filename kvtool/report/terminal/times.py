"""Times of a profile: to the first token, and of decode steps with what they read; measured and predicted ones side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvtool.accounting.decode_traffic import DecodeTraffic
from kvtool.profiler.profile import Profile
from kvtool.text.terminal.console import put, sanitize, say
from kvtool.text.terminal.numbers import percent, plural, size
from kvtool.text.terminal.table import Column, table

if TYPE_CHECKING:
    from rich.console import Console

    from kvtool.measure.measured_times import MeasuredTimes

_COLUMNS = [
    Column("Decode step", "<"),
    Column("requests", keep=2),
    Column("tokens/req", keep=1),
    Column("flat"),
    Column("prefix-aware"),
    Column("gain", keep=3),
]


def print_ttft(console: Console, profile: Profile, plain: bool) -> None:
    """Time to the first token, measured and predicted, with the cache on and off."""
    measured = profile.measured
    rows: list[tuple[str, ...]] = []
    for label, quantiles in (
        ("measured here, cache on", measured.on if measured is not None else None),
        ("measured here, cache off", measured.off if measured is not None else None),
        ("predicted, cache on", profile.predicted_on),
        ("predicted, cache off", profile.predicted_off),
    ):
        if quantiles is not None:
            rows.append((label, *(f"{1000 * value:,.1f}" for value in (quantiles.p50, quantiles.p90, quantiles.p99))))
    columns = [Column("TTFT in ms", "<"), Column("p50"), Column("p90"), Column("p99")]
    for line in table(columns, rows, console.width, ascii_only=plain):
        put(console, line)
    config = profile.config
    if measured is not None and measured.requests:
        share = measured.hit_tokens / measured.prompt_tokens
        text = (
            f"measured: the first {measured.requests:,} of {plural(profile.total.requests, 'request')} "
            f"({percent(measured.requests / profile.total.requests)}; their hit rate {percent(share)}), one at a time, "
            f"on {_measured_model(profile, plain)}, {config['device']}"
        )
        say(console, text, indent=4, style="dim")
    elif measured is not None:
        say(console, f"not measured: {measured.reason or 'there was nothing to run'}", indent=4, style="dim")
    else:
        why = "interrupted" if profile.partial else "--measure-budget 0"
        say(console, f"not measured: {why}", indent=4, style="dim")
    if measured is not None:
        _shortfalls(console, measured, plain)
    say(console, sanitize(_predicted_for(profile), ascii_only=plain), indent=4, style="dim")


def _predicted_for(profile: Profile) -> str:
    """What the predictions are about, and what they rest on."""
    config = profile.config
    model, where, ways = config["model"], config["accelerator"], config["tensor_parallel"]
    if config["calibration"] is None:
        return f"predicted: {model} on {where if ways == 1 else f'{ways} x {where}'}, a roofline estimate"
    text = f"predicted: {model}, fitted on {where}"
    fitted, predicted = config["calibration_dtype"], config["predicted_dtype"]
    if fitted != predicted:
        text += f"; the fit is of {config['calibration_model']} in {fitted}, the prediction for {predicted}"
    return text


def _shortfalls(console: Console, measured: MeasuredTimes, plain: bool) -> None:
    """What the device or its software lacked."""
    if measured.shortfall:
        say(console, f"note: {sanitize(measured.shortfall, ascii_only=plain)}", indent=4, style="yellow")
    if measured.too_large and measured.requests:
        text = f"note: {plural(measured.too_large, 'request')} left out, too large for the memory of the device"
        say(console, text, indent=4, style="yellow")


def _measured_model(profile: Profile, plain: bool) -> str:
    model = str(profile.config["measured_model"])
    if model == "embedded":
        return "the embedded model with random weights"
    shown = sanitize(model, ascii_only=plain)
    return f"{shown} with random weights" if profile.config["load_format"] == "dummy" else shown


def print_decode(console: Console, profile: Profile, plain: bool) -> None:
    """What decode steps read and take, flat and prefix-aware, and an empty line; nothing where no requests decode together."""
    if profile.decode is None:
        return
    for line in table(_COLUMNS, _decode_rows(profile, profile.decode), console.width, ascii_only=plain):
        put(console, line)
    for text in _decode_notes(profile, profile.decode, plain):
        say(console, text, indent=4, style="dim")
    put(console)


def _decode_rows(profile: Profile, traffic: DecodeTraffic) -> list[tuple[str, ...]]:
    """Bytes, then the prediction, then the measurement."""
    batch = _mean(traffic.requests), f"{traffic.tokens:,.0f}"
    rows: list[tuple[str, ...]] = [
        ("KV read", *batch, size(traffic.flat_bytes), size(traffic.shared_bytes), _times(traffic.gain)),
        ("TPOT ms, predicted", *batch, *_milliseconds(traffic.flat_seconds, traffic.shared_seconds)),
    ]
    measured = profile.measured.decode if profile.measured is not None else None
    if measured is not None:
        batch = f"{measured.requests:,}", f"{measured.tokens:,.0f}"
        rows.append(("TPOT ms, measured here", *batch, *_milliseconds(measured.flat_seconds, measured.sharing_seconds)))
    return rows


def _decode_notes(profile: Profile, traffic: DecodeTraffic, plain: bool) -> Iterator[str]:
    """What the rows are of, and what the engine would choose."""
    config = profile.config
    model = sanitize(str(config["model"]), ascii_only=plain)
    yield f"KV read and predicted: {_batch(traffic)}; {model}, KV cache in {config['kv_cache_dtype']}"
    yield f"on {sanitize(str(config['accelerator']), ascii_only=plain)}, --decode-attention {traffic.mode} {_chosen(traffic)}"
    if profile.measured is None or not profile.measured.requests:
        return
    measured = profile.measured.decode
    if measured is None:
        if round(traffic.requests) < 2 or profile.partial:
            return
        yield "TPOT is not measured: it takes longer here than the part of --measure-budget that it has"
    else:
        alone = measured.sharing_seconds is None and traffic.mode == "auto"
        yield (
            f"measured: {plural(measured.requests, 'request')} together, the median of {plural(measured.steps, 'step')}, "
            f"on {_measured_model(profile, plain)}, {config['device']}"
            f"{', where auto is flat' if alone else ''}"
        )


def _batch(traffic: DecodeTraffic) -> str:
    if traffic.together:
        return f"{plural(traffic.samples, 'step')} of the run, in which {_mean(traffic.requests)} requests decode on average"
    text = f"{_mean(traffic.requests)} conversations, if they decoded together"
    return text if traffic.steps == 1 else f"{text}, mean of {traffic.samples:,} such batches out of {traffic.steps:,}"


def _mean(count: float) -> str:
    return f"{count:,.0f}" if count == int(count) else f"{count:,.1f}"


def _chosen(traffic: DecodeTraffic) -> str:
    """What the engine does with `--decode-attention` as it is."""
    if traffic.flat_bytes == traffic.shared_bytes:
        return "has nothing to share"
    if traffic.mode == "flat":
        return "reads every context by itself"
    if not traffic.sharing:
        return "is flat: sharing promises too little"
    return "is prefix-aware" if traffic.sharing == 1 else f"is prefix-aware in {percent(traffic.sharing)} of them"


def _milliseconds(flat: float, sharing: float | None) -> tuple[str, str, str]:
    if sharing is None:
        return f"{1000 * flat:,.2f}", "-", ""
    return f"{1000 * flat:,.2f}", f"{1000 * sharing:,.2f}", _times(flat / sharing)


def _times(ratio: float) -> str:
    return f"{ratio:,.1f}x"
