"""A folder of block traces, one for each log: what is there already is kept, and one bad log hides no other."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from kvtool.config.asked_run import RunOptions
from kvtool.errors import KvtoolError, Place
from kvtool.profiler.tracing.log_print import options_print
from kvtool.profiler.tracing.trace_file import LogToTrace, LogTracer, TraceAsked, TracedFile
from kvtool.text.files.file_patterns import literal_start
from kvtool.text.templates.chat import template_text
from kvtool.text.terminal.streams import STDIN
from kvtool.text.tokens.tokenizer_files import find_tokenizer
from kvtool.workload.block_files.block_file import SUFFIX, NotWrittenError
from kvtool.workload.logs.input_files import find_inputs, is_folder
from kvtool.workload.logs.session_names import session_names

_WORKLOADS = (".yaml", ".yml")


def trace_asked(options: RunOptions, *, offline: bool) -> TraceAsked:
    """What is to be made of each log; NotAvailableError for a tokenizer that cannot be had."""
    engine = options.fallback
    rendering = options.rendering
    tokenizer = rendering.tokenizer or (None if engine is None else engine.tokenizer)
    template = rendering.chat_template or (None if engine is None else engine.chat_template)
    files = find_tokenizer(tokenizer, offline=offline)
    return TraceAsked(
        options, options_print(options, files, None if template is None else template_text(template)), offline
    )


def logs_to_trace(names: Sequence[str], folder: str, *, log_format: str | None = None) -> list[LogToTrace]:
    """The logs that the names stand for, each with the place of its trace below the folder: named as the log below its own folder.

    What lies below `folder` is no log. KvtoolError where two would have one trace, and for workload files.
    """
    for name in names:
        if name.lower().endswith(_WORKLOADS):
            raise KvtoolError(
                f"{name} is a workload file, no log", hint="kvtool what-if reads it as it is; it needs no trace"
            )
    inside = os.path.realpath(folder) + os.sep
    paths = [
        path
        for path in find_inputs(names, log_format=log_format).paths
        if path == STDIN or not os.path.realpath(path).startswith(inside)
    ]
    if not paths:
        raise KvtoolError("there is no log in it but the traces themselves", place=Place(names[0]))
    below = _below(paths, names)
    short = session_names(paths)
    logs = [LogToTrace(path, short[path], str(Path(folder) / f"{below[path]}{SUFFIX}")) for path in paths]
    taken: dict[str, str] = {}
    for log in logs:
        if (other := taken.setdefault(log.target, log.path)) != log.path:
            raise KvtoolError(
                f"{other} and {log.path} would both be {log.target}", hint="trace them into two folders, one each"
            )
    return logs


def _below(paths: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """By path, where a trace lies in its folder."""
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


def trace_all(asked: TraceAsked, logs: Sequence[LogToTrace]) -> Iterator[TracedFile | KvtoolError]:
    """Trace one log after the other; the error of one that cannot be read stands in its place. NotWrittenError ends it all."""
    tracer = LogTracer(asked)
    for log in logs:
        try:
            yield tracer(log)
        except NotWrittenError as error:
            raise KvtoolError(error.message, hint="what is there is whole; the same command goes on from it") from error
        except KvtoolError as error:
            yield error
