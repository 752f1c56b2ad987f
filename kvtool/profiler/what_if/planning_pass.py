"""One reading of a workload for its blocks alone: no ledger, no advice, no engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol, Self

import numpy as np

from kvtool.accounting.plan import Plan
from kvtool.errors import KvtoolError, MessageRefusedError
from kvtool.fixes.fix import Fix, combined
from kvtool.profiler.left_out import hosted_left_out
from kvtool.profiler.opening import Opened
from kvtool.text.terminal.numbers import plural
from kvtool.text.terminal.progress import Progress
from kvtool.workload.block_trace import CLOCKS_APART, BlockCollector, BlockTrace
from kvtool.workload.drive import NO_ANSWER, first_turns, rewritten
from kvtool.workload.jobs import Job, JobMaker
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.turn import Conversation, Output, Source, Turn


def block_trace(
    opened: Opened, progress: Progress, *, block_size: int | None = None, fixes: Sequence[Fix] = ()
) -> tuple[BlockTrace, list[str]]:
    """Return the blocks of a workload's requests in the order in which they come, and what there is to say of it.

    Ids of a trace are taken as they are; `block_size` cuts tokens otherwise than the plan does, and `fixes` change the prompts
    first. KvtoolError where there is no request.
    """
    plan = opened.planned.plan
    source: Source = opened.source
    renderer = opened.renderer
    for fix in fixes:
        source = source if fix.source is None else fix.source(source)
        renderer = renderer if fix.renderer is None else fix.renderer(renderer)
    collector = BlockCollector(block_size or plan.engine.block_size)
    reading = BlockReading(collector, JobMaker(renderer, seed=plan.seed), plan)
    conversations = rewritten(source.conversations(), combined(fixes) if fixes else None)
    notes = read_requests(opened, reading, progress, conversations)
    return collector.trace(), notes


def read_requests(
    opened: Opened, reading: BlockReading, progress: Progress, conversations: Iterator[Conversation] | None = None
) -> list[str]:
    """Take all requests of a workload, or of its `conversations` as they were changed; what there is to say of those left out.

    KvtoolError where there is no request.
    """
    progress.stage("reading", None)
    if conversations is None:
        conversations = opened.source.conversations()
    for conversation in first_turns(conversations, opened.planned.plan.limit):
        answer: Output | None = None
        while (turn := conversation.next_turn(answer)) is not None:
            answer = reading.take(turn)
            progress.advance(1)
    if not reading.taken:
        raise KvtoolError(f"{opened.name}: no readable request", hint=reading.refusal or None)
    source = opened.source
    return [*reading.notes(), *(source.outcome.times if isinstance(source, LogSource) else ()), *opened.wrong_usage]


class Collector(Protocol):
    """A receiver of requests as blocks."""

    block_size: int

    def add_hashed(self, turn: Turn) -> None:
        """Add a request of which a trace gives the ids of its blocks."""
        ...

    def add(self, job: Job) -> None:
        """Add a request of tokens."""
        ...

    def leave_out(self, turn: Turn) -> None:
        """Leave out a request that its server did not take."""
        ...


class BlockReading:
    """Takes turns; requests that their server failed, or whose messages are refused, are left out and counted."""

    def __init__(self, collector: Collector, maker: JobMaker, plan: Plan) -> None:
        """Create the reading. The plan says which requests are left out."""
        self.collector = collector
        self.refusal = ""
        self.taken = 0
        """Requests that were handed on."""
        self._maker = maker
        self._plan = plan
        self._failed = 0
        self._refused = 0
        self._hosted = 0
        self._not_reading = 0
        """Requests that look nothing up, which blocks do not tell."""
        self._kinds: set[tuple[bool, bool]] = set()
        """Of the requests: whether a trace gives their blocks, and whether those of their answers, too."""

    @classmethod
    def of(cls, opened: Opened, collector: Collector) -> Self:
        """Read the workload as it is, without changes: the requests of all servers."""
        plan = replace(opened.planned.plan, leaves_hosted=False)
        return cls(collector, JobMaker(opened.renderer, seed=plan.seed), plan)

    def take(self, turn: Turn) -> Output:
        """Pass a request on; return its answer."""
        if turn.call.has_failed:
            self._failed += 1
            self.collector.leave_out(turn)
            return NO_ANSWER
        if self._plan.leaves_out(turn):
            self._hosted += 1
            self.collector.leave_out(turn)
            return NO_ANSWER
        self._kinds.add((turn.hashed is not None, turn.hashed is not None and turn.hashed.answer is not None))
        if len(self._kinds) > 1:
            both = "traces with their own block ids and traces made by kvtool"
            raise KvtoolError(
                f"{both} share no blocks"
                if all(kind[0] for kind in self._kinds)
                else "a trace of block ids and prompts with text share no blocks",
                hint="plan for them separately",
                place=turn.place,
            )
        if turn.hashed is not None:
            if turn.hashed.block_size != self.collector.block_size:
                raise KvtoolError(
                    f"blocks of {turn.hashed.block_size} tokens in a run with blocks of {self.collector.block_size}",
                    place=turn.place,
                )
            self.collector.add_hashed(turn)
            self.taken += 1
            return NO_ANSWER
        try:
            job = self._maker.make(turn)
        except MessageRefusedError as error:
            if not self._plan.skip_refused:
                raise
            self._refused += 1
            self.refusal = self.refusal or error.message
            return NO_ANSWER
        self._not_reading += job.request.skip_reading_cache
        job.request.outputs = list(job.request.output_ids or [])
        self.collector.add(job)
        self.taken += 1
        return job.output()

    def notes(self) -> list[str]:
        """Return what was left out."""
        found = hosted_left_out(self._hosted)
        if self._failed:
            found.append(f"{plural(self._failed, 'failed or refused request')} left out")
        if self._refused:
            found.append(f"{plural(self._refused, 'request')} left out: {self.refusal}")
        if self._not_reading:
            requests = plural(self._not_reading, "request")
            found.append(
                f"{requests} with `prompt_logprobs` or the like: kvtool lets them read the cache, but vLLM does not"
            )
        return found


def check_arrivals(trace: BlockTrace, what: str) -> None:
    """Raise KvtoolError where not all requests have a time, where time goes back, or where it is told by two clocks.

    `what` needs the times.
    """
    missing = np.flatnonzero(np.isnan(trace.arrivals))
    if len(missing):
        none = len(missing) == len(trace)
        which = "no request has one" if none else f"request {int(missing[0]) + 1} has none"
        raise KvtoolError(
            f"{what} needs arrival times, and {which}",
            hint="use a log with timestamps, or another axis: --sweep capacity",
            place=None if none else trace.untimed,
        )
    gaps = np.diff(trace.arrivals)
    strange = np.flatnonzero(np.abs(gaps) > CLOCKS_APART)
    if len(strange):
        at = int(strange[0])
        years = abs(float(gaps[at])) / CLOCKS_APART
        raise KvtoolError(
            f"requests {at + 1} and {at + 2} are {years:,.0f} years apart: their clocks differ",
            hint="plan for these logs separately, or write their times in one unit from one start",
            place=trace.leap,
        )
    back = np.flatnonzero(gaps < 0)
    if len(back):
        at = int(back[0])
        raise KvtoolError(
            f"request {at + 2} of the log arrives {-float(gaps[at]):,.3f} s before request {at + 1}",
            hint="sort the log by its arrival times",
        )
