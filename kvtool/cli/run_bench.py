"""The command `kvtool bench`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import inf

from kvtool.engine.kv_dtype import AUTO, find_kv_dtype
from kvtool.engine.model.presets import find_model
from kvtool.errors import KvtoolError
from kvtool.measure.bench.bench_result import BenchOptions, BenchResult
from kvtool.measure.measure_options import MODEL_DTYPES
from kvtool.report.terminal.bench import print_bench
from kvtool.report.terminal.next_command import with_flag
from kvtool.text.files.atomic_file import AtomicFile
from kvtool.text.terminal.console import ColorChoice, make_console
from kvtool.text.terminal.interrupts import uninterrupted
from kvtool.text.terminal.progress import Progress
from kvtool.text.terminal.streams import printing

_EXAMPLE = "workloads/support-bot.yaml"
_FILE = "calibration.json"


@dataclass(frozen=True, slots=True)
class BenchArguments:
    """The command line of `kvtool bench`."""

    model: str | None = None
    dtype: str = AUTO
    kv_cache_dtype: str = AUTO
    device: str = "auto"
    budget: float = 30.0
    output: str | None = None
    json: bool = False
    quiet: bool = False
    color: ColorChoice = "auto"
    plain: bool = False
    width: int | None = None
    command_line: Sequence[str] = ()
    """What stood behind `kvtool`; the report bases the next command on it."""


def run_bench(arguments: BenchArguments) -> int:
    """Measure, print and leave the calibration file; returns the exit code: 0, or 130 where it was interrupted."""
    options = _checked(arguments)
    with ExitStack() as stack:
        output = None
        if arguments.output is not None:  # a path that cannot be written is told before any work is done
            output = AtomicFile(arguments.output)
            stack.callback(output.discard)
        result = _measure(options, arguments)
        if output is not None and result.calibration is not None:
            output.write(result.calibration.dump())
            output.close()
    with printing():
        _print(result, arguments)
    if result.partial:
        return 130
    if output is not None and result.calibration is None:
        raise KvtoolError(
            f"{arguments.output} is not written: {result.no_calibration}",
            hint=f"give more time: --budget {max(2 * arguments.budget, 10):g}",
        )
    return 0


def _checked(arguments: BenchArguments) -> BenchOptions:
    """What a flag may hold, where its type does not say it; before anything takes time."""
    if not 0.0 < arguments.budget < inf:
        raise KvtoolError(f"--budget is a number of seconds above 0, not {arguments.budget:g}")
    if arguments.dtype not in MODEL_DTYPES:
        raise KvtoolError(f"unknown dtype `{arguments.dtype}`", hint=f"--dtype is one of {', '.join(MODEL_DTYPES)}")
    find_kv_dtype(arguments.kv_cache_dtype)
    if arguments.model is not None:
        find_model(arguments.model)
    if arguments.output == "-":
        raise KvtoolError("--output needs a file: standard output has the report", hint="--json prints every figure")
    return BenchOptions(
        budget=arguments.budget,
        model=arguments.model,
        dtype=arguments.dtype,
        kv_cache_dtype=arguments.kv_cache_dtype,
        device=arguments.device,
    )


def _measure(options: BenchOptions, arguments: BenchArguments) -> BenchResult:
    with uninterrupted():
        from kvtool.measure.bench.session import Bench  # torch: two seconds that help and mistakes do not need

    console = make_console(stderr=True, color=arguments.color)
    with Progress(console, quiet=arguments.quiet, unit="steps") as progress:
        return Bench(options, _Stages(progress)).run()


class _Stages:
    """Shows how far each stage is."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stage = ""
        self._done = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self._progress.stage(stage, total)
            self._stage, self._done = stage, 0
        self._progress.advance(done - self._done)
        self._done = done


def _print(result: BenchResult, arguments: BenchArguments) -> None:
    if arguments.json:
        sys.stdout.write(result.document().to_json())
        return
    console = make_console(color=arguments.color, width=arguments.width, plain=arguments.plain)
    print_bench(console, result, *_next(result, arguments))


def _next(result: BenchResult, arguments: BenchArguments) -> tuple[str, list[str]]:
    """What to do now, and the command for it."""
    given = arguments.command_line or ("bench",)
    if result.partial:
        return "measure all of it", ["kvtool", *given]
    if result.calibration is None:
        budget = f"{max(2 * arguments.budget, 10):g}"
        return "give it more time", ["kvtool", *with_flag(given, "--budget", budget)]
    if arguments.output is None:
        return "keep what was fitted", ["kvtool", *given, "-o", _FILE]
    model = ["--model", arguments.model] if arguments.model is not None else []
    command = ["kvtool", "profile", _EXAMPLE, *model, "--calibration", arguments.output]
    return f"predict for {result.machine.device}", command
