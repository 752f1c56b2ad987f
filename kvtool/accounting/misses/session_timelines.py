"""Keep the requests of the sessions that missed most, for a drawing: a bounded number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kvtool.accounting.misses.hypothesis_trials import Explained
from kvtool.accounting.misses.miss_sums import MissedRequest
from kvtool.results.misses import MissCause, SessionTimeline, TimelineRequest

_MOST_SHOWN = 6
_MOST_SESSIONS = 100
"""Sessions that are followed; of more, those that missed most so far."""
_MOST_REQUESTS = 200
"""Requests of a session, the first ones: what a drawing can show."""


class _Kept(NamedTuple):
    request: str
    time: float
    prompt: int
    read: int
    missed: int
    cause: MissCause | None
    number: int
    """That of its largest miss."""


@dataclass(slots=True)
class _Session:
    missed: int = 0
    requests: list[_Kept] = field(default_factory=list)
    left_out: int = 0


class SessionTimelines:
    """Take the requests of sessions in their order."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    def add(self, session: str | None, name: str, request: MissedRequest, first: int) -> None:
        """Enter a request; its misses have the numbers from `first` on."""
        if session is None or request.time is None:
            return
        kept = self._sessions.setdefault(session, _Session())
        tokens = sum(each.tokens for each in request.missed)
        kept.missed += tokens
        if len(kept.requests) >= _MOST_REQUESTS:
            kept.left_out += 1
        else:
            most = max(range(len(request.missed)), key=lambda at: request.missed[at].tokens, default=None)
            cause = None if most is None else request.missed[most].cause
            number = first + (most or 0)
            kept.requests.append(_Kept(name, request.time, request.prompt, request.read, tokens, cause, number))
        if len(self._sessions) > _MOST_SESSIONS:
            del self._sessions[min(self._sessions, key=lambda each: self._sessions[each].missed)]

    def results(self, explained: Explained) -> list[SessionTimeline]:
        """Return the sessions that missed most, the worst first; `explained` are misses that a rerun gives another cause."""
        worst = sorted(self._sessions.items(), key=lambda item: -item[1].missed)[:_MOST_SHOWN]
        return [
            SessionTimeline(
                session=name,
                missed=kept.missed,
                left_out=kept.left_out,
                requests=[_shown(each, explained) for each in kept.requests],
            )
            for name, kept in worst
            if kept.missed
        ]


def _shown(kept: _Kept, explained: Explained) -> TimelineRequest:

    cause = kept.cause if kept.cause is None or kept.number not in explained else explained[kept.number][1]
    return TimelineRequest(
        request=kept.request, time=kept.time, prompt=kept.prompt, read=kept.read, missed=kept.missed, cause=cause
    )
