"""Compare requests of a run with the KV events of a server that ran them: reuse of each request, and losses to evictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from kvtool.accounting.book import Book
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.server import ServedRequest
from kvtool.errors import KvtoolError
from kvtool.measure.servers.kv_events.event_batches import EventBatch, StoredBlocks, read_event_file
from kvtool.measure.servers.kv_events.event_reuse import AnsweredPrompt, EventReuse, reuse_from_events
from kvtool.measure.servers.kv_events.event_sums import EventCounter, EventSums
from kvtool.results.documents.watched import LosingSession
from kvtool.results.event_reads import EventRead, EventReads
from kvtool.text.terminal.numbers import plural
from kvtool.workload.jobs import Job

_MOST = 20
"""Requests and sessions that are named."""


@dataclass(slots=True)
class _Sent:
    prompt: AnsweredPrompt
    id: str
    group: str
    session: str
    whole: bool
    predicted: int = 0


class EventComparison(Book):
    """Take the requests of a run in the order of sending; `told` then returns the file's facts about them."""

    takes_batches = False

    def __init__(self, path: str) -> None:
        """Read the file; KvtoolError, with its place, if it contains no KV events."""
        self.path = path
        self._running: dict[int, _Sent] = {}
        """Running requests by the identity of their jobs."""
        self._ended: list[_Sent] = []
        self._first: EventBatch | None = None
        self._block_size: int | None = None
        self._tokenless = 0
        self._sessions: set[str] = set()
        """Sessions that the server names."""
        if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
            raise KvtoolError(
                f"{path} is not a file, and kvtool reads KV events twice", hint="write them to a file first"
            )
        for batch in read_event_file(path):
            self._first = self._first or batch
            for event in batch.events:
                if isinstance(event, StoredBlocks):
                    self._block_size = self._block_size or event.block_size
                    self._tokenless += event.token_ids is None
                    if event.session_id is not None:
                        self._sessions.add(event.session_id)
        if self._first is None:
            raise KvtoolError(f"{path} contains no KV events", hint="kvtool replay --record writes such files")

    def begin(self, job: Job, _entry: LedgerEntry | None) -> None:
        turn, call = job.turn, job.turn.call
        number = str(len(self._running) + len(self._ended))
        sent = None if turn.epoch is None or turn.arrival is None else turn.epoch + turn.arrival
        keys = [] if turn.salt is None else [(turn.salt,)]
        tokens = [] if job.is_trace else job.ids.tolist()
        session = turn.session if turn.session in self._sessions else None
        done = None if sent is None else call.end
        asked = AnsweredPrompt(number, tokens, session_id=session, keys=keys, sent=sent, done=done)
        name = job.request.id
        self._running[id(job)] = _Sent(asked, name, turn.group, turn.session or name, not job.is_trace)

    def end(self, job: Job, _entry: LedgerEntry | None, served: ServedRequest) -> None:
        found = self._running.pop(id(job))
        found.prompt = replace(found.prompt, outputs=job.request.outputs if found.whole else ())
        found.predicted = served.hit
        self._ended.append(found)

    def told(self, plan: Plan, *, per_request: bool) -> EventReads:
        """Return the file's facts, compared with a run by this plan."""
        ran = sorted(self._ended, key=lambda one: int(one.prompt.id))
        found = reuse_from_events(read_event_file(self.path), [one.prompt for one in ran if one.whole])
        sums = self._sums(found, ran)
        guessed = {name for name, seen in found.requests.items() if seen.guessed}
        unsure = set() if plan.one_at_a_time else guessed
        rows = [_row(one, found, unsure=one.prompt.id in unsure) for one in ran]
        known = [row for row in rows if row.reused_tokens is not None]
        differ = [row for row in known if row.reused_tokens != row.predicted_tokens]
        age = sums.age
        return EventReads(
            source=self.path,
            block_size=self._block_size,
            requests_known=len(known),
            requests_agree=len(known) - len(differ),
            requests_unknown=len(rows) - len(known),
            predicted_tokens=sum(row.predicted_tokens for row in known),
            reused_tokens=sum(row.reused_tokens or 0 for row in known),
            differ=differ[:_MOST],
            requests=rows if per_request else None,
            batches=sums.batches,
            stored_blocks=sums.stored,
            evicted_blocks=sums.evicted,
            stored_again_blocks=sums.stored_again,
            lost_tokens=sums.lost_tokens,
            age_p50_s=None if age is None else age.p50,
            age_p90_s=None if age is None else age.p90,
            sessions=[LosingSession(session=name, lost_tokens=tokens) for name, tokens in sums.losers[:_MOST]],
            foreign_tokens=found.foreign_tokens,
            cleared=sums.cleared,
            notes=[
                *self._notes(found, sums, plan.engine.block_size, traced=sum(not one.whole for one in ran)),
                *_guess_notes(len(guessed), alone=plan.one_at_a_time),
            ],
        )

    def _sums(self, found: EventReuse, ran: list[_Sent]) -> EventSums:
        """Return over all batches each event with the session of its request."""
        names = {place: one.session for one in ran if one.whole for place in found.requests[one.prompt.id].stored}
        counter = EventCounter()
        for number, batch in enumerate(read_event_file(self.path)):
            events = tuple(
                msgspec.structs.replace(event, session_id=names[number, index])
                if isinstance(event, StoredBlocks) and event.session_id is None and (number, index) in names
                else event
                for index, event in enumerate(batch.events)
            )
            counter.add(replace(batch, events=events))
        return counter.sums()

    def _notes(self, found: EventReuse, sums: EventSums, block_size: int, *, traced: int) -> Iterator[str]:
        theirs = self._block_size
        if theirs is not None and theirs != block_size:
            yield f"the events have blocks of {theirs:,} tokens, this run has {block_size:,}: set --block-size {theirs}"
        if self._tokenless:
            yield f"{plural(self._tokenless, 'event')} without token ids: their requests are unknown"
        if traced:
            yield f"{plural(traced, 'request')} of a trace without tokens: kvtool cannot find their events"
        if self._first is not None and self._first.seq and not sums.cleared and not sums.restarts:
            yield "the events begin mid-run: the earlier cache contents are unknown, so reuse is unknown too"
        if found.breaks:
            more = f", and {plural(len(found.breaks) - 1, 'break')} more" if len(found.breaks) > 1 else ""
            yield f"{found.breaks[0]}{more}: reuse is unknown from there until the cache is cleared"
        if sums.problems:
            yield f"{plural(sums.problems, 'event')} could not be read; the last: {sums.last_problem}"
        if found.contradictions:
            yield f"{plural(found.contradictions, 'block')} removed without being stored: events are missing"
        if found.groups > 1:
            yield f"{found.groups} groups of layers with separate caches: kvtool shows the reuse of full attention"
        if found.foreign_tokens:
            yield (
                f"{found.foreign_tokens:,} stored tokens belong to other requests: other traffic, other tokens, or"
                " blocks after missing ones"
            )


def _guess_notes(guessed: int, *, alone: bool) -> Iterator[str]:
    """Describe requests that begin alike, if neither names of sessions nor times show which one stored a block."""
    if not guessed:
        return
    which = f"{plural(guessed, 'request')} without an event id or a distinct time"
    if alone:
        yield f"{which}: kvtool matched similar requests by their order"
    else:
        yield f"{which}: similar requests ran at the same time, so their events are unknown"


def _row(one: _Sent, found: EventReuse, *, unsure: bool) -> EventRead:
    seen = None if unsure else found.requests.get(one.prompt.id)
    return EventRead(
        id=one.id,
        group=one.group,
        predicted_tokens=one.predicted,
        reused_tokens=None if seen is None else seen.reused,
        how="unknown" if seen is None else seen.how,
    )
