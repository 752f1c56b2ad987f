"""Bring a workload's conversations to an engine: one at a time, or as they arrive."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence

from kvtool.engine.engine import Engine
from kvtool.engine.request import Request
from kvtool.errors import KvtoolError
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Conversation, Output, Turn
from kvtool.workload.yaml.sessions import Interleaved, Session

NO_ANSWER = Output("")

LOOKAHEAD = 10_000
"""Conversations that are put in order of arrival together; a log may be out of order by as much."""

Begin = Callable[[Turn], Job | None]
"""Makes a job of a turn and enters it in the books; None: it is refused, and its conversation goes on without an answer."""

End = Callable[[Job], None]

Rewrite = Callable[[Turn], Turn]
_NEEDED = "a time to live needs arrival times, but"
_HINT = "give every group `arrival: {process: poisson, rate: 1/s}`, or pass a log with timestamps"


class _Counted:
    """A conversation that ends when a budget of turns, shared with others, is used up."""

    def __init__(self, conversation: Conversation, budget: list[int]) -> None:
        self._conversation = conversation
        self._budget = budget

    def next_turn(self, previous: Output | None) -> Turn | None:
        if self._budget[0] <= 0:
            return None
        turn = self._conversation.next_turn(previous)
        if turn is not None:
            self._budget[0] -= 1
        return turn


class _Rewritten:
    """A conversation each of whose turns is changed before it is used."""

    def __init__(self, conversation: Conversation, rewrite: Rewrite) -> None:
        self._conversation = conversation
        self._rewrite = rewrite

    def next_turn(self, previous: Output | None) -> Turn | None:
        turn = self._conversation.next_turn(previous)
        return None if turn is None else self._rewrite(turn)


def rewritten(conversations: Iterator[Conversation], rewrite: Rewrite | None) -> Iterator[Conversation]:
    """Return the conversations with every turn changed; in a session the change comes before the question enters the history."""
    return conversations if rewrite is None else _all_rewritten(conversations, rewrite)


def _all_rewritten(conversations: Iterator[Conversation], rewrite: Rewrite) -> Iterator[Conversation]:
    for conversation in conversations:
        members = conversation.members if isinstance(conversation, Interleaved) else [conversation]
        sessions = [member for member in members if isinstance(member, Session)]
        for session in sessions:
            session.rewrite = rewrite
        yield conversation if len(sessions) == len(members) else _Rewritten(conversation, rewrite)


def first_turns(conversations: Iterator[Conversation], limit: int | None) -> Iterator[Conversation]:
    """Yield the conversations up to `limit` turns in all; None is no limit."""
    if limit is None:
        yield from conversations
        return
    budget = [limit]
    for conversation in conversations:
        if budget[0] <= 0:
            return
        yield _Counted(conversation, budget)


def one_at_a_time(
    conversations: Iterator[Conversation], begin: Begin, execute: Callable[[Job], None], end: End
) -> None:
    """Finish each request before the next one starts, in the order of the workload."""
    for conversation in conversations:
        previous: Output | None = None
        while (turn := conversation.next_turn(previous)) is not None:
            job = begin(turn)
            if job is None:
                previous = NO_ANSWER
                continue
            execute(job)
            end(job)
            previous = job.output()


def in_waves(
    conversations: Iterator[Conversation],
    size: int,
    begin: Begin,
    execute: Callable[[Sequence[Job]], None],
    end: End,
    *,
    first_alone: bool = False,
) -> None:
    """Send the next requests of so many conversations together; those after them when all are answered.

    `first_alone`: of each group and tenant one request is answered before others come.
    """
    going: list[tuple[Conversation, Turn | None]] = []
    answered: set[tuple[str, str | None]] = set()
    while True:
        while len(going) < size and (conversation := next(conversations, None)) is not None:
            going.append((conversation, conversation.next_turn(None)))
        if not going:
            return
        wave: list[tuple[Conversation, Job]] = []
        later: list[tuple[Conversation, Turn | None]] = []
        alone: set[tuple[str, str | None]] = set()
        for conversation, turn in going:
            if turn is None:
                continue
            key = turn.group, turn.salt
            if first_alone and key not in answered and key in alone:
                later.append((conversation, turn))
            elif (job := begin(turn)) is not None:
                alone.add(key)
                wave.append((conversation, job))
            else:
                later.append((conversation, conversation.next_turn(NO_ANSWER)))
        execute([job for _, job in wave])
        for _, job in wave:
            end(job)
        answered |= alone
        going = [*later, *((conversation, conversation.next_turn(job.output())) for conversation, job in wave)]


def side_by_side(conversations: Iterator[Conversation]) -> Iterator[Conversation]:
    """Run sessions that a workload interleaves for whoever runs one request at a time, as the separate ones they are."""
    for conversation in conversations:
        if isinstance(conversation, Interleaved):
            yield from conversation.members
        else:
            yield conversation


class Arrivals:
    """Feeds an engine with conversations as they arrive, at most `concurrency` requests at once.

    Without arrival times a conversation that has begun goes on before another one begins, so no more than `concurrency` are open.
    """

    def __init__(
        self,
        conversations: Iterator[Conversation],
        begin: Begin,
        end: End,
        *,
        concurrency: int | None,
        use_arrivals: bool,
        first_alone: int = 0,
    ) -> None:
        """`first_alone`: of each group and tenant so many requests are answered, one by one, before the others are sent."""
        self._first_alone = first_alone
        self._answered: dict[tuple[str, str | None], int] = {}
        """By group and salt, how many of its first requests are answered; not there: none was sent."""
        self._alone: set[tuple[str, str | None]] = set()
        """Those of which one of the first requests is being answered."""
        self._held: dict[tuple[str, str | None], list[tuple[Conversation, Turn]]] = {}
        self._conversations = conversations
        self._begin = begin
        self._end = end
        self._concurrency = concurrency
        self._use_arrivals = use_arrivals
        self._due: list[tuple[float, bool, int, Conversation, Turn]] = []
        """When, whether it begins a conversation, and a number that puts equals in order."""
        self._active: dict[int, tuple[Conversation, Job]] = {}
        self._taken = 0

    def run(self, engine: Engine) -> None:
        """Run until every conversation is over."""
        start = engine.clock.now()
        self._look_ahead()
        while engine.busy or self._due:
            while self._due and start + self._due[0][0] <= engine.clock.now() and self._may_start():
                due, _, _, conversation, turn = heapq.heappop(self._due)
                self._submit(engine, conversation, turn, start + due)
                self._look_ahead()
            if engine.busy:
                for request in engine.step():
                    self._finish(engine, request, start)
            elif self._due:
                engine.clock.wait_until(start + self._due[0][0])

    def _may_start(self) -> bool:
        return self._concurrency is None or len(self._active) < self._concurrency

    def _look_ahead(self) -> None:
        """Keep the coming conversations in order of arrival."""
        most = LOOKAHEAD if self._use_arrivals else max(self._concurrency or 1, 1)
        while len(self._due) < most:
            conversation = next(self._conversations, None)
            if conversation is None:
                return
            turn = conversation.next_turn(None)
            if turn is not None:
                self._queue(conversation, turn, 0.0, begins=True)

    def _queue(self, conversation: Conversation, turn: Turn, earliest: float, *, begins: bool) -> None:
        when = 0.0
        if self._use_arrivals:
            when = earliest if turn.arrival is None else max(turn.arrival, earliest)
        heapq.heappush(self._due, (when, begins, self._taken, conversation, turn))
        self._taken += 1

    def _submit(self, engine: Engine, conversation: Conversation, turn: Turn, due: float) -> None:
        key = (turn.group, turn.salt)
        if key in self._alone:
            self._held.setdefault(key, []).append((conversation, turn))
            return
        job = self._begin(turn)
        if job is None:
            self._go_on(conversation, NO_ANSWER, 0.0)
            return
        if self._answered.get(key, 0) < self._first_alone:
            self._alone.add(key)
        # It came while a step was running; where clients wait for their turn to send, it is sent now.
        job.request.arrival = due if self._use_arrivals and self._concurrency is None else engine.clock.now()
        engine.add(job.request)
        self._active[job.request.order] = (conversation, job)

    def _finish(self, engine: Engine, request: Request, start: float) -> None:
        conversation, job = self._active.pop(request.order)
        self._end(job)
        now = engine.clock.now() - start
        key = (job.turn.group, job.turn.salt)
        self._answered[key] = self._answered.get(key, 0) + 1
        self._alone.discard(key)
        for waiting, turn in self._held.pop(key, ()):
            heapq.heappush(self._due, (now, False, self._taken, waiting, turn))
            self._taken += 1
        self._go_on(conversation, job.output(), now)

    def _go_on(self, conversation: Conversation, answer: Output, now: float) -> None:
        turn = conversation.next_turn(answer)
        if turn is not None:
            self._queue(conversation, turn, now, begins=False)


def in_order_of_arrival(
    conversations: Iterator[Conversation],
    begin: Begin,
    execute: Callable[[Job], None],
    end: End,
    *,
    seconds: Callable[[Job], float],
    required: bool,
    lateness: float | None = None,
) -> None:
    """Take each request at its arrival, set in `job.request.arrival`, and finish it before the next one.

    A turn without an arrival of its own comes when the one before is answered, `seconds` after that arrived. `required` makes a
    conversation without arrival a KvtoolError; else it counts as arriving at second 0. A log may be out of order by `LOOKAHEAD`
    conversations; what comes later than that counts as arriving now. `lateness`: the seconds by which it may be, where that is
    known: then no more conversations are held than come in so long.
    """
    due: list[tuple[float, int, Conversation, Turn]] = []
    taken = 0
    now = latest = 0.0

    def queue(conversation: Conversation, turn: Turn | None, earliest: float, *, first: bool) -> None:
        nonlocal taken
        if turn is None:
            return
        if first and required and turn.arrival is None:
            name = turn.id or taken + 1
            raise KvtoolError(f"{_NEEDED} request {name} of {turn.group} has none", hint=_HINT, place=turn.place)
        when = earliest if turn.arrival is None else max(turn.arrival, earliest)
        heapq.heappush(due, (when, taken, conversation, turn))
        taken += 1

    def look_ahead() -> None:
        nonlocal latest
        while len(due) < LOOKAHEAD and not (lateness is not None and due and latest - lateness > due[0][0]):
            if (conversation := next(conversations, None)) is None:
                return
            turn = conversation.next_turn(None)
            latest = max(latest, 0.0 if turn is None else turn.arrival or 0.0)
            queue(conversation, turn, 0.0, first=True)

    look_ahead()
    while due:
        when, _, conversation, turn = heapq.heappop(due)
        now = max(now, when)
        job = begin(turn)
        answer: Output = NO_ANSWER
        answered = now
        if job is not None:
            job.request.arrival = now
            execute(job)
            end(job)
            answer, answered = job.output(), now + seconds(job)
        queue(conversation, conversation.next_turn(answer), answered, first=False)
        look_ahead()
