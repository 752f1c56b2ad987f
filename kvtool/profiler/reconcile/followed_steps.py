"""The engine led by a server's KV events: when each request came to the scheduler is what makes its steps store and evict the same.

A server publishes one batch of events for each step that has any. Between two of them the engine may take steps that store and
evict nothing. Before each step it is tried who came then: nobody, or those whose first events are in the next batch, and requests
that store nothing because all of their blocks are hit. A step whose events are not those of the next batch is taken back, and one
after which the engine could not do what later batches show. Only the moments of arrival are taken from the events: hits, evictions
and preemptions are the engine's own.
"""

from __future__ import annotations

import pickle
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import combinations, count, pairwise, permutations
from math import inf, log2

from kvtool.engine.clock import VirtualClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.profiler.reconcile.later_events import LaterEvents
from kvtool.profiler.reconcile.served_steps import (
    CLEARED,
    ServedSteps,
    StepEvents,
    TrackedRequest,
    clocks_of,
    engine_events,
    is_part,
)
from kvtool.profiler.reconcile.twin import Ask, TwinRun, request_of

_LEAD = 1.0
"""A step further is worth so many doublings of the arrivals that are tried before one step."""
MOST_WORK = 20_000_000
"""Steps that are tried, each counted as the blocks that are copied to take it back."""
_MOST_SILENT = 4096
"""So many steps may follow each other that store and evict nothing."""
_STEP_COST = 500


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


@dataclass(slots=True)
class _Point:
    """The engine after some steps; `at` is the step of the server that comes next, `silent` how many of its own had no events."""

    saved: bytes
    """The engine: from bytes it is copied several times as fast as deeply, and they are small."""
    busy: bool = False
    awaits: bool = False
    at: int = 0
    silent: int = 0
    time: float = -inf
    """When the last step was published, about."""
    came: frozenset[int] = frozenset()
    finished: frozenset[int] = frozenset()
    ahead: int = 0
    """So many of those that were answered first have finished."""
    arrivals: tuple[int, ...] = ()
    emptied: bool = False
    options: Iterator[tuple[int, ...]] | None = None
    before: _Point | None = None
    depth: int = 0
    cost: float = 0.0
    tried: int = 0
    dead: bool = False

    def path(self) -> Iterator[_Point]:
        """Yield this point and those before it."""
        point: _Point | None = self
        while point is not None:
            yield point
            point = point.before

    def is_dead(self) -> bool:
        """Return whether requests that came before it lead nowhere."""
        return any(each.dead for each in self.path())

    def kill(self, conflict: frozenset[int]) -> None:
        """Give up all after the last of these requests came."""
        for each in self.path():
            each.dead = not conflict.isdisjoint(each.arrivals)
            if each.dead:
                break

    def copy(self) -> Engine:
        """Return the engine once more."""
        engine: Engine = pickle.loads(self.saved)  # noqa: S301 # its own bytes
        return engine


class StepFollower:
    """Looks for arrivals with which the engine does, step for step, what a server did."""

    def __init__(self, config: EngineConfig, served: ServedSteps, requests: Sequence[TrackedRequest]) -> None:
        steps = served.steps
        removes = any(kind.startswith("removed") for step in steps for kind, _ in step)
        self.config = replace(config, hash_algo="native", num_blocks=config.num_blocks if removes else None)
        self.steps = steps
        self.moments = served.moments
        self._clocks = clocks_of(served, requests)
        self.requests = {each.ask.number: each for each in requests}
        self._stored = [
            {each for kind, hashes in step if kind.startswith("stored") for each in hashes} for step in steps
        ]
        self._first: dict[int, list[int]] = {}
        for place, number in sorted((each.first, each.ask.number) for each in requests if each.first is not None):
            self._first.setdefault(served.of_event[place], []).append(number)
        self._due_steps = sorted(self._first)
        answered = sorted((each.done, each.ask.number) for each in requests if each.done is not None)
        self._answered = [number for _, number in answered]
        self._dones = [moment for moment, _ in answered]
        self._sent = {number: inf if each.sent is None else each.sent for number, each in self.requests.items()}
        gaps = sorted(later - one for one, later in pairwise(self.moments) if later > one)
        self._pace = gaps[len(gaps) // 4] if gaps else 0.0
        """About the time of a step."""
        self._before = {
            number: 0 if each.sent is None else bisect_left(self._dones, each.sent)
            for number, each in self.requests.items()
        }
        """How many had their answers when this one was sent, so that they finished before it came."""
        self._prompts = {number: request_of(number, each.ask) for number, each in self.requests.items()}
        self._seen: set[int] = set()
        self._later = LaterEvents(self.config, served, self.requests, self._prompts, self._clocks[0])

    def follow(self) -> Followed | None:
        """Return None where no arrivals that were tried lead there: others used the server, or it goes by other rules.

        The likeliest arrivals are tried first. The longer nothing leads on, the further back others are tried.
        """
        first = _Point(pickle.dumps(Engine(self.config, DryRunner(), _StepClock(), record_events=True)))
        order = count()
        queue = [(0.0, next(order), first)]
        work = 0
        while queue:
            _, _, point = heappop(queue)
            if point.at == len(self.steps):
                return self._ended(point)
            if point.is_dead():
                continue
            if point.options is None:
                point.options = self._options(point)
            came = next(point.options, None)
            if came is None:
                continue
            work += _STEP_COST + (self.config.num_blocks or 0)
            if work > MOST_WORK:
                return None
            point.tried += 1
            following = self._step(point, came)
            if isinstance(following, frozenset) and following.isdisjoint(came):
                point.kill(following)
                continue
            heappush(queue, (point.cost + log2(point.tried + 1) - _LEAD * point.depth, next(order), point))
            if isinstance(following, _Point):
                following.before, following.depth = point, point.depth + 1
                following.cost = point.cost + log2(point.tried)
                heappush(queue, (following.cost - _LEAD * following.depth, next(order), following))
        return None

    def _options(self, point: _Point) -> Iterator[tuple[int, ...]]:
        """Yield the requests that may come before the next step, likeliest first; each in the order of first events."""
        if self.steps[point.at] == CLEARED:
            yield ()
            return
        admitted = self._later.admitted
        engine = point.copy()
        room = (self.config.max_num_active_seqs or self.config.max_num_seqs) - len(engine.scheduler.running)
        bases = self._due(point, room)
        part = self._next_due(point)
        quiet = [each for each in self.requests if each not in admitted and self._is_quiet(point, engine, each)]
        del engine  # the generator lives long
        quiet.sort(key=self._sent.__getitem__)
        published = self.moments[point.at]
        next_step = min(point.time + self._pace, published)
        is_silent = point.busy and point.time + 1.5 * self._pace < published
        if is_silent:
            bases.reverse()
        ends = [published if base or not is_silent else next_step for base in bases]
        likely = [
            [each for each in quiet if self._sent[each] + self._clocks[1] <= end][: max(room - len(base), 0)]
            for base, end in zip(bases, ends, strict=True)
        ]
        for size in range(len(quiet) + 1):
            for others in combinations(quiet, size):
                for base, expected in zip(bases, likely, strict=True):
                    extra = [each for each in quiet if (each in expected) != (each in others)]
                    if len(base) + len(extra) <= room:
                        yield from _with_part(self._in_order(base, extra), part)
        for size in range(1, min(len(quiet), room) + 1):
            for order in permutations(quiet, size):
                for base in bases:
                    for came in _merged(base, order):
                        yield from _with_part(came, part)

    def _due(self, point: _Point, room: int) -> list[tuple[int, ...]]:
        """Return which of the requests whose first event comes next may come now: all or none, or neither where no step fits."""
        first, admitted = self._first.get(point.at, ()), self._later.admitted
        due = tuple(each for each in first if each not in point.came and each in admitted)
        able = len(due) <= room and all(self._may_come(point, each) for each in due)
        if self.config.async_scheduling and not point.awaits:  # two steps are published as one
            return [due[:size] for size in range(len(due), -1, -1)] if able else [()]
        engine = point.copy()
        engine.step()
        alone = engine_events(engine.cache.take_events())
        if not alone:
            return [due, ()] if able and due else [()]
        # Those that run have these events whoever comes, so this step is the one that comes next.
        return [due] if able and is_part(alone, self.steps[point.at]) else []

    def _in_order(self, base: tuple[int, ...], extra: Sequence[int]) -> tuple[int, ...]:
        """Return both together, each of `extra` before the first that was sent later."""
        made = list(base)
        for each in extra:
            later = (at for at, other in enumerate(made) if self._sent[other] > self._sent[each])
            made.insert(next(later, len(made)), each)
        return tuple(made)

    def _next_due(self, point: _Point) -> int | None:
        """Return whose first event comes next after this step: of it less than a block may be computed now, as the step is full."""
        later = next((step for step in self._due_steps if step > point.at), None)
        numbers = () if later is None else self._first[later]
        return next((each for each in numbers if each in self._later.admitted and self._may_come(point, each)), None)

    def _may_come(self, point: _Point, number: int) -> bool:
        sent = self.requests[number].sent
        early = sent is not None and sent + self._clocks[0] > self.moments[point.at]
        return not early and number not in point.came and self._before[number] <= point.ahead

    def _is_quiet(self, point: _Point, engine: Engine, number: int) -> bool:
        """Return whether all full blocks of its prompt are there or stored by this step, so that it stores nothing itself."""
        if not self._may_come(point, number):
            return False
        request, size = self._prompts[number], self.config.block_size
        found = engine.cache.look_up(request) // size
        return all(each in self._stored[point.at] for each in request.block_hashes[found:])

    def _step(self, point: _Point, came: tuple[int, ...]) -> _Point | frozenset[int] | None:
        """Return the engine one step on; None where that is not what the server did, or the requests that show later that it is
        not.
        """
        reset = self.steps[point.at] == CLEARED
        if not came and not point.busy and not reset:
            return None
        engine = point.copy()
        if reset and not engine.busy:
            if not engine.scheduler.reset_prefix_cache():
                return None
            engine.cache.take_events()
            made_empty = (point.at + 1, 0, point.time, point.came, point.finished, point.ahead, (), True)
            return _Point(pickle.dumps(engine), False, engine.awaits, *made_empty)
        for each in came:
            _add(engine, self.requests[each].ask)
        ended = engine.step()
        finished = point.finished | {int(request.id) for request in ended}
        # Asynchronously a server publishes when it takes a step's tokens in, which the first one after a pause has not to.
        waits = self.config.async_scheduling and not point.awaits
        made = () if waits else engine_events(engine.cache.take_events())
        arrived = point.came.union(came)
        at = point.at + bool(made)
        if not self._agrees(point, engine, came, ended, made):
            return None
        if not waits and self._later.too_early(engine.scheduler, at, arrived):
            return None
        if not waits and (conflict := self._later.conflict(engine.scheduler, at, arrived)) is not None:
            return conflict
        ahead = point.ahead
        while ahead < len(self._answered) and self._answered[ahead] in finished:
            ahead += 1
        time = self.moments[point.at]
        if not made:
            time = min(time, point.time + self._pace) if point.busy else time - self._pace
        # A step publishes its events before its answers: those that clients had before are of earlier steps.
        before = ahead if self.config.async_scheduling else point.ahead
        if made and bisect_left(self._dones, self.moments[point.at] - self._clocks[1]) > before:
            return None  # a client had an answer that is not finished here
        state = _state(at, arrived, engine)
        if state in self._seen:
            return None
        self._seen.add(state)
        silent = 0 if made else point.silent + 1
        saved = pickle.dumps(engine, pickle.HIGHEST_PROTOCOL)
        return _Point(saved, engine.busy, engine.awaits, at, silent, time, arrived, finished, ahead, came)

    def _agrees(
        self, point: _Point, engine: Engine, came: tuple[int, ...], ended: Sequence[Request], made: StepEvents
    ) -> bool:
        """Return whether a step after a point had the server's events, of the requests that had them there."""
        if made:
            first = self._first.get(point.at, ())
            if made != self.steps[point.at] or any(each not in point.came and each not in came for each in first):
                return False
        elif point.silent == _MOST_SILENT:
            return False
        if any(int(each.id) in came for each in engine.scheduler.waiting):
            return False  # the same as coming later
        size = self.config.block_size
        silent = {each for each in came if each not in self._later.admitted}
        return all(
            each.num_cached_tokens >= each.num_prompt_tokens // size * size
            for each in (*engine.scheduler.running, *ended)
            if int(each.id) in silent
        )  # else it stores what no event of its shows

    def _ended(self, last: _Point) -> Followed:
        """Return the steps with what is left when the events are over, in the order of sending."""
        arrivals: list[tuple[int, ...]] = []
        emptied: set[int] = set()
        for point in [*last.path()][-2::-1]:
            if point.emptied:
                emptied.add(len(arrivals))
            else:
                arrivals.append(point.arrivals)
        engine = last.copy()
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


def _with_part(came: tuple[int, ...], part: int | None) -> Iterator[tuple[int, ...]]:
    yield came
    if part is not None:
        yield (*came, part)


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


def _state(at: int, came: frozenset[int], engine: Engine) -> int:
    """Return the hash of what decides the steps after a point: those from equal ones are the same."""
    scheduler, cache = engine.scheduler, engine.cache
    running = tuple((each.id, each.num_tokens, each.num_computed_tokens) for each in scheduler.running)
    free = tuple(cache.hashes[block] for block in cache.free_queue)
    waiting = tuple(each.id for each in scheduler.waiting)
    return hash((at, came, running, waiting, free, len(cache.events or ())))
