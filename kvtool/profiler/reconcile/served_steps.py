"""The steps of a server, as its KV events show them: what each stored and evicted, by the content of its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.hashing import NATIVE
from kvtool.engine.events import AllBlocksCleared, BlockStored, Event
from kvtool.measure.servers.kv_events.event_batches import ServedHash, StoredBlocks
from kvtool.profiler.reconcile.event_trace import EventTrace, named
from kvtool.profiler.reconcile.twin import Ask

StepEvents = tuple[tuple[str, tuple[BlockHash, ...]], ...]
CLEARED: StepEvents = (("cleared", ()),)


@dataclass(frozen=True, slots=True)
class TrackedRequest:
    """A request, when its client sent it and had its answer (None: not known), and the places of its first and its last own event
    (None: it has none)."""

    ask: Ask
    sent: float | None = None
    done: float | None = None
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class ServedSteps:
    """The events of each step of a server, by the content of its blocks, and when they were published.

    For each event of a trace there is the step that it is of, its session, and its blocks.
    """

    steps: list[StepEvents]
    moments: list[float]
    of_event: list[int]
    sessions: list[str | None]
    blocks: list[tuple[BlockHash, ...]]

    def stored_at_first(self, place: int) -> Iterator[BlockHash]:
        """Yield the blocks that a session stored in the step of its first event."""
        for later in range(place, len(self.of_event)):
            if self.of_event[later] != self.of_event[place]:
                break
            if self.sessions[later] == self.sessions[place]:
                yield from self.blocks[later]


def steps_of(trace: EventTrace) -> ServedSteps | None:
    """Return None where events are missing or tell no tokens."""
    if trace.breaks or not trace.began_empty:
        return None
    names = _names_of(trace)
    if names is None:
        return None
    steps: list[StepEvents] = []
    of_event: list[int] = []
    sessions: list[str | None] = []
    blocks: list[tuple[BlockHash, ...]] = []
    begin = 0
    cleared = set(trace.cleared)
    moments: list[float] = []
    for end, moment in zip(trace.ends, trace.moments, strict=True):
        found: list[tuple[str, tuple[BlockHash, ...]]] = []
        for place in range(begin, end):
            if place in cleared:
                if found:
                    steps.append(tuple(found))
                    found = []
                steps.append(CLEARED)
            event = trace.events[place]
            of_event.append(len(steps))
            if any(each not in names for each in event.block_hashes):
                return None
            made = tuple(names[each] for each in event.block_hashes)
            blocks.append(made)
            sessions.append(event.session_id if isinstance(event, StoredBlocks) else None)
            if isinstance(event, StoredBlocks):
                found.append((named("stored", event.group_idx), made))
            else:
                found += [(named("removed", event.group_idx), (each,)) for each in made]
        steps.append(tuple(found))
        moments += [moment] * (len(steps) - len(moments))
        begin = end
    return ServedSteps(steps, moments, of_event, sessions, blocks)


def _names_of(trace: EventTrace) -> dict[ServedHash, BlockHash] | None:
    """Return the names of all blocks by the server's hashes; None where one tells no tokens. Groups have the same hashes."""
    names: dict[ServedHash, BlockHash] = {}
    for event in trace.events:
        if isinstance(event, StoredBlocks) and trace.followed.takes(event):
            made = _named(event, names)
            if made is None:
                return None
            names.update(zip(event.block_hashes, made, strict=True))
    return names


def _named(event: StoredBlocks, names: Mapping[ServedHash, BlockHash]) -> tuple[BlockHash, ...] | None:
    parent = None if event.parent_block_hash is None else names.get(event.parent_block_hash)
    if event.token_ids is None or event.lora_name is not None or (parent is None) != (event.parent_block_hash is None):
        return None
    keys = [key for each in event.extra_keys or () for key in each or ()]
    if len(keys) > (parent is None) or not all(isinstance(key, str) for key in keys):
        return None
    tokens = np.asarray(event.token_ids, dtype=np.int32)
    return tuple(NATIVE.chain(tokens, event.block_size, parent, keys[0] if keys else None, None))


def clocks_of(served: ServedSteps, requests: Sequence[TrackedRequest]) -> tuple[float, float]:
    """Return what a server's clock is ahead of the clients' at least and at most: a request is sent before its first event, and
    answered after its last one.
    """
    moments = [served.moments[step] for step in served.of_event]
    least = max((moments[r.last] - r.done for r in requests if r.last is not None and r.done is not None), default=-inf)
    most = min((moments[r.first] - r.sent for r in requests if r.first is not None and r.sent is not None), default=inf)
    return (least, most) if least <= most else (-inf, inf)


def engine_events(events: Sequence[Event]) -> StepEvents:
    return tuple(
        (named("stored", each.group), each.block_hashes)
        if isinstance(each, BlockStored)
        else ("cleared", ())
        if isinstance(each, AllBlocksCleared)
        else (named("removed", each.group), (each.block_hash,))
        for each in events
    )


def is_part(events: StepEvents, whole: StepEvents) -> bool:
    """Return whether all of these events are among the others, in this order."""
    left = iter(whole)
    return all(each in left for each in events)
