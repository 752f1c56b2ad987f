"""The engine led by a server's KV events: when each request came to the scheduler is what makes its steps store and evict the same.

A server publishes one batch of events for each step that has any. Between two of them the engine may take steps that store and
evict nothing. Before each step it is tried who came then: nobody, or those whose first events are in the next batch, and requests
that store nothing because all of their blocks are hit. A step whose events are not those of the next batch is taken back. Only the
moments of arrival are taken from the events: hits, evictions and preemptions are the engine's own.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from math import inf

import numpy as np

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.hashing import NATIVE
from kvtool.engine.clock import VirtualClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.events import AllBlocksCleared, BlockStored, Event
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.measure.servers.kv_events.event_batches import ServedHash, StoredBlocks
from kvtool.profiler.reconcile.event_trace import EventTrace, named
from kvtool.profiler.reconcile.twin import Ask, TwinRun, request_of

MOST_WORK = 3_000_000
"""Steps that are tried, each counted as the blocks that are copied to take it back."""
_MOST_QUIET = 3
"""So many requests that store nothing may come before one step."""
_MOST_SILENT = 4096
"""So many steps may follow each other that store and evict nothing."""
_STEP_COST = 500
StepEvents = tuple[tuple[str, tuple[BlockHash, ...]], ...]
_CLEARED: StepEvents = (("cleared", ()),)


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
class Followed:
    """The requests before each of the engine's steps; `emptied` are the steps before which the cache was reset."""

    arrivals: tuple[tuple[int, ...], ...]
    emptied: frozenset[int]

    def run(self, config: EngineConfig, latency: LatencyModel, asks: Mapping[int, Ask], *, events: bool) -> TwinRun:
        """Return the same steps again, with this configuration's hashes."""
        engine = Engine(config, DryRunner(), VirtualClock(latency), record_events=events)
        run = TwinRun()
        for number, came in enumerate(self.arrivals):
            if number in self.emptied:
                engine.scheduler.reset_prefix_cache()
            for each in came:
                _add(engine, asks[each])
            _take_in(run, engine.step())
            if events:
                run.events += engine.cache.take_events()
        run.evictions = engine.cache.num_evictions
        return run


@dataclass(frozen=True, slots=True)
class ServedSteps:
    """The events of each step of a server, by the content of its blocks, and when they were published.

    For each event of a trace there is the step that it is of.
    """

    steps: list[StepEvents]
    moments: list[float]
    of_event: list[int]


def steps_of(trace: EventTrace) -> ServedSteps | None:
    """Return None where events are missing or tell no tokens."""
    if trace.breaks or not trace.began_empty:
        return None
    names = _names_of(trace)
    if names is None:
        return None
    steps: list[StepEvents] = []
    of_event: list[int] = []
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
                steps.append(_CLEARED)
            event = trace.events[place]
            of_event.append(len(steps))
            if any(each not in names for each in event.block_hashes):
                return None
            made = tuple(names[each] for each in event.block_hashes)
            if isinstance(event, StoredBlocks):
                found.append((named("stored", event.group_idx), made))
            else:
                found += [(named("removed", event.group_idx), (each,)) for each in made]
        steps.append(tuple(found))
        moments += [moment] * (len(steps) - len(moments))
        begin = end
    return ServedSteps(steps, moments, of_event)


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


@dataclass(slots=True)
class _Point:
    """The engine after some steps; `at` is the step of the server that comes next, `silent` how many of its own had no events."""

    engine: Engine
    at: int = 0
    silent: int = 0
    came: frozenset[int] = frozenset()
    finished: frozenset[int] = frozenset()
    ahead: int = 0
    """So many of those that were answered first have finished."""
    arrivals: tuple[int, ...] = ()
    emptied: bool = False
    options: Iterator[tuple[int, ...]] | None = None


class StepFollower:
    """Looks for arrivals with which the engine does, step for step, what a server did."""

    def __init__(self, config: EngineConfig, served: ServedSteps, requests: Sequence[TrackedRequest]) -> None:
        steps = served.steps
        removes = any(kind.startswith("removed") for step in steps for kind, _ in step)
        self.config = replace(config, hash_algo="native", num_blocks=config.num_blocks if removes else None)
        self.steps = steps
        self.moments = served.moments
        self._clocks = _clocks(served, requests)
        self.requests = {each.ask.number: each for each in requests}
        self._first: dict[int, list[int]] = {}
        for place, number in sorted((each.first, each.ask.number) for each in requests if each.first is not None):
            self._first.setdefault(served.of_event[place], []).append(number)
        self._due_steps = sorted(self._first)
        answered = sorted((each.done, each.ask.number) for each in requests if each.done is not None)
        self._answered = [number for _, number in answered]
        self._dones = [moment for moment, _ in answered]
        self._rank = {number: at for at, number in enumerate(self._answered)}
        self._before = {
            number: 0 if each.sent is None else bisect_left(self._dones, each.sent)
            for number, each in self.requests.items()
        }
        """How many had their answers when this one was sent, so that they finished before it came."""
        self._prompts = {number: request_of(number, each.ask) for number, each in self.requests.items()}

    def follow(self) -> Followed | None:
        """Return None where no arrivals that were tried lead there: others used the server, or it goes by other rules."""
        clock = _StepClock()
        path = [_Point(Engine(self.config, DryRunner(), clock, record_events=True))]
        work = 0
        while path:
            point = path[-1]
            if point.at == len(self.steps):
                return self._ended(path)
            if point.options is None:
                point.options = self._options(point)
            for came in point.options:
                work += _STEP_COST + point.engine.cache.num_blocks
                if work > MOST_WORK:
                    return None
                following = self._step(point, came)
                if following is not None:
                    path.append(following)
                    break
            else:
                path.pop()
        return None

    def _options(self, point: _Point) -> Iterator[tuple[int, ...]]:
        """Yield the requests that may come before the next step, likeliest first; each in the order of first events."""
        if self.steps[point.at] == _CLEARED:
            yield ()
            return
        due = tuple(each for each in self._first.get(point.at, ()) if each not in point.came)
        able = all(self._may_come(point, each) for each in due)
        bases: list[tuple[int, ...]] = [due, ()] if due and able else [()]
        if able and self.config.async_scheduling and not point.engine.busy:  # two steps are published as one
            bases[1:1] = [due[:count] for count in range(len(due) - 1, 0, -1)]
        if pressing := self._pressing(point, due):
            yield from (self._by_answer(base, pressing) for base in bases)
        yield from bases
        part = self._next_due(point)
        if part is not None:
            yield from ((*base, part) for base in bases)
        quiet = [each for each in self.requests if each not in due and self._is_quiet(point, each)]
        for count in range(1, min(len(quiet), _MOST_QUIET) + 1):
            for extra in permutations(quiet, count):
                for base in bases:
                    for came in _merged(base, extra):
                        yield came
                        if part is not None and part not in extra:
                            yield (*came, part)

    def _pressing(self, point: _Point, due: tuple[int, ...]) -> list[int]:
        """Return the requests that store nothing and had their answers before the step after this one, likely from this one."""
        following = point.at + 1
        if following >= len(self.moments):
            return []
        answered = self._answered[point.ahead : bisect_left(self._dones, self.moments[following] - self._clocks[1])]
        return [each for each in answered if each not in due and self._is_quiet(point, each)]

    def _by_answer(self, base: tuple[int, ...], extra: Sequence[int]) -> tuple[int, ...]:
        """Return both together, each of `extra` before those that were answered later: a step answers in the order of admission."""
        made = list(base)
        for each in extra:
            later = (at for at, other in enumerate(made) if self._rank[other] > self._rank[each])
            made.insert(next(later, len(made)), each)
        return tuple(made)

    def _next_due(self, point: _Point) -> int | None:
        """Return whose first event comes next after this step: of it less than a block may be computed now, as the step is full."""
        later = next((step for step in self._due_steps if step > point.at), None)
        numbers = () if later is None else self._first[later]
        return next((each for each in numbers if self._may_come(point, each)), None)

    def _may_come(self, point: _Point, number: int) -> bool:
        sent = self.requests[number].sent
        early = sent is not None and sent + self._clocks[0] > self.moments[point.at]
        return not early and number not in point.came and self._before[number] <= point.ahead

    def _is_quiet(self, point: _Point, number: int) -> bool:
        """Return whether all full blocks of its prompt are there, so that it would store nothing when it is admitted."""
        if not self._may_come(point, number):
            return False
        request, size = self._prompts[number], self.config.block_size
        return point.engine.cache.look_up(request) == request.num_prompt_tokens // size * size

    def _step(self, point: _Point, came: tuple[int, ...]) -> _Point | None:
        """Return the engine one step on; None where that is not what the server did."""
        reset = self.steps[point.at] == _CLEARED
        if not came and not point.engine.busy and not reset:
            return None
        engine = self._copy(point.engine)
        if reset and not engine.busy:
            if not engine.scheduler.reset_prefix_cache():
                return None
            engine.cache.take_events()
            return _Point(engine, point.at + 1, 0, point.came, point.finished, point.ahead, emptied=True, arrivals=())
        for each in came:
            _add(engine, self.requests[each].ask)
        finished = point.finished | {int(request.id) for request in engine.step()}
        # Asynchronously a server publishes when it takes a step's tokens in, which the first one after a pause has not to.
        waits = self.config.async_scheduling and not point.engine.busy
        made = () if waits else _seen(engine.cache.take_events())
        if made and made != self.steps[point.at]:
            return None
        arrived = point.came | set(came)
        if made and any(each not in arrived for each in self._first.get(point.at, ())):
            return None
        if not made and point.silent == _MOST_SILENT:
            return None
        ahead = point.ahead
        while ahead < len(self._answered) and self._answered[ahead] in finished:
            ahead += 1
        # A step publishes its events before its answers: those that clients had before are of earlier steps.
        before = ahead if self.config.async_scheduling else point.ahead
        if made and bisect_left(self._dones, self.moments[point.at] - self._clocks[1]) > before:
            return None  # a client had an answer that is not finished here
        return _Point(
            engine, point.at + bool(made), 0 if made else point.silent + 1, arrived, finished, ahead, arrivals=came
        )

    def _copy(self, engine: Engine) -> Engine:
        """Copy the engine without what no step changes."""
        shared: list[object] = [engine.config, engine.clock, *(each.prompt_ids for each in self._prompts.values())]
        return copy.deepcopy(engine, {id(each): each for each in shared})

    def _ended(self, path: Sequence[_Point]) -> Followed:
        """Return the steps with what is left when the events are over, in the order of sending."""
        arrivals: list[tuple[int, ...]] = []
        emptied: set[int] = set()
        for point in path[1:]:
            if point.emptied:
                emptied.add(len(arrivals))
            else:
                arrivals.append(point.arrivals)
        last = path[-1]
        engine = self._copy(last.engine)
        left = tuple(each for each in self.requests if each not in last.came)
        for each in left:
            _add(engine, self.requests[each].ask)
        while engine.busy:
            engine.step()
            arrivals.append(left)
            left = ()
        return Followed(tuple(arrivals), frozenset(emptied))


class _StepClock:
    """Arrivals are found by steps, so there is no time."""

    def now(self) -> float:
        return 0.0

    def step_done(self, step: object) -> None:
        pass

    def wait_until(self, moment: float) -> None:
        pass


def _clocks(served: ServedSteps, requests: Sequence[TrackedRequest]) -> tuple[float, float]:
    """Return what a server's clock is ahead of the clients' at least and at most: a request is sent before its first event, and
    answered after its last one.
    """
    moments = [served.moments[step] for step in served.of_event]
    least = max((moments[r.last] - r.done for r in requests if r.last is not None and r.done is not None), default=-inf)
    most = min((moments[r.first] - r.sent for r in requests if r.first is not None and r.sent is not None), default=inf)
    return (least, most) if least <= most else (-inf, inf)


def _merged(base: tuple[int, ...], extra: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield every way to put two orders together that keeps both."""
    total = len(base) + len(extra)
    for places in combinations(range(total), len(extra)):
        ours, theirs = iter(extra), iter(base)
        yield tuple(next(ours) if place in places else next(theirs) for place in range(total))


def _add(engine: Engine, ask: Ask) -> None:
    request = request_of(ask.number, ask)
    request.arrival = engine.clock.now()
    engine.add(request)


def _take_in(run: TwinRun, finished: Sequence[Request]) -> None:
    for request in finished:
        number = int(request.id)
        run.cached[number] = max(request.num_cached_tokens, 0)
        if request.first_token_at is not None:
            run.ttft[number] = request.first_token_at - request.arrival


def _seen(events: Sequence[Event]) -> StepEvents:
    return tuple(
        (named("stored", each.group), each.block_hashes)
        if isinstance(each, BlockStored)
        else ("cleared", ())
        if isinstance(each, AllBlocksCleared)
        else (named("removed", each.group), (each.block_hash,))
        for each in events
    )
