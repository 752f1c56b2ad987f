"""One reading of a workload for its blocks alone: no ledger, no advice, no engine."""

from __future__ import annotations

from typing import Protocol

from kvtool.errors import KvtoolError, MessageRefusedError
from kvtool.profiler.opening import Opened
from kvtool.text.terminal.progress import Progress
from kvtool.workload.block_trace import BlockCollector, BlockTrace
from kvtool.workload.drive import NO_ANSWER, first_turns
from kvtool.workload.jobs import Job, JobMaker
from kvtool.workload.turn import Output, Turn


def block_trace(opened: Opened, progress: Progress) -> tuple[BlockTrace, list[str]]:
    """The blocks of a workload's requests in the order in which they come, and what there is to say of it.

    Ids of a trace are taken as they are. KvtoolError where there is no request.
    """
    plan = opened.planned.plan
    collector = BlockCollector(plan.engine.block_size)
    reading = BlockReading(opened, collector)
    progress.stage("reading", None)
    for conversation in first_turns(opened.source.conversations(), plan.limit):
        answer: Output | None = None
        while (turn := conversation.next_turn(answer)) is not None:
            answer = reading.take(turn)
            progress.advance(1)
    trace = collector.trace()
    if not len(trace):
        raise KvtoolError(f"{opened.name}: no request could be read", hint=reading.refusal or None)
    return trace, reading.notes()


class Collector(Protocol):
    """Who gets requests as blocks."""

    block_size: int

    def add_hashed(self, turn: Turn) -> None:
        """A request of which a trace gives the ids of its blocks."""
        ...

    def add(self, job: Job) -> None:
        """A request of tokens."""
        ...

    def leave_out(self, turn: Turn) -> None:
        """A request that its server did not take."""
        ...


class BlockReading:
    """Takes turns; requests that their server failed, or whose messages are refused, are left out and counted."""

    def __init__(self, opened: Opened, collector: Collector) -> None:
        self.collector = collector
        self.refusal = ""
        self._maker = JobMaker(opened.renderer, seed=opened.planned.plan.seed)
        self._skips = opened.planned.plan.skip_refused
        self._failed = 0
        self._refused = 0
        self._kinds: set[tuple[bool, bool]] = set()
        """Of the requests: whether a trace gives their blocks, and whether those of their answers, too."""

    def take(self, turn: Turn) -> Output:
        """Hand a request on; returns its answer."""
        status = turn.call.status
        if status is not None and status >= 400:
            self._failed += 1
            self.collector.leave_out(turn)
            return NO_ANSWER
        self._kinds.add((turn.hashed is not None, turn.hashed is not None and turn.hashed.answer is not None))
        if len(self._kinds) > 1:
            both = "traces that name their blocks themselves and those that kvtool made of tokens"
            raise KvtoolError(
                f"{both} share no blocks"
                if all(kind[0] for kind in self._kinds)
                else "a trace of block ids and prompts with text share no blocks",
                hint="plan for them apart",
                place=turn.place,
            )
        if turn.hashed is not None:
            if turn.hashed.block_size != self.collector.block_size:
                raise KvtoolError(
                    f"blocks of {turn.hashed.block_size} tokens in a run with blocks of {self.collector.block_size}",
                    place=turn.place,
                )
            self.collector.add_hashed(turn)
            return NO_ANSWER
        try:
            job = self._maker.make(turn)
        except MessageRefusedError as error:
            if not self._skips:
                raise
            self._refused += 1
            self.refusal = self.refusal or error.message
            return NO_ANSWER
        job.request.outputs = list(job.request.output_ids or [])
        self.collector.add(job)
        return job.output()

    def notes(self) -> list[str]:
        """What was left out."""
        found = []
        if self._failed:
            found.append(f"{self._failed:,} requests that their server refused or failed are left out")
        if self._refused:
            found.append(f"{self._refused:,} requests are left out: {self.refusal}")
        return found
