"""Compactions of conversations: what each cost, and what it saved since by shorter prompts."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from kvtool.results.misses import Compaction
from kvtool.results.money import amount_text, known_amount_text

_MOST = 1_000
"""Compactions that are kept, and sessions whose last one is continued: a bound on memory."""


@dataclass(slots=True)
class _Open:
    request: str
    session: str
    time: float | None
    before: int
    after: int
    computed: int
    cost: Decimal | None
    """Of the tokens that were computed again, above a read."""
    per_turn: Decimal | None
    """What each request saves, as it reads less."""
    turns: int = 1

    def result(self) -> Compaction:
        turns = saved = None
        if self.cost is not None and self.per_turn:
            turns = max(ceil(self.cost / self.per_turn), 0)
            saved = amount_text(self.per_turn * self.turns - self.cost)
        return Compaction(
            request=self.request,
            session=self.session,
            time=self.time,
            before=self.before,
            after=self.after,
            computed=self.computed,
            cost=known_amount_text(self.cost),
            turns=self.turns,
            saved=saved,
            break_even=turns,
        )


class Compactions:
    """Follow the conversations that were compacted or cleared."""

    def __init__(self) -> None:
        self._all: list[_Open] = []
        self._last: dict[str, _Open] = {}

    def compacted(
        self,
        request: str,
        session: str,
        time: float | None,
        *,
        prompts: tuple[int, int],
        read: int,
        rates: tuple[Decimal, Decimal] | None,
    ) -> None:
        """Enter the first request after a compaction.

        `prompts`: tokens before and after; `rates`: of a token that is computed above a read, and of a read.
        """
        before, after = prompts
        if len(self._all) >= _MOST or before <= after:
            return
        cost = None if rates is None else (after - read) * rates[0]
        per_turn = None if rates is None else (before - after) * rates[1]
        found = _Open(request, session, time, before, after, after - read, cost, per_turn)
        self._all.append(found)
        self._last[session] = found

    def continued(self, session: str) -> None:
        """Enter a later request of a conversation."""
        if (last := self._last.get(session)) is not None:
            last.turns += 1

    def results(self) -> list[Compaction]:
        """Return all of them, in their order."""
        return [each.result() for each in self._all]
