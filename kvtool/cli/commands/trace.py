"""The command `kvtool trace`."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Argument, Option, check_values, only
from kvtool.config.options.run_options import Reading, Rendering, Serving, Tracing
from kvtool.config.options.shown_options import Configured, Showing
from kvtool.errors import KvtoolError, join_errors
from kvtool.results.choices import TraceFormat
from kvtool.text.terminal.streams import check_piped

if TYPE_CHECKING:
    from kvtool.config.asked_run import RunOptions
    from kvtool.results.documents.traced_logs import TraceDocument


@dataclass(frozen=True, kw_only=True)
class TraceCommand(Command):
    """Save logs as block traces: time, tenant, length and blocks of each request, without its text.

    Each log becomes a Parquet file. profile and what-if read the folder like the logs, without tokenizing again. A log is
    traced again only after it changes. --export writes one anonymous trace that benchmarks can replay.
    """

    inputs: Annotated[tuple[str, ...], Argument("Logs, traces, folders or - (stdin)", "INPUT")]
    output: Annotated[str, Option("Folder for the traces; with --export, the file.", "PATH", short="-o")]
    export: Annotated[TraceFormat | None, Option("Format of one trace for all logs: Mooncake's or qwen-bailian's.")] = (
        None
    )
    rendering: Rendering
    serving: Annotated[Serving, only("block_size")]
    tracing: Annotated[Tracing, only("trace_block_size")]
    reading: Annotated[Reading, only("on_bad_line", "log_format", "log_map", "tenant", "seed", "jobs")]
    configured: Configured
    showing: Annotated[Showing, only("json", "offline", "quiet", "color", "plain", "width")]

    def run(self) -> int:
        """Write and say what was written; KvtoolError, or ProblemsError, for logs that cannot be read."""
        check_values(self)
        check_piped("trace", self.inputs)
        from kvtool.config.asked_run import RunOptions
        from kvtool.config.loading import read_config
        from kvtool.text.terminal.streams import printing

        options = RunOptions(
            inputs=self.inputs,
            rendering=self.rendering,
            serving=self.serving,
            tracing=self.tracing,
            reading=self.reading,
        ).over(read_config(self.configured))
        options.check()
        errors: list[KvtoolError] = []
        document = self._folder(options, errors) if self.export is None else self._replay(options, self.export)
        with printing():
            if self.showing.json:
                sys.stdout.write(document.to_json())
            elif document.traces or document.replay is not None:
                from kvtool.report.terminal.traced_logs import print_traced

                print_traced(self.showing.console(), document)
        if errors and (self.reading.on_bad_line == "error" or not document.traces):
            raise join_errors(errors)
        return 0

    def _folder(self, options: RunOptions, errors: list[KvtoolError]) -> TraceDocument:
        """Return a trace for each log; the errors of those that cannot be read are added."""
        from kvtool.profiler.tracing.trace_folder import are_alike, logs_to_trace, trace_all, trace_options
        from kvtool.results.documents.traced_logs import LogTrace, TraceDocument, UntracedLog
        from kvtool.workload.block_files.block_file import need_parquet
        from kvtool.workload.tasks.task_options import TaskOptions

        need_parquet()
        tasks = TaskOptions(self.reading.jobs)
        logs = logs_to_trace(self.inputs, self.output, log_format=options.log_format)
        asked = trace_options(options, offline=self.showing.offline)
        traces, failed = list[LogTrace](), list[UntracedLog]()
        with self.showing.progress("logs") as progress, closing(trace_all(asked, logs, tasks)) as traced:
            progress.stage("tracing", len(logs))
            for log, found in zip(logs, traced, strict=True):
                if isinstance(found, KvtoolError):
                    errors.append(found)
                    failed.append(UntracedLog(log=log.path, message=found.message))
                else:
                    traces.append(
                        LogTrace(
                            log=found.path,
                            trace=found.target,
                            requests=found.requests,
                            blocks=found.blocks,
                            kept=found.kept,
                            notes=list(found.notes),
                        )
                    )
                progress.advance(1)
        alike = are_alike(each.trace for each in traces)
        return TraceDocument(output=self.output, traces=traces, failed=failed, alike=alike)

    def _replay(self, options: RunOptions, format_: TraceFormat) -> TraceDocument:
        """Write one trace of all logs."""
        from kvtool.profiler.tracing.replay_trace import write_replay
        from kvtool.results.documents.traced_logs import ReplayFile, TraceDocument, UntracedLog
        from kvtool.text.tokens.tokenizer import Tokenizers

        with self.showing.progress() as progress:
            written = write_replay(options, Tokenizers(offline=self.showing.offline), self.output, format_, progress)
        return TraceDocument(
            output=self.output,
            traces=[],
            failed=[UntracedLog(log=path, message=error.message) for path, error in written.failed.items()],
            replay=ReplayFile(
                path=written.path,
                format=written.format,
                block_size=written.block_size,
                requests=written.requests,
                distinct_blocks=written.blocks,
                notes=list(written.notes),
            ),
        )
