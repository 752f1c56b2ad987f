"""Requests that are sent again because nothing was answered: copies, whose hits would be no gain."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any

import orjson

from kvtool.text.message import role_of
from kvtool.workload.logs.records.record_format import LeftOut
from kvtool.workload.turn import Turn

RETRY = LeftOut("repeat of an unanswered request")
_COUNTS = ("x-stainless-retry-count", "x-retry-count", "x-retry-attempt", "retry-count")
_AWS = re.compile(r"attempt=(\d+)")
_MOST_KEPT = 4_096
"""Unanswered prompts that are remembered: a bound on memory."""


def is_retry(headers: object) -> bool | None:
    """Return whether the headers of a request say that it was sent before; None where they say nothing of it."""
    found: bool | None = None
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        plain, said = str(name).lower(), str(value).strip()
        if plain in _COUNTS and said.isdecimal() and said.isascii():
            found = found or int(said[:9]) > 0
        if plain == "amz-sdk-request" and (attempt := _AWS.search(said)) is not None:
            found = found or attempt[1] != "1"
    return found


class Retries:
    """Find the copies among the requests of one pass.

    A copy has the prompt of a request that is not answered in the log, and its headers say that it is a retry. Where nothing says
    so, it is the next one of its session, in which a model or a tool said something before: a first question may be asked again.
    """

    def __init__(self) -> None:
        self._unanswered: OrderedDict[tuple[str | None, int], None] = OrderedDict()
        self._pending: Counter[str | None] = Counter()
        """Unanswered prompts by session."""
        self._latest: dict[str, int | None] = {}
        """By session; None for an answered request, of which no later one is a copy."""

    def has(self, turn: Turn) -> bool:
        """Return whether this request is a copy of an earlier one; from now on it is an earlier one."""
        session = turn.session
        if turn.messages is None or (session is None and turn.call.retried is None):
            return False
        if _is_answered(turn) and not self._pending[session]:  # the digest of a long history takes time
            self._note_latest(session, None)
            return False
        sent = _digest([turn.messages, turn.tools, turn.call.model])
        key = session, sent
        again = session is not None and self._latest.get(session) == sent and _goes_on(turn)
        retried = turn.call.retried
        copy = key in self._unanswered and (again if retried is None else retried)
        self._note_latest(session, sent)
        if _is_answered(turn):
            if key in self._unanswered:
                del self._unanswered[key]
                self._forget(session)
        elif key not in self._unanswered:
            self._unanswered[key] = None
            self._pending[session] += 1
            if len(self._unanswered) > _MOST_KEPT:
                (oldest, _), _ = self._unanswered.popitem(last=False)
                self._forget(oldest)
        return copy

    def _note_latest(self, session: str | None, sent: int | None) -> None:
        if session is None:
            return
        if len(self._latest) >= _MOST_KEPT and session not in self._latest:
            del self._latest[next(iter(self._latest))]
        self._latest[session] = sent

    def _forget(self, session: str | None) -> None:
        self._pending[session] -= 1
        if not self._pending[session]:
            del self._pending[session]


def _goes_on(turn: Turn) -> bool:
    return any(role_of(message) in ("assistant", "tool") for message in turn.messages or ())


def _is_answered(turn: Turn) -> bool:
    said = turn.output_text, turn.output_ids, turn.output_tokens, turn.call.usage
    return any(each is not None for each in said)


def _digest(value: Any) -> int:
    try:
        return hash(orjson.dumps(value))
    except TypeError:  # what JSON cannot hold as it is: huge numbers
        return hash(repr(value))
