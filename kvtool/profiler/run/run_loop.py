"""The loop of a run: each request goes to the server, and the result into the books."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kvtool.accounting.book import Book, overrides
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.accounting.ledger.totals import TokenTotals
from kvtool.accounting.servers.server import ServedRequest, Server
from kvtool.config.command_line import flags
from kvtool.engine.engine_error import EngineError
from kvtool.errors import KvtoolError, MessageRefusedError
from kvtool.profiler.run.freed_memory import give_back
from kvtool.profiler.run.ledger_writers import LedgerWriter
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.profiler.run.source_readers import Read
from kvtool.profiler.run.trace_run import TraceRun, trace_run
from kvtool.text.terminal.interrupts import Shield, uninterrupted
from kvtool.text.terminal.numbers import percent
from kvtool.workload.drive import NO_ANSWER, first_turns
from kvtool.workload.jobs import Job
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.turn import Conversation, Output, Source, Turn

_GIVEN_BACK = 500
"""Requests, after each of which freed memory is given back: a few milliseconds, for a third less memory."""


class RunLoop:
    """Take a workload's requests to a server, one run only."""

    def __init__(
        self, setup: RunSetup, server: Server, ledger: LedgerWriter, books: Sequence[Book], read: Read
    ) -> None:
        """Create the run. `books` are written in their order, the ledger before them when a request begins and after them when it
        ends."""
        self.plan = setup.plan
        self.maker = setup.maker
        self.server = server
        self.progress = setup.progress
        self.result = RunResult(ledger.ledger, ledger.causes, books)
        self._read = read
        self._source: Source | None = None
        self.ledger = ledger
        self._begin, self._end = overrides(books, "begin"), overrides(books, "end")
        self._leave_out = overrides(books, "leave_out")
        self._entries: dict[int, LedgerEntry] = {}
        self._shield = Shield()
        self._trace = trace_run(self.plan, self.maker.numbers, server, ledger, books)
        """Server of requests that are like most of a trace, as long as all are."""

    def run(self, source: Source) -> RunResult:
        """Run the source. Ctrl-C ends it early; the result is then marked partial."""
        self._source = source
        try:
            with self._shield.installed(), self._read(source) as conversations:
                if self._trace is not None:
                    self._take_trace(self._trace, first_turns(conversations, self.plan.limit))
                else:
                    self.server.drive(conversations, self)
        except KeyboardInterrupt:
            self.result.partial = True
            for entry in self._entries.values():
                self.result.ledger.drop(entry)
        with uninterrupted():
            self._flush()
        self.ledger.close()
        with uninterrupted():
            for book in self.result.books:
                book.close()
        counts, trace = self.server.counts(), self._trace
        if trace is not None:
            queries, hits = counts.queries + trace.queries, counts.hit_queries + trace.hit_queries
            counts = replace(counts, queries=queries, hit_queries=hits)
        self.result.counts = counts
        return self.result

    @property
    def lateness(self) -> float | None:
        """Return by how many seconds requests of the source may come after later ones; None where nobody knows."""
        return self._source.lateness if isinstance(self._source, LogSource) else None

    def rate_so_far(self) -> str:
        """Return the hit rate so far, for the line of progress."""
        self._flush()
        return f"{percent(TokenTotals.of(self.result.ledger.totals()).hit_rate)} hit"

    def _take_trace(self, trace: TraceRun, conversations: Iterator[Conversation]) -> None:
        """Take many requests at a time until one comes that has more to it, and one at a time from there."""
        batches = True
        for conversation in conversations:
            previous: Output | None = None
            while (turn := conversation.next_turn(previous)) is not None:
                previous = NO_ANSWER
                if batches:
                    with self._shield:
                        taken = trace.take(turn)
                    if taken:
                        self.maker.made += 1
                        self.progress.advance(1)
                        continue
                job = self.begin(turn)
                if job is not None:
                    batches = False  # batches between such requests would be small
                    self.end(job, trace.serve(job, self.entry(job)))
                    previous = job.output()

    def _flush(self) -> None:
        """Enter the results of a batch in the books."""
        if self._trace is not None:
            self._trace.flush()

    def begin(self, turn: Turn) -> Job | None:
        """Make a request of a turn and enter it in the books; None where it is left out."""
        left_out = self.result.left_out
        status = turn.call.status
        if status is not None and turn.call.has_failed:
            left_out.failed[status] = left_out.failed.get(status, 0) + 1
            return None
        try:
            job = self.maker.make(turn)
        except MessageRefusedError as error:
            if not self.plan.skip_refused:
                raise
            left_out.refuse(f"{error.place}: {error.message}" if error.place else error.message)
            return None
        if self.maker.made % _GIVEN_BACK == 0:  # where each number comes once, however many requests are in work
            give_back()
        if job.is_trace and job.unit != self.plan.engine.block_size:
            raise KvtoolError(
                f"a trace with blocks of {job.unit} tokens in a run with blocks of {self.plan.engine.block_size}",
                hint=" ".join(flags(block_size=job.unit)),
                place=turn.place,
            )
        if not self.server.predicts(job) or self.plan.leaves_out(turn):
            left_out.leave_out(turn)
            for leave_out in self._leave_out:
                leave_out(job)
            return None
        try:
            self.server.admit(job)
        except EngineError as error:  # it would never run
            left_out.refuse(error.message)
            self.maker.take_back()
            return None
        with self._shield:
            self._flush()
            entry = self.ledger.begin(job)
            if entry is not None:
                self._entries[id(job)] = entry
            for begin in self._begin:
                begin(job, entry)
        return job

    def entry(self, job: Job) -> LedgerEntry | None:
        """Return the ledger's entry of a request that has begun; None where the ledger only counts."""
        return self._entries.get(id(job))

    def end(self, job: Job, served: ServedRequest) -> None:
        """Enter a request that is done in the books."""
        with self._shield:
            entry = self._entries.pop(id(job), None)
            for end in self._end:
                end(job, entry, served)
            self.ledger.end(job, entry, served)
        self.progress.advance(1)
