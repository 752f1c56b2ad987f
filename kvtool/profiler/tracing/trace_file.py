"""One log becomes one block trace; nothing is shared with other logs, so that any process can do it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import xxhash

from kvtool.config.asked_run import RunOptions
from kvtool.errors import KvtoolError, Place
from kvtool.profiler.opening import Opened, open_workload
from kvtool.profiler.what_if.planning_pass import BlockReading
from kvtool.text.terminal.numbers import plural
from kvtool.text.tokens.tokenizer import Tokenizer, Tokenizers
from kvtool.text.tokens.tokenizer_files import TokenizerFiles
from kvtool.version import __version__
from kvtool.workload.block_files.block_file import BLOCKS, BlockFacts, BlockWriter, written_trace
from kvtool.workload.block_files.block_row import made_row, named_row, refused_row
from kvtool.workload.jobs import Job
from kvtool.workload.logs.files.spool import reads_once
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.logs.source_files import RecordNames
from kvtool.workload.turn import Output, Turn

_END = 1 << 16
"""Bytes of a log's head and tail that are looked at."""
_APART = 24
"""Bits of the number of a record in its file, below those that tell the file from others."""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Options for the trace of every log; `digest` distinguishes them from others."""

    options: RunOptions
    digest: str
    offline: bool = False


@dataclass(frozen=True, slots=True)
class LogToTrace:
    """A log, what it is called in short among those that are traced together, and where its trace goes."""

    path: str
    name: str
    target: str


@dataclass(frozen=True, slots=True)
class TracedFile:
    """A trace that is there; `kept`: it was before. `notes` say what of the log is not in it."""

    path: str
    target: str
    requests: int = 0
    blocks: int = 0
    kept: bool = False
    notes: tuple[str, ...] = ()


class LogTracer:
    """Traces logs of one kind, one at a time; what it has loaded for one serves the next. It can be sent to another process."""

    def __init__(self, asked: TraceOptions) -> None:
        self.asked = asked
        self._load = Tokenizers(offline=asked.offline)

    def __call__(self, log: LogToTrace) -> TracedFile:
        """Trace a log like `trace_file`."""
        return trace_file(self.asked, log, self._load)


def trace_file(asked: TraceOptions, log: LogToTrace, load: Callable[[str | None], Tokenizer]) -> TracedFile:
    """Write the trace of a log, or leave the one that is there where it is of the same log and options. `load` gives tokenizers.

    KvtoolError for a log that cannot be read, NotWrittenError for a trace that cannot be written; there is no half of a trace then.
    """
    digest = "" if reads_once(log.path) else source_print(log.path, asked.digest, log.name)
    there = written_trace(log.target) if digest else None
    if there is not None and there.facts.source == digest:
        return TracedFile(log.path, log.target, there.requests, there.facts.blocks, kept=True)
    options = asked.options
    source = LogSource(
        [log.path],
        LogOptions(
            on_bad_line=options.reading.on_bad_line,
            trace_block_size=options.tracing.trace_block_size,
            format=options.log_format,
            tenant=options.tenant,
        ),
        apart=RecordNames({log.path: log.name}, 1 + (file_number(log.name) << _APART)),
    )
    opened = open_workload(options, load, source=source)
    with BlockWriter(log.target) as writer:
        notes = _write(opened, source, writer)
        writer.close(_facts(opened, digest, writer.blocks))
    return TracedFile(log.path, log.target, writer.requests, writer.blocks, notes=tuple(notes))


def file_number(name: str) -> int:
    """Return a number that no other file of a fleet has, for ids that hold within one record only."""
    return xxhash.xxh3_64_intdigest(name.encode(errors="surrogatepass"))


def _write(opened: Opened, source: LogSource, writer: BlockWriter) -> list[str]:
    """Return all requests of a log; returns what there is to say of it."""
    rows = _Rows(opened.planned.plan.engine.block_size, writer)
    reading = BlockReading.of(opened, rows)
    for entry, conversation in source.calls():
        rows.begin(entry.identity, weak=entry.weak)
        answer: Output | None = None
        while (turn := conversation.next_turn(answer)) is not None:
            answer = reading.take(turn)
    notes = [*reading.notes(), *source.outcome.notes]
    if source.skipped:
        notes.append(f"{plural(source.skipped, 'bad record')} left out")
    return notes


class _Rows:
    """Makes rows of requests."""

    def __init__(self, block_size: int, writer: BlockWriter) -> None:
        self.block_size = block_size
        self._writer = writer
        self._identity: str | None = None
        self._weak = False
        self._index = 0

    def begin(self, identity: str | None, *, weak: bool) -> None:
        """Begin the next conversation."""
        self._identity, self._weak, self._index = identity, weak, 0

    def add_hashed(self, turn: Turn) -> None:
        self._writer.add(named_row(turn, self._next(), self._identity, weak=self._weak))

    def add(self, job: Job) -> None:
        self._writer.add(made_row(job, job.turn, self._next(), self.block_size, self._identity, weak=self._weak))

    def leave_out(self, turn: Turn) -> None:
        self._writer.add(refused_row(turn, self._next()))

    def _next(self) -> int:
        self._index += 1
        return self._index - 1


def _facts(opened: Opened, digest: str, blocks: int) -> BlockFacts:
    renderer = opened.renderer
    tokenizer = renderer.tokenizer if renderer.loaded("tokenizer") else None
    return BlockFacts(
        schema=BLOCKS,
        kvtool=__version__,
        block_size=opened.planned.plan.engine.block_size,
        source=digest,
        tokenizer=None if tokenizer is None else f"{tokenizer.name} {tokenizer.fingerprint}",
        chat_template=renderer.chat_template.name if renderer.loaded("chat_template") else None,
        blocks=blocks,
    )


def options_print(options: RunOptions, tokenizer: TokenizerFiles, template: str | None) -> str:
    """Return a digest of what makes requests and blocks of logs, whichever log it is."""
    said = {
        "kvtool": __version__,
        "tokenizer": tokenizer.digest,
        "template": template if template is not None else tokenizer.chat_template,
        "block_size": options.serving.block_size,
        "engine": None if options.fallback is None else options.fallback.block_size,
        "tracing": asdict(options.tracing),
        "seed": [options.reading.seed, options.fallback_seed],
        "reading": [options.log_format, options.tenant, options.reading.on_bad_line],
    }
    return xxhash.xxh3_128_hexdigest(json.dumps(said, sort_keys=True, default=str).encode())


def source_print(path: str, asked: str, name: str) -> str:
    """Return a digest of one log under these options: its size and time of change, its head and its tail. KvtoolError where it
    cannot be read.
    """
    digest = xxhash.xxh3_128(f"{asked}\0{name}\0".encode(errors="surrogatepass"))
    try:
        with Path(path).open("rb") as file:
            status = Path(path).stat()
            digest.update(f"{status.st_size}\0{status.st_mtime_ns}\0".encode())
            digest.update(file.read(_END))
            if status.st_size > _END:
                file.seek(max(status.st_size - _END, _END))
                digest.update(file.read(_END))
    except (OSError, ValueError) as error:
        raise KvtoolError(f"cannot read: {getattr(error, 'strerror', None) or error}", place=Place(path)) from error
    return digest.hexdigest()
