"""The command `kvtool bench`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config import bounds
from kvtool.config.option import Option, check_values, only
from kvtool.config.options.bench_options import Benching
from kvtool.config.options.run_options import Serving
from kvtool.config.options.shown_options import Showing
from kvtool.engine.config import DEFAULT_MODEL
from kvtool.engine.kv_dtype import AUTO
from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from kvtool.measure.bench.bench_result import BenchOptions, BenchResult
    from kvtool.text.terminal.progress import Progress

_EXAMPLE = "workloads/support-bot.yaml"
_FILE = "calibration.json"


@dataclass(frozen=True, kw_only=True)
class BenchCommand(Command):
    """Measure the embedded engine on this machine, and fit the TTFT predictions to it.

    --server measures a running server instead: cold prompts of five lengths and warm prompts with five hit rates, one at a
    time.
    """

    server: Annotated[str | None, Option("Running server: its time to first token is measured.", "URL")] = None
    longest: Annotated[
        int | None,
        Option("Longest prompt for --server, in tokens.", "N", check=bounds.at_least_one, words="one step"),
    ] = None
    yes: Annotated[bool, Option("Send to --server without asking.", short="-y")] = False
    model: Annotated[
        str | None,
        Option(
            "Model with random weights: a preset or a folder.",
            "NAME",
            short="-m",
            words=f"a tiny one; on a GPU with room {DEFAULT_MODEL}",
        ),
    ] = None
    dtype: Annotated[
        str, Option("Data type of the model: auto, float32, bfloat16 or float16.", "NAME", check=bounds.model_dtype)
    ] = AUTO
    serving: Annotated[Serving, only("kv_cache_dtype")]
    device: Annotated[str, Option("Device: auto (CUDA if there is one), cpu, cuda or cuda:N.", "NAME")] = "auto"
    benching: Benching
    output: Annotated[str | None, Option("Calibration file, for kvtool profile --calibration.", "FILE", short="-o")] = (
        None
    )
    showing: Annotated[Showing, only("json", "quiet", "color", "plain", "width", "command_line")]

    def run(self) -> int:
        """Measure, print and leave the calibration file; 0, or 130 where it was interrupted."""
        from contextlib import ExitStack

        from kvtool.text.files.atomic_file import AtomicFile
        from kvtool.text.terminal.streams import printing

        options = self._checked()
        if self.server is not None:
            return self._bench_server(self.server)
        with ExitStack() as stack:
            output = None
            if self.output is not None:  # a path that cannot be written is told before any work is done
                output = AtomicFile(self.output)
                stack.callback(output.discard)
            result = self._measure(options)
            if output is not None and result.calibration is not None:
                output.write(result.calibration.dump())
                output.close()
        with printing():
            self._print(result)
        if result.partial:
            return 130
        if output is not None and result.calibration is None:
            raise KvtoolError(
                f"{self.output} is not written: {result.no_calibration}",
                hint=f"give more time: --budget {self._more_time}",
            )
        return 0

    def _checked(self) -> BenchOptions:
        """Check the flags, before anything takes time."""
        from kvtool.engine.kv_dtype import find_kv_dtype
        from kvtool.engine.model.configs.find_runnable import find_runnable
        from kvtool.engine.model.configs.find_served import find_served
        from kvtool.measure.bench.bench_result import BenchOptions

        check_values(self)
        if self.server is None and (self.longest is not None or self.yes):
            raise KvtoolError(f"{'--yes' if self.yes else '--longest'} is about --server, which is not given")
        kv_cache_dtype = self.serving.kv_cache_dtype or AUTO
        find_kv_dtype(kv_cache_dtype)
        if self.model is not None and self.server is not None:
            find_served(self.model)
        elif self.model is not None and not find_runnable(self.model).plain:
            raise KvtoolError(
                f"{self.model}: bench measures only models with equal layers: full attention and one MLP each",
                hint="profile --measure-budget times this one's own requests",
            )
        if self.output == "-":
            raise KvtoolError(
                "--output needs a file: standard output has the report", hint="--json prints every figure"
            )
        return BenchOptions(
            budget=self.benching.budget,
            model=self.model,
            dtype=self.dtype,
            kv_cache_dtype=kv_cache_dtype,
            device=self.device,
        )

    def _bench_server(self, url: str) -> int:
        """Time a server, print, and leave the calibration file; 0."""
        from contextlib import ExitStack

        from kvtool.engine.model.configs.find_geometry import find_geometry
        from kvtool.measure.engine_extra import need_live
        from kvtool.measure.servers.server_timing import ServerBenchRun, WantedCalibration
        from kvtool.report.terminal.server_views.bench import print_server_bench
        from kvtool.text.files.atomic_file import AtomicFile
        from kvtool.text.terminal.streams import printing

        need_live("kvtool bench --server")
        with ExitStack() as stack:
            output = None
            if self.output is not None:
                output = AtomicFile(self.output)
                stack.callback(output.discard)
            run = stack.enter_context(ServerBenchRun(url, longest=self.longest))
            wanted = None
            if output is not None:
                model = self.model or run.model_path
                if model is None:
                    raise KvtoolError(
                        "the server's model is not on this machine, so its sizes are not known",
                        hint="name it: --model PRESET or a folder with config.json",
                    )
                wanted = WantedCalibration(find_geometry(model), self.dtype, self.serving.kv_cache_dtype or AUTO)
            self._ask(f"{len(run.prompts):,} prompts of {run.tokens:,} tokens in all to {run.address.root}")
            with self.showing.progress() as progress:
                progress.stage("bench", len(run.prompts))
                document, calibration = run.timed(wanted, progress.advance)
            if output is not None and calibration is not None:
                output.write(calibration.dump())
                output.close()
        with printing():
            if self.showing.json:
                sys.stdout.write(document.to_json())
            else:
                print_server_bench(self.showing.console(), document, self.output)
        return 0

    def _ask(self, what: str) -> None:
        """Ask whether to go on. Raises KvtoolError where nobody can be asked, or says no."""
        if self.yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise KvtoolError(f"this would send {what}", hint="--yes sends it")
        print(f"This sends {what}, and evicts what others left. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise KvtoolError("nothing was sent")

    def _measure(self, options: BenchOptions) -> BenchResult:
        from kvtool.measure.engine_extra import need_engine
        from kvtool.text.terminal.interrupts import uninterrupted

        with uninterrupted():
            need_engine("kvtool bench")
            from kvtool.measure.bench.session import Bench  # torch: two seconds that help and mistakes do not need

        with self.showing.progress(unit="steps") as progress:
            return Bench(options, _Stages(progress)).run()

    def _print(self, result: BenchResult) -> None:
        from kvtool.report.terminal.server_views.bench import print_bench

        if self.showing.json:
            sys.stdout.write(result.document().to_json())
            return
        print_bench(self.showing.console(), result, *self._next(result))

    def _next(self, result: BenchResult) -> tuple[str, list[str]]:
        """Return what to do now, and the command for it."""
        from kvtool.config.command_line import CommandLine

        given = CommandLine(self.showing.command_line or ("bench",))
        if result.partial:
            return "measure everything", ["kvtool", *given]
        if result.calibration is None:
            return "give it more time", ["kvtool", *given.with_(budget=self._more_time)]
        if self.output is None:
            return "keep what was fitted", ["kvtool", *given, "-o", _FILE]
        command = CommandLine(("profile", _EXAMPLE)).with_(model=self.model, calibration=self.output)
        return f"predict for {result.machine.device}", ["kvtool", *command]

    @property
    def _more_time(self) -> str:
        """Seconds that may be enough where the given ones were not."""
        return f"{max(2 * self.benching.budget, 10):g}"


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
