"""The tables of `kvtool bench`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.config.command_line import flags
from kvtool.measure.bench.bench_result import BenchResult
from kvtool.measure.bench.cases import StepCase
from kvtool.report.terminal.lines import put_head, put_next
from kvtool.results.documents.bench import Misses
from kvtool.results.documents.calibrated import Residuals
from kvtool.results.documents.server_bench import ServerBench, TimedPrompt
from kvtool.text.terminal.console import ascii_only, bar, fold, put, sanitize, say
from kvtool.text.terminal.numbers import duration, percent, plural
from kvtool.text.terminal.table import Column, put_table
from kvtool.version import __version__

if TYPE_CHECKING:
    from rich.console import Console


_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BAR = 20
_MOST_LEFT_OUT = 6
_DISTURBED = 1.25
_BUSY = 0.5
_BEYOND = 3.0
_EXAMPLE = "workloads/support-bot.yaml"


def print_bench(console: Console, result: BenchResult, todo: str, command: Sequence[str]) -> None:
    """Print head, ceilings, a table for each kind of step, and the fit, no wider than the console.

    `command` is proposed as the next one, to do `todo`.
    """
    _BenchView(console, result).show(todo, command)


class _BenchView:
    def __init__(self, console: Console, result: BenchResult) -> None:
        self._console = console
        self._result = result
        self._plain = ascii_only(console)
        self._micro = "us" if self._plain else "µs"

    def show(self, todo: str, command: Sequence[str]) -> None:
        self._head()
        for section in (self._prefill, self._extend, self._decode, self._sharing, self._store, self._fit):
            section()
        self._notes()
        put(self._console)
        if self._result.partial:
            text = "PARTIAL: interrupted; the figures are of the steps measured up to there, and nothing was fitted"
            self._say(text, indent=0, style="bold yellow")
        put_next(self._console, todo, command[1:])

    def _say(self, text: str, *, indent: int = 2, style: str | None = None) -> None:
        shown = sanitize(text, ascii_only=self._plain)
        for line in fold(" " * indent + shown, self._console.width, indent=indent + 2):
            put(self._console, line, style)

    def _table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        if rows:
            put(self._console)
            put_table(self._console, columns, rows)

    def _head(self) -> None:
        result, machine = self._result, self._result.machine
        head = [
            f"kvtool {__version__} bench",
            f"{result.geometry.name}, random weights",
            result.dtype,
            f"KV cache {result.kv_cache_dtype}",
            f"block {result.block_size}",
        ]
        with_what = [
            machine.device,
            f"torch {machine.torch}",
            "kernels in torch" if machine.kernels == "torch" else f"Triton {machine.triton}",
            f"{result.seconds:.0f} s",
        ]
        copied, product = _rate(result.copy_bytes_per_s, "B/s"), _rate(result.matmul_flops_per_s, "FLOP/s")
        ceilings = [f"Ceilings: copy {copied}", f"matrix product {product} in {result.dtype}"]
        for parts, style in ((head, "bold"), (with_what, "dim"), (ceilings, None)):
            put_head(self._console, parts, style)

    def _prefill(self) -> None:
        result = self._result
        steps = sorted(result.of_kind("prefill"), key=lambda step: step.case.new_tokens)
        rates = [result.flops(step.case) / step.seconds for step in steps]
        scale, prefix = _unit(max(rates, default=1.0))
        columns = [
            Column("Prefill tokens"),
            Column("ms"),
            Column("tokens/s"),
            Column(f"{prefix}FLOP/s", keep=1),
            Column("of ceiling"),
            Column("", "<", keep=0, drawing=True),
        ]
        rows = []
        for step, rate in zip(steps, rates, strict=True):
            share = rate / result.matmul_flops_per_s
            tokens = step.case.new_tokens
            rows.append(
                [
                    f"{tokens:,}",
                    f"{1e3 * step.seconds:,.2f}",
                    f"{tokens / step.seconds:,.0f}",
                    f"{rate / scale:,.1f}",
                    percent(share),
                    bar(share, _BAR, self._plain),
                ]
            )
        self._table(columns, rows)

    def _extend(self) -> None:
        """Show a question after a document: what the prefix cache saves."""
        columns = [Column("Cached + new", "<"), Column("cold ms"), Column("cached ms"), Column("of cold")]
        rows = []
        for step in self._result.of_kind("extend"):
            [(cached, new)] = step.case.work
            cold = next((other for other in self._result.of_kind("cold") if other.case.context == cached + new), None)
            if cold is not None:
                times = [f"{1e3 * seconds:,.2f}" for seconds in (cold.seconds, step.seconds)]
                rows.append([f"{cached:,} + {new}", *times, percent(step.seconds / cold.seconds)])
        self._table(columns, rows)

    def _decode(self) -> None:
        result, micro = self._result, self._micro
        flat = [step for step in result.of_kind("decode") if step.case.mode == "flat"]
        aware = {
            (step.case.work, step.case.shared): step
            for step in result.of_kind("decode")
            if step.case.mode == "prefix-aware"
        }
        columns = [
            Column("Decode", "<"),
            Column("shared"),
            Column("tokens/s", keep=0),
            Column(f"{micro}/step"),
            Column("floor", keep=1),
            Column("of floor"),
            *([Column(f"aware {micro}"), Column("of floor", keep=2), Column("gain")] if aware else []),
        ]
        rows = []
        for step in flat:
            case, floor = step.case, result.memory_floor(step.case)
            row = [
                f"{len(case.work)} x {case.context:,}",
                f"{100 * case.shared / case.context:.0f}%",
                f"{case.new_tokens / step.seconds:,.0f}",
                f"{1e6 * step.seconds:,.0f}",
                f"{1e6 * floor:,.0f}",
                percent(floor / step.seconds),
            ]
            if aware:
                other = aware.get((case.work, case.shared))
                row += (
                    ["", "", ""]
                    if other is None
                    else [
                        f"{1e6 * other.seconds:,.0f}",
                        percent(floor / other.seconds),
                        f"{step.seconds / other.seconds:.2f} x",
                    ]
                )
            rows.append(row)
        self._table(columns, rows)
        if rows:
            text = "requests x context; floor: weights once and the KV of each block once, as fast as a copy"
            if aware:
                text += "; aware: prefix-aware decode, which reads a shared prefix once for all"
            self._say(text, style="dim")

    def _sharing(self) -> None:
        """Show how many times as fast prefix-aware decode is as flat decode, measured."""
        found = self._result.sharing()
        shares = sorted({gain.shared_tokens for gain in found})
        gains = {(gain.requests, gain.shared_tokens): f"{gain.gain:.2f} x" for gain in found}
        contexts = {gain.requests: gain.context_tokens for gain in found}
        columns = [
            Column("Gain of sharing", "<"),
            *(Column(f"{100 * shared / max(contexts.values()):.0f}%") for shared in shares),
        ]
        rows = [
            [f"{requests} x {context:,}", *(gains.get((requests, shared), "") for shared in shares)]
            for requests, context in contexts.items()
        ]
        self._table(columns, rows)
        if rows:
            self._say(
                "a decode step, flat against prefix-aware, by the part of the context that is shared", style="dim"
            )

    def _store(self) -> None:
        store = self._result.store
        if store is None:
            return
        rate = store.num_bytes / store.seconds
        put(self._console)
        self._say(
            f"store_kv of {store.tokens:,} tokens: {1e6 * store.seconds:,.0f} {self._micro} a layer, "
            f"{_rate(rate, 'B/s')}, {percent(rate / self._result.copy_bytes_per_s)} of a copy"
        )

    def _fit(self) -> None:
        result, calibration = self._result, self._result.calibration
        if calibration is None:
            if not result.partial:
                put(self._console)
                self._say(f"Nothing was fitted: {result.no_calibration}", style="yellow")
            return
        constants, micro = calibration.constants, self._micro
        reached = percent(constants.flops / result.matmul_flops_per_s)
        moved = percent(constants.bandwidth / result.copy_bytes_per_s)
        self._table(
            [Column("Fitted to this machine", "<"), Column(""), Column("of ceiling")],
            [
                ["arithmetic", _rate(constants.flops, "FLOP/s"), reached],
                ["memory", _rate(constants.bandwidth, "B/s"), moved],
                ["each layer", f"{1e6 * constants.layer_overhead:,.1f} {micro}", ""],
                ["each layer and request", f"{1e6 * constants.request_overhead:,.1f} {micro}", ""],
                ["each step", f"{1e6 * constants.step_overhead:,.1f} {micro}", ""],
            ],
        )
        errors: list[tuple[str, Residuals | None]] = [
            ("in the fit", calibration.residuals(held_out=False)),
            ("held out", calibration.residuals(held_out=True)),
            ("ceilings alone", result.ceilings_alone),
        ]
        self._table(
            [Column("Predictions are off by", "<"), Column("median"), Column("worst"), Column("steps")],
            [
                [label, percent(found.median), percent(found.worst), f"{found.points:,}"]
                for label, found in errors
                if found is not None and found.points
            ],
        )

    def _notes(self) -> None:
        result = self._result
        notes = list(result.notes)
        if result.left_out:
            names = [self._name(case) for case in result.left_out]
            more = f" and {len(names) - _MOST_LEFT_OUT} more" if len(names) > _MOST_LEFT_OUT else ""
            shown = ", ".join(names[:_MOST_LEFT_OUT])
            notes.append(f"no time or no memory for {plural(len(names), 'step')}: {shown}{more}")
        busy = []
        if result.load > _BUSY:
            busy.append(f"other programs wanted {percent(result.load)} of the processors")
        if result.disturbance > _DISTURBED:
            busy.append(f"steps took {result.disturbance:.1f} times as long as when they were quickest")
        if busy:
            notes.append(f"this machine was busy: {', and '.join(busy)}; measure again when it is idle")
        notes += self._guesses()
        if any(result.memory_floor(step.case) > step.seconds for step in result.of_kind("decode")):
            notes.append("over 100% of the floor: what is read stays in the processor's caches")
        if notes:
            put(self._console)
        for note in notes:
            self._say(note, style="dim")

    def _guesses(self) -> list[str]:
        """Rates that the steps say nothing about."""
        result, calibration = self._result, self._result.calibration
        if calibration is None:
            return []
        shares = {
            "arithmetic": calibration.constants.flops / result.matmul_flops_per_s,
            "memory": calibration.constants.bandwidth / result.copy_bytes_per_s,
        }
        return [
            f"the rate of {name} is a guess: no step that there was time for is limited by it"
            for name, share in shares.items()
            if share > _BEYOND
        ]

    def _name(self, case: StepCase) -> str:
        before, new = case.work[0]
        if case.kind in ("decode", "sharing"):
            return f"{case.kind} {len(case.work)} x {case.context:,}" + (" shared" if case.shared else "")
        return f"{case.kind} {f'{before:,} + ' if before else ''}{new:,}"


def _unit(value: float) -> tuple[float, str]:
    return next(((scale, prefix) for scale, prefix in _PREFIXES if value >= scale), (1.0, ""))


def _rate(value: float, unit: str) -> str:
    """Three digits and a prefix: `124 GFLOP/s`."""
    scale, prefix = _unit(value)
    number = value / scale
    return f"{number:,.{0 if number >= 100 else 1 if number >= 10 else 2}f} {prefix}{unit}"


def print_server_bench(console: Console, bench: ServerBench, output: str | None) -> None:
    """Print seconds by length and hits, the fitted line with its error, and what to do with the file."""
    head = [
        f"kvtool bench --server {bench.source}",
        bench.model,
        f"{bench.requests:,} prompts, {bench.tokens:,} tokens",
    ]
    put_head(console, head)
    put(console)
    columns = [Column("prompt"), Column("cached"), Column("quartile"), Column("slowest"), Column("fitted")]
    put_table(console, columns, [_row(point) for point in bench.points])
    put(console)
    fitted = bench.fitted
    for text in (
        (
            f"seconds = {fitted.a_s:.3g} + {fitted.b_s_per_token:.3g} a computed token"
            f" + {fitted.c_s_per_token_pair:.3g} for each token that one attends to"
        ),
        f"each held out in turn  {_missed(bench.held_out)}; in the fit {_missed(bench.fit)}",
        *(
            [f"latency model  {_missed(bench.calibration_held_out)} on those held out"]
            if bench.calibration_held_out is not None
            else []
        ),
    ):
        say(console, text, hang=2)
    put(console)
    command = ["bench", *flags(server=bench.source), "-o", "server.json"]
    if output is not None:
        command = ["profile", _EXAMPLE, *flags(server=bench.source, calibration=output)]
    put_next(console, "predict times with this measurement", command)


def _row(point: TimedPrompt) -> list[str]:
    times = (point.seconds, point.slowest_s, point.fitted_s)
    return [f"{point.prompt_tokens:,}", f"{point.cached_tokens:,}", *map(duration, times)]


def _missed(misses: Misses) -> str:
    return f"off by {percent(misses.median)} in the median, {percent(misses.worst)} at most"
