"""Compare the cache reads that the servers of a log reported with the embedded engine's, request by request."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kvtool.accounting.book import Book
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.accounting.ledger.traced_batch import TracedBatch
from kvtool.accounting.servers.server import ServedRequest
from kvtool.engine.clock import VirtualClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.engine_error import EngineError
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.engine.request import Ids, Request
from kvtool.engine.runner import DryRunner
from kvtool.engine.sequential import account
from kvtool.workload.jobs import Job
from kvtool.workload.logs.records.incomplete_prompts import NO_PROMPT

MOST_KEPT = 2_000_000
"""Tokens of requests that are kept to be run again with another cache, a bound on memory."""
MOST_LOOKED_AT = 256
"""Requests at the front of a log whose reads may say the size of its server's blocks."""
_WIDTH = 9
"""Numbers kept for each row."""


class ServerRead(NamedTuple):
    """A request of which both are known. `reported` of `prompt` tokens were read there; `hit` of `own` tokens are here, `reachable`
    with an unlimited cache, and `known` is all of its beginning that was sent before. `kept` is its number among all requests."""

    group: int
    reported: int
    prompt: int
    own: int
    hit: int
    reachable: int
    known: int
    kept: int
    cut: bool
    """True if the log lacks a part of its prompt."""
    arrival: float
    end: float

    def to_server_tokens(self, tokens: int) -> int:
        """Convert our tokens of this prompt to its server's."""
        return tokens if self.own == self.prompt or not self.own else min(tokens * self.prompt // self.own, self.prompt)


class _KeptRequest(NamedTuple):
    """A request that can be run again. `arrival` and `end` are seconds, NaN if the log has none.

    `reads`: it looks its prompt up.
    """

    id: str
    prompt: Ids
    output: array[int]
    salt: str | None
    reads: bool
    arrival: float
    end: float


class ServerReads:
    """Take every request that ran; those without a server's report are only kept to be run again."""

    def __init__(self, *, before: int = 0) -> None:
        """Create the reads. `before`: requests that ran before the first one that is entered."""
        self.before = before
        self.groups: dict[str, int] = {}
        self.models: dict[str, tuple[int, int]] = {}
        """Prompt tokens by model, as reported and as we count them."""
        self._numbers = array("q")
        self._times = array("d")
        self.kept: list[_KeptRequest] = []
        self._tokens = self._requests = 0
        self.complete = not before
        """True if all requests were kept."""

    def __len__(self) -> int:
        return len(self._numbers) // _WIDTH

    def add(self, job: Job, hit: int, reachable: int, known: int) -> bool:
        """Enter an ended request; return whether its server reported its reads."""
        turn, call = job.turn, job.turn.call
        began = float("nan") if turn.arrival is None else turn.arrival
        ended = float("nan") if call.end is None or turn.epoch is None else call.end - turn.epoch
        number = self._requests
        self._requests += 1
        self._keep(job, began, ended)
        usage = call.usage
        own = job.request.num_prompt_tokens
        prompt = own if usage is None or call.shares_usage else usage.prompt
        if usage is None or prompt is None or usage.cached is None or job.is_trace:
            return False
        group = self.groups.setdefault(turn.group, len(self.groups))
        cut = call.incomplete is not None or bool(call.uncounted)
        self._numbers.extend((group, usage.cached, prompt, own, hit, reachable, known, number, cut))
        self._times.extend((began, ended))
        if call.incomplete != NO_PROMPT:
            theirs, ours = self.models.get(call.model or "", (0, 0))
            self.models[call.model or ""] = theirs + prompt, ours + own
        return True

    def _keep(self, job: Job, began: float, ended: float) -> None:
        self._tokens += job.request.num_prompt_tokens
        if self._tokens > MOST_KEPT or job.is_trace:
            self.complete = False
        if self.complete:
            request, reads = job.request, not job.request.skip_reading_cache
            output = array("i", request.outputs)
            ids, salt = job.ids.astype(np.int32), request.cache_salt
            self.kept.append(_KeptRequest(request.id, ids, output, salt, reads, began, ended))

    def rows(self) -> Iterator[ServerRead]:
        """Return requests with both figures, in the order in which they ended."""
        numbers, times = self._numbers, self._times
        for at in range(len(self)):
            group, reported, prompt, own, hit, reachable, known, kept, cut = numbers[at * _WIDTH : (at + 1) * _WIDTH]
            began, ended = times[2 * at : 2 * at + 2]
            yield ServerRead(group, reported, prompt, own, hit, reachable, known, kept, bool(cut), began, ended)


class ServerReadBook(Book):
    """Compare servers' reported reads with the embedded engine's."""

    def __init__(self) -> None:
        self.reads: ServerReads | None = None
        """None until a server reported anything."""
        self._before = 0

    def end(self, job: Job, entry: LedgerEntry | None, served: ServedRequest) -> None:
        assert entry is not None
        if self.reads is None:
            usage = job.turn.call.usage
            if usage is None or usage.cached is None:
                self._before += 1
                return
            self.reads = ServerReads(before=self._before)
        self.reads.add(job, served.hit, entry.reachable, entry.known)

    def add_batch(self, batch: TracedBatch) -> None:
        self._before += len(batch)


def hits_with(kept: Sequence[_KeptRequest], config: EngineConfig, latency: LatencyModel) -> list[int]:
    """Return the hits of requests one at a time in an engine of this configuration; 0 for one that does not fit."""
    engine = Engine(config, DryRunner(), VirtualClock(latency))
    hits = []
    for number, one in enumerate(kept):
        request = Request(
            id=str(number),
            num_prompt_tokens=len(one.prompt),
            prompt_ids=one.prompt,
            output_ids=one.output.tolist() or [0],
            cache_salt=one.salt,
            skip_reading_cache=not one.reads,
        )
        try:
            account(engine.scheduler, request)
        except EngineError:
            hits.append(0)
            continue
        hits.append(request.num_cached_tokens)
    return hits
