"""Sum requests and their misses: of a whole log, and by session, project, model or day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from kvtool.accounting.log_clock import day_of
from kvtool.accounting.misses.ttl_replay import TtlReplay
from kvtool.results.choices import MissesBy
from kvtool.results.misses import MissCause, MissRow, MissRows, MissSum
from kvtool.results.money import known_amount_text
from kvtool.workload.turn import Turn

MOST_ROWS = 10_000
"""Rows of their own, a bound on memory and output; later keys share one row."""
OTHERS = "(others)"


class Missed(NamedTuple):
    """Tokens of a request that it missed by one cause, with what they cost above a read."""

    cause: MissCause
    tokens: int
    cost: Decimal | None


class MissedRequest(NamedTuple):
    """A request with reported reads. `paid` is its whole price, None where no price is known."""

    prompt: int
    read: int
    written: int
    paid: Decimal | None
    time: float | None
    missed: Sequence[Missed]
    judged: bool = True
    """Whether the log says what earlier requests left for it."""


@dataclass(slots=True)
class CauseSum:
    """Sums of the misses of one cause."""

    events: int = 0
    tokens: int = 0
    written: int = 0
    cost: Decimal | None = None

    def add(self, other: CauseSum, sign: int = 1) -> None:
        """Add the misses of another sum; with `sign` -1, take them out."""
        self.events += sign * other.events
        self.tokens += sign * other.tokens
        self.written += sign * other.written
        if other.cost is not None:
            self.cost = (self.cost or Decimal(0)) + sign * other.cost


@dataclass(slots=True)
class MissTotals:
    """Sums of requests and of their misses by cause."""

    key: str = ""
    requests: int = 0
    prompt_tokens: int = 0
    promised: int = 0
    read: int = 0
    unjudged: int = 0
    unreported: int = 0
    paid: Decimal | None = None
    first: float | None = None
    last: float | None = None
    project: str | None = None
    subagent: bool = False
    causes: dict[MissCause, CauseSum] = field(default_factory=dict)
    replay: TtlReplay = field(default_factory=TtlReplay)

    def add(self, request: MissedRequest) -> None:
        """Add another request."""
        self.requests += 1
        self.prompt_tokens += request.prompt
        self.promised += request.read + sum(each.tokens for each in request.missed)
        self.read += request.read
        self.unjudged += not request.judged
        if request.paid is not None:
            self.paid = (self.paid or Decimal(0)) + request.paid
        if (time := request.time) is not None:
            self.first = time if self.first is None else min(self.first, time)
            self.last = time if self.last is None else max(self.last, time)
        for each in request.missed:
            self.causes.setdefault(each.cause, CauseSum()).add(CauseSum(1, each.tokens, request.written, each.cost))

    def explain(self, misses: CauseSum, was: MissCause, cause: MissCause) -> None:
        """Give misses another cause than they had."""
        self.causes[was].add(misses, -1)
        if not self.causes[was].events:
            del self.causes[was]
        self.causes.setdefault(cause, CauseSum()).add(misses)

    @property
    def missed(self) -> int:
        return self.promised - self.read

    @property
    def cost(self) -> Decimal | None:
        """What the misses cost above reads; None where no price is known of any."""
        known = [each.cost for each in self.causes.values() if each.cost is not None]
        return sum(known, Decimal(0)) if known else None

    def by_cause(self) -> dict[MissCause, MissSum]:
        """Return the sums by cause."""
        return {
            cause: MissSum(
                events=each.events, tokens=each.tokens, written=each.written, cost=known_amount_text(each.cost)
            )
            for cause, each in self.causes.items()
        }

    def check(self, rows: Sequence[MissTotals]) -> None:
        """Assert that rows sum to these totals, token by token and cent by cent."""
        for name in ("requests", "prompt_tokens", "promised", "read", "unjudged", "unreported"):
            total = sum(getattr(row, name) for row in rows)
            assert total == getattr(self, name), f"rows have {total} {name}, not {getattr(self, name)}"
        for name in ("paid", "cost"):
            amount = sum((getattr(row, name) or Decimal(0) for row in rows), Decimal(0))
            assert amount == (getattr(self, name) or 0), f"rows {name} {amount}, not {getattr(self, name)}"


class MissesByKey:
    """Rows of sums by one key of requests. Memory grows with keys, not with requests."""

    def __init__(self, by: MissesBy) -> None:
        self.by = by
        self._rows: dict[str, MissTotals] = {}

    def add(self, turn: Turn, request: MissedRequest, epoch: float | None) -> MissTotals | None:
        """Add a request to the row of its key, and return that; None by event.

        `epoch`: seconds of the clock at which the log begins.
        """
        row = self._row_of(turn, epoch)
        if row is not None:
            row.add(request)
            row.project, row.subagent = turn.call.project, turn.call.subagent
        return row

    def leave_out(self, turn: Turn, epoch: float | None) -> None:
        """Count a request that does not report what it read."""
        if (row := self._row_of(turn, epoch)) is not None:
            row.unreported += 1

    def _row_of(self, turn: Turn, epoch: float | None) -> MissTotals | None:
        key = self._key(turn, epoch)
        if key is not None and key not in self._rows and len(self._rows) >= MOST_ROWS:
            key = OTHERS
        return None if key is None else self._rows.setdefault(key, MissTotals(key))

    def rows(self, total: MissTotals, epoch: float | None) -> MissRows:
        """Return the rows, the costliest first; they sum to `total`."""
        if self.by == "event":
            return MissRows(by=self.by, rows=[])
        rows = list(self._rows.values())
        total.check(rows)
        rows.sort(key=lambda row: (-(row.cost or 0), -row.missed, row.key))
        return MissRows(by=self.by, rows=[self._row(row, epoch or 0.0) for row in rows])

    def _row(self, row: MissTotals, epoch: float) -> MissRow:
        return MissRow(
            key=row.key,
            project=row.project if self.by == "session" else None,
            subagent=row.subagent and self.by == "session",
            requests=row.requests,
            prompt_tokens=row.prompt_tokens,
            promised=None if row.unjudged == row.requests else row.promised,
            read=row.read,
            unjudged=row.unjudged,
            unreported=row.unreported,
            cost=known_amount_text(row.cost),
            paid=known_amount_text(row.paid),
            first=None if row.first is None else epoch + row.first,
            last=None if row.last is None else epoch + row.last,
            by_cause=row.by_cause(),
            ttl=row.replay.result(),
        )

    def _key(self, turn: Turn, epoch: float | None) -> str | None:
        match self.by:
            case "session":
                return turn.session_or_file
            case "project":
                return turn.call.project or "(no project)"
            case "model":
                return turn.call.model or "(no model)"
            case "day":
                day = None if turn.arrival is None else day_of(epoch, turn.arrival)
                return "(no date)" if day is None else day.isoformat()
            case "event":
                return None
