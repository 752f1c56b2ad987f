"""Anonymised traces that benchmarks replay: times, lengths and ids of blocks that count from 0; no text, no salts, no names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import orjson
import xxhash

from kvtool.config.asked_run import RunOptions
from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.hashing import NATIVE
from kvtool.errors import KvtoolError
from kvtool.profiler.opening import Opened, open_workload
from kvtool.profiler.what_if.planning_pass import BlockReading
from kvtool.results.choices import TraceFormat
from kvtool.text.files.atomic_file import AtomicFile
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.block_trace import CLOCKS_APART
from kvtool.workload.jobs import Job
from kvtool.workload.logs import TRACE_BLOCK
from kvtool.workload.logs.files.input_files import find_inputs
from kvtool.workload.logs.formats.token_traces import BAILIAN_BLOCK
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.turn import Output, Turn

Name = BlockHash | bytes | int | tuple[int, int]
"""What a block is called before it has a number: a hash, an id, or where it stands, for one that nobody else can have."""
_ROOT = -1


@dataclass(frozen=True, slots=True)
class ReplayTrace:
    """A trace that was written; `blocks` counts different ones. `failed` are logs that are not in it, as was asked for."""

    path: str
    format: TraceFormat
    block_size: int
    requests: int
    blocks: int
    notes: tuple[str, ...]
    failed: Mapping[str, KvtoolError]


def write_replay(
    options: RunOptions,
    load: Callable[[str | None], Tokenizer],
    path: str,
    format_: TraceFormat,
    progress: Progress,
) -> ReplayTrace:
    """Return all logs as one trace, in the order of arrival. KvtoolError where requests have no times, or blocks do not fit."""
    size = _block_size(options, format_)
    _check_no_input(path, options)
    skips = options.reading.on_bad_line == "skip"
    asked = replace(options, serving=replace(options.serving, block_size=None))
    opened = open_workload(asked, load, keep_going=skips)
    if not isinstance(opened.source, LogSource):
        raise KvtoolError(f"{opened.name} is a workload file, not a log", hint="its requests have no arrival times")
    with AtomicFile(path) as file:
        lines = _Lines(file, format_, size, opened.planned.plan.engine.block_size)
        reading = BlockReading.of(opened, lines)
        progress.stage("reading", None, opened.source.share_read)
        for _ in _turns(opened, reading):
            progress.advance(1)
        if not lines.requests:
            raise KvtoolError(f"{opened.name}: no readable request", hint=reading.refusal or None)
    source = opened.source
    outcome = source.outcome
    notes = (*reading.notes(), *(note for note in outcome.notes if note not in outcome.groups))
    return ReplayTrace(path, format_, size, lines.requests, lines.blocks, notes, outcome.failed)


def _check_no_input(path: str, options: RunOptions) -> None:
    """Raise KvtoolError where a log would be overwritten by its own trace."""
    real = os.path.realpath(path)
    if any(os.path.realpath(log) == real for log in find_inputs(options.inputs, log_format=options.log_format).paths):
        raise KvtoolError(f"--output {path} is an input, too", hint="give a file of its own")


def _turns(opened: Opened, reading: BlockReading) -> Iterator[None]:
    for conversation in opened.source.conversations():
        answer: Output | None = None
        while (turn := conversation.next_turn(answer)) is not None:
            answer = reading.take(turn)
            yield


def _block_size(options: RunOptions, format_: TraceFormat) -> int:
    given = options.serving.block_size
    if format_ == "mooncake":
        return given or TRACE_BLOCK
    if given not in (None, BAILIAN_BLOCK):
        raise KvtoolError(
            f"traces of qwen-bailian have blocks of {BAILIAN_BLOCK} tokens, not {given}", hint="leave --block-size out"
        )
    return BAILIAN_BLOCK


class _Lines:
    """Writes a line for each request."""

    def __init__(self, file: AtomicFile, format_: TraceFormat, size: int, block_size: int) -> None:
        """`block_size` is that of what is read, where that is a trace."""
        self.block_size = block_size
        self.requests = 0
        self._file = file
        self._size = size
        self._bailian = format_ == "bailian"
        self._numbers: dict[tuple[str, Name], int] = {}
        self._first: float | None = None
        self._last = 0.0
        self._before: float | None = None
        self._chats: dict[tuple[str, str], tuple[int, int]] = {}
        """By session, its last request and how many there were."""

    @property
    def blocks(self) -> int:
        """Count the different blocks."""
        return len(self._numbers)

    def add(self, job: Job) -> None:
        """Add a request of tokens: its last block has a name, full or not."""
        size, ids = self._size, job.ids
        full = len(ids) // size
        names = list[Name](NATIVE.chain(ids[: full * size], size, None, None, None) if full else [])
        if len(ids) % size:
            before = names[-1] if names else b""
            assert isinstance(before, bytes)
            names.append(xxhash.xxh3_128_digest(before + b"\0" + ids[full * size :].tobytes()))
        self._write(job.turn, names, len(ids), job.request.max_tokens)

    def add_hashed(self, turn: Turn) -> None:
        """Add a request of a trace; several of its blocks are one, which is called as the last of them."""
        prompt = turn.hashed
        assert prompt is not None
        times, rest = divmod(self._size, prompt.block_size)
        if rest:
            raise KvtoolError(
                f"blocks of {self._size} tokens do not fit a trace with blocks of {prompt.block_size}",
                hint="trace the logs themselves",
                place=turn.place,
            )
        ids, tokens = prompt.hash_ids, prompt.num_tokens
        count = -(-tokens // self._size)
        names: list[Name] = list(ids[times - 1 :: times][: tokens // self._size])
        if len(names) < count:  # the last block is not full
            named = len(ids) * prompt.block_size >= tokens
            names.append((len(names), ids[-1]) if named and len(ids) > times * len(names) else (_ROOT, self.requests))
        if times == 1 and len(ids) == count:
            names = list(ids)
        self._write(turn, names, tokens, turn.output_tokens or 1)

    def leave_out(self, turn: Turn) -> None:
        """Leave out a request that its server did not take."""

    def _write(self, turn: Turn, names: list[Name], tokens: int, answer: int) -> None:
        known, salt = self._numbers, turn.salt or ""
        ids = [known.setdefault((salt, name), len(known)) for name in names]
        lengths = {"input_length": tokens, "output_length": answer}
        seconds = self._seconds(turn)
        told: dict[str, object]
        if self._bailian:
            chat, parent, nth = self._chat(turn)
            told = {"chat_id": chat, "parent_chat_id": parent, "timestamp": round(seconds, 3), **lengths}
            told |= {"type": "text", "turn": nth, "hash_ids": ids}
        else:
            told = {"timestamp": round(1000 * seconds), **lengths, "hash_ids": ids}
        self._file.write(orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE))
        self.requests += 1

    def _seconds(self, turn: Turn) -> float:
        """Return the seconds from the first request on; one that does not say comes with the one before it."""
        if turn.arrival is None and self._first is None:
            raise KvtoolError(
                "a replay needs arrival times, and this request has none",
                hint="a block trace needs no times: omit --export",
                place=turn.place,
            )
        if turn.arrival is not None:
            if self._before is not None and abs(turn.arrival - self._before) > CLOCKS_APART:
                raise KvtoolError(
                    f"this request comes {abs(turn.arrival - self._before) / CLOCKS_APART:,.0f} years from the one before it: "
                    "their clocks differ",
                    hint="export these logs separately, or write their times in one unit from one start",
                    place=turn.place,
                )
            self._before = turn.arrival
            self._first = turn.arrival if self._first is None else self._first
            self._last = max(turn.arrival - self._first, 0.0)
        return self._last

    def _chat(self, turn: Turn) -> tuple[int, int, int]:
        """Return the number of a request, from 1, that of the one before in its session (-1: none), and which of its session it
        is.
        """
        own = self.requests + 1
        if turn.session is None:
            return own, -1, 1
        before, nth = self._chats.get((turn.salt or "", turn.session), (-1, 0))
        self._chats[turn.salt or "", turn.session] = own, nth + 1
        return own, before, nth + 1
