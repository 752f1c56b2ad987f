"""Requests one at a time in the order in which they arrive, for rules that know the time but run no engine."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from kvtool.errors import KvtoolError
from kvtool.workload.drive import LOOKAHEAD, NO_ANSWER, Begin, End
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Conversation, Output, Turn

_NEEDED = "a time to live needs to know when requests arrive, and"
_HINT = "give every group `arrival: {process: poisson, rate: 1/s}`, or a log with timestamps"


def in_order_of_arrival(
    conversations: Iterator[Conversation],
    begin: Begin,
    execute: Callable[[Job], None],
    end: End,
    *,
    seconds: Callable[[Job], float],
    required: bool,
) -> None:
    """Take each request at its arrival, set in `job.request.arrival`, and finish it before the next one.

    A turn without an arrival of its own comes when the one before is answered, `seconds` after that arrived. `required` makes a
    conversation without arrival a KvtoolError; else it counts as arriving at second 0. A log may be out of order by `LOOKAHEAD`
    conversations; what comes later than that counts as arriving now.
    """
    due: list[tuple[float, int, Conversation, Turn]] = []
    taken = 0
    now = 0.0

    def queue(conversation: Conversation, turn: Turn | None, earliest: float, *, first: bool) -> None:
        nonlocal taken
        if turn is None:
            return
        if first and required and turn.arrival is None:
            name = turn.id or taken + 1
            raise KvtoolError(f"{_NEEDED} request {name} of {turn.group} does not say", hint=_HINT, place=turn.place)
        when = earliest if turn.arrival is None else max(turn.arrival, earliest)
        heapq.heappush(due, (when, taken, conversation, turn))
        taken += 1

    def look_ahead() -> None:
        while len(due) < LOOKAHEAD and (conversation := next(conversations, None)) is not None:
            queue(conversation, conversation.next_turn(None), 0.0, first=True)

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
