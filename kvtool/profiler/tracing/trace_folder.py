"""A folder of block traces, one for each log: what is there already is kept, and one bad log hides no other."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath

from kvtool.config.asked_run import RunOptions
from kvtool.errors import KvtoolError, Place
from kvtool.profiler.tracing.trace_file import LogToTrace, LogTracer, TracedFile, TraceOptions, options_print
from kvtool.text.files.file_patterns import literal_start
from kvtool.text.files.part_file import remove_left_over
from kvtool.text.templates.chat import template_text
from kvtool.text.terminal.streams import STDIN
from kvtool.text.tokens.tokenizer_files import find_tokenizer
from kvtool.workload.ahead.ahead import WORTH_IT
from kvtool.workload.block_files.block_file import SUFFIX, NotWrittenError, written_trace
from kvtool.workload.logs.files.input_files import find_inputs, is_folder
from kvtool.workload.logs.groups.session_names import session_names
from kvtool.workload.logs.records.record import FIRST_DATE
from kvtool.workload.tasks.task_map import Poisoned
from kvtool.workload.tasks.task_options import TaskOptions

_RESUME = "finished traces are complete; run the same command again to continue"
_WORKLOADS = (".yaml", ".yml")


def trace_options(options: RunOptions, *, offline: bool) -> TraceOptions:
    """Return what is to be made of each log; NotAvailableError for a tokenizer that cannot be had."""
    engine = options.fallback
    rendering = options.rendering
    tokenizer = rendering.tokenizer or (None if engine is None else engine.tokenizer)
    template = rendering.chat_template or (None if engine is None else engine.chat_template)
    files = find_tokenizer(tokenizer, offline=offline)
    return TraceOptions(
        options, options_print(options, files, None if template is None else template_text(template)), offline
    )


def logs_to_trace(names: Sequence[str], folder: str, *, log_format: str | None = None) -> list[LogToTrace]:
    """Return the logs that the names are for, each with the place of its trace below the folder: named as the log below its own
    folder.

    What lies below `folder` is no log. KvtoolError where nothing else is there, or a name is for it alone, where two logs would
    have one trace, and for workload files.
    """
    for name in names:
        if name.lower().endswith(_WORKLOADS):
            raise KvtoolError(
                f"{name} is a workload file, not a log", hint="kvtool what-if reads it directly; it needs no trace"
            )
    inside = os.path.realpath(folder) + os.sep
    found = find_inputs(names, log_format=log_format).paths
    paths = [path for path in found if path == STDIN or not os.path.realpath(path).startswith(inside)]
    traces = set(found).difference(paths)
    named = next((name for name in names if name in traces), None if paths else names[0])
    if named is not None:
        where = "it lies" if named in traces else "all of its logs lie"
        raise KvtoolError(
            f"{where} in {folder}, where the traces go", hint="set -o to another folder", place=Place(named)
        )
    below = _below(paths, names)
    short = session_names(paths)
    logs = [LogToTrace(path, short[path], str(Path(folder) / f"{below[path]}{SUFFIX}")) for path in paths]
    taken: dict[str, str] = {}
    for log in logs:
        if (other := taken.setdefault(log.target, log.path)) != log.path:
            raise KvtoolError(f"{other} and {log.path} both become {log.target}", hint="trace them into two folders")
    return logs


def _below(paths: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the place of each trace in its folder, by path."""
    searched = [
        (name if is_folder(name) else literal_start(name)).rstrip(os.sep) for name in names if name not in paths
    ]
    found: dict[str, str] = {}
    alone = []
    for path in paths:
        above = next((each for each in searched if path.startswith(f"{each}{os.sep}")), None)
        if path == STDIN:
            found[path] = "stdin"
        elif above is not None:
            found[path] = path[len(above) + 1 :]
        else:
            alone.append(path)
    times = Counter(PurePath(path).name for path in alone)
    if all(count == 1 for count in times.values()):
        return found | {path: PurePath(path).name for path in alone}
    common = os.path.commonpath([Path(path).absolute() for path in alone])
    return found | {path: os.path.relpath(path, common) for path in alone}


def trace_all(
    asked: TraceOptions, logs: Sequence[LogToTrace], tasks: TaskOptions
) -> Generator[TracedFile | KvtoolError]:
    """Yield the trace of each log, a task each; the error of one that cannot be read, or that nobody survives, is in its place.

    NotWrittenError ends it all: what is there by then is whole.
    """
    tasks = TaskOptions(1) if any(log.path == STDIN for log in logs) else tasks  # nobody else can read it
    found = tasks.task_map(pays=_pays(logs)).map(_Tracing(LogTracer(asked)), logs)
    try:
        for log, traced in zip(logs, found, strict=True):
            if isinstance(traced, Poisoned):
                why = f"{traced.tries} processes failed on it: {traced.why}"
                yield KvtoolError(why, hint="kvtool left it out and traced the others", place=Place(log.path))
            else:
                yield traced
    except NotWrittenError as error:
        raise KvtoolError(error.message, hint=_RESUME, exit_code=error.exit_code) from error
    finally:  # processes that were ended by signals left what they were at
        if isinstance(found, Generator):
            found.close()
        for folder in {Path(log.target).parent for log in logs}:
            remove_left_over(folder)


def are_alike(traces: Iterable[str]) -> bool:
    """Return whether traces can be read as one: they have blocks of one size and kind, and times by one clock."""
    found = [each for each in map(written_trace, traces) if each is not None]
    blocks = {(each.facts.block_size, each.facts.tokenizer is None) for each in found}
    return len(blocks) < 2 and len({each.arrival >= FIRST_DATE for each in found if each.arrival is not None}) < 2


def _pays(logs: Sequence[LogToTrace]) -> bool:
    size = 0
    for log in logs:
        with suppress(OSError, ValueError):  # for reading to tell
            size += Path(log.path).stat().st_size
    return len(logs) > 1 and size >= WORTH_IT


@dataclass(frozen=True, slots=True)
class _Tracing:
    """The work of each process on its logs: one that cannot be read is an answer, too."""

    tracer: LogTracer

    def __call__(self, log: LogToTrace) -> TracedFile | KvtoolError:
        try:
            return self.tracer(log)
        except NotWrittenError:
            raise
        except KvtoolError as error:
            return error
