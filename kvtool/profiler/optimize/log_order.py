"""A log of independent requests in the order in which a small cache reuses most: measured, and written line by line."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO

from kvtool.config.command_line import flags
from kvtool.config.options.run_options import Reading
from kvtool.errors import KvtoolError
from kvtool.fixes.fix import Fix
from kvtool.fixes.orders.request_order import ReorderedSource, request_order_fix
from kvtool.profiler.advice.trials import total_rate
from kvtool.profiler.opening import Opened
from kvtool.profiler.profiler import Profiler, ReportOptions
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.samples import SampleBook
from kvtool.results.documents.parts import BeforeAfter
from kvtool.text.files.atomic_file import AtomicFile, as_private_as
from kvtool.text.files.compressed import compressed, is_plain, open_bytes
from kvtool.text.terminal.numbers import plural
from kvtool.text.terminal.progress import Progress
from kvtool.text.terminal.streams import STDIN
from kvtool.workload.logs.files.input_files import find_inputs
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.logs.logs import LogSource

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class LogOrder:
    """The order that wins: hit rates of all requests in the log's own order and in this one, which names places in the log."""

    fix: Fix
    hit_rate: BeforeAfter
    order: Sequence[int]


def request_order(opened: Opened, progress: Progress, result: RunResult) -> LogOrder | None:
    """Return the order of a log's requests, run again; None where nobody may change it, or where it wins nothing.

    That is so for sessions, for arrival times, for more than one log, and for a cache without limit, which forgets nothing.
    Raises TrialInterruptedError.
    """
    plan, source = opened.planned.plan, opened.source
    names = [group.name for group in result.ledger.totals()]
    one_log = isinstance(source, LogSource) and len(source.files.paths) == 1
    if not one_log or plan.engine.num_blocks is None or plan.use_arrivals:
        return None
    fix = request_order_fix([turn for name in names for turn in result.book(SampleBook).of_group(name)])
    if fix is None or fix.source is None:
        return None
    other = fix.source(source)
    if not isinstance(other, ReorderedSource):
        return None
    profiler = Profiler(
        other, opened.renderer, plan, ReportOptions(), progress=progress, locate=locate, path=opened.name
    )
    rates = BeforeAfter(before=total_rate(result), after=total_rate(profiler.explained()))
    return LogOrder(fix, rates, other.order) if rates.after > rates.before else None


def check_log(inputs: Sequence[str], output: str) -> None:
    """Raise KvtoolError where what is on the command line cannot be written in another order."""
    if len(inputs) != 1:
        raise KvtoolError("-o reorders a single log", hint="give one INPUT")
    path = inputs[0]
    if len(found := find_inputs([path]).paths) != 1 or found[0] != path:
        raise KvtoolError(f"-o reorders a single log, and {path} is not the name of a file", hint="give one file")
    if path == STDIN:
        raise KvtoolError("-o needs a log that is a file, not standard input")
    if output == STDIN:
        raise KvtoolError("-o needs a file: standard output has the report")
    if os.path.realpath(path) == os.path.realpath(output) or _same_file(path, output):
        raise KvtoolError(f"-o {output} is the log itself", hint="give a file of its own")
    AtomicFile(output).discard()  # what cannot be written is said before any work is done


def _same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)  # noqa: PTH121 - two names from the command line
    except OSError:
        return False


def write_in_order(path: str, order: Sequence[int], output: str, reading: Reading) -> None:
    """Write the lines of a JSON lines log, each as it is to the byte, in another order, compressed as the name says; blank lines
    are left out. A new file is as private as the log. `reading`: the options by which the log was read.

    KvtoolError where lines and requests are not one to one.
    """
    try:
        with Path(path).open("rb") as log, TemporaryFile() as unpacked:
            file: IO[bytes] = log
            if _is_compressed(path):
                copyfileobj(open_bytes(path), unpacked)
                file = unpacked
                file.seek(0)
            starts = _starts(file)
            if len(starts) != len(order):
                raise KvtoolError(
                    f"{path}: -o needs one request per line, not {plural(len(order), 'request')} on "
                    f"{plural(len(starts), 'line')}",
                    hint=_hint_of(reading),
                )
            with AtomicFile(output, mode=as_private_as([path])) as target:
                for chunk in compressed(_in_order(file, starts, order), output):
                    target.write(chunk)
    except OSError as error:
        raise KvtoolError(f"cannot read {path}: {error.strerror or error}") from error


def _hint_of(reading: Reading) -> str:
    """Return what makes lines and requests one to one: to omit the options that leave some out, else one request on each line."""
    skips = "skip" if reading.on_bad_line == "skip" else None
    used = flags(requests=reading.requests, on_bad_line=skips, groups=reading.groups)
    return f"omit {' '.join(used)}" if used else "write each request on a line of its own first"


def _starts(file: IO[bytes]) -> array[int]:
    """Return where each line that is not blank begins."""
    starts: array[int] = array("q")
    at = 0
    for line in file:
        if line.removeprefix(_BOM if not at else b"").strip():
            starts.append(at)
        at += len(line)
    return starts


def _is_compressed(path: str) -> bool:
    with open_bytes(path) as reader:
        return not is_plain(reader)


def _in_order(file: IO[bytes], starts: Sequence[int], order: Sequence[int]) -> Iterator[bytes]:
    file.seek(0)
    marked = file.read(len(_BOM)) == _BOM
    if marked:
        yield _BOM
    for place in order:
        file.seek(starts[place])
        line = file.readline()
        if marked and not starts[place]:
            line = line.removeprefix(_BOM)
        yield line if line.endswith(b"\n") else line + b"\n"
