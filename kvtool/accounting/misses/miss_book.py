"""Write down every miss that reported usage shows: tokens that an earlier request had cached and this one did not read."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from kvtool.accounting.book import Book
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.accounting.log_clock import moment_of
from kvtool.accounting.misses.field_search import FieldSearch
from kvtool.accounting.misses.miss_rows import ComparedRequest, MissRow
from kvtool.accounting.misses.prompt_states import CacheKey, PromptStates, message_forms, tool_forms
from kvtool.accounting.misses.replica_trials import ReplicaTrials
from kvtool.accounting.misses.reported_request import ReportedRequest
from kvtool.accounting.servers.server import ServedRequest
from kvtool.results.misses import (
    CacheMisses,
    Hypothesis,
    MissCause,
    MissEvent,
    MissSum,
    ReportAgreement,
    hypothesis_in_words,
)
from kvtool.text.terminal.numbers import plural
from kvtool.workload.jobs import Job

if TYPE_CHECKING:
    from kvtool.accounting.prices.money_book import MoneyBook

_MOST_EVENTS = 10_000
"""Events that are kept, the largest ones, a bound on memory; the sums are of all."""
_NEVER_STORED: tuple[MissCause, ...] = ("answer_not_kept", "below_minimum", "not_marked")
"""Causes of misses of a request that read all that was stored."""
_LEAST_AGREEING = 0.9
"""Share of requests whose report agrees with the prediction, below which predictions advise nothing."""
_MOST_KEYS = 10_000
_MOST_CONTRADICTED = 0.1
"""Of the compared requests: above it the documented rules are not those that the provider follows, and advise nothing."""


@dataclass(slots=True)
class _CauseSum:
    events: int = 0
    tokens: int = 0
    written: int = 0
    cost: Decimal | None = None

    def add(self, other: _CauseSum) -> None:
        """Add the misses of another sum."""
        self.events += other.events
        self.tokens += other.tokens
        self.written += other.written
        if other.cost is not None:
            self.cost = (self.cost or Decimal(0)) + other.cost


@dataclass(slots=True)
class MissBook(Book):
    """Compare each request's reported read with what the requests before it left in the cache."""

    money: MoneyBook | None
    epoch: float | None
    hosted: bool
    """Whether a provider serves the requests, not an engine of the user."""
    takes_batches = False
    requests: int = 0
    prompt_tokens: int = 0
    promised: int = 0
    read: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    compared: int = 0
    """Requests with a whole prompt and a prediction; of `contradicted` more was read than the rules allow."""
    contradicted: int = 0
    calibrated: int = 0
    """Requests with a whole prompt; of `agreeing` the report is the prediction, to a block or to rounding."""
    agreeing: int = 0
    expired: int = 0
    """Misses that expired; for `too_long` the gap is longer than any time to live that the provider offers."""
    too_long: int = 0
    marked: int = 0
    """Requests in which marks of the user decide what is stored, and whose marks the log holds."""
    _states: PromptStates = field(default_factory=PromptStates)
    _sums: dict[MissCause, _CauseSum] = field(default_factory=dict)
    _events: list[tuple[int, int, MissEvent]] = field(default_factory=list)
    """A heap of the largest ones: tokens, number, event."""
    _count: int = 0
    _keys: set[CacheKey] = field(default_factory=set)
    _search: FieldSearch = field(default_factory=FieldSearch)
    _trials: ReplicaTrials = field(default_factory=ReplicaTrials)
    _unknown: dict[int, _CauseSum] = field(default_factory=dict)
    """By number, misses of the user's own server that have no cause yet."""

    def end(self, job: Job, entry: LedgerEntry | None, served: ServedRequest) -> None:
        request = ReportedRequest.of(job, entry, served)
        if request is None:
            return
        self.requests += 1
        self.prompt_tokens += request.prompt
        if len(self._keys) < _MOST_KEYS:
            self._keys.add(request.key)
        self._judge_rules(request)
        turn = job.turn
        earlier = self._states.find(request.names, request.key, turn.session)
        like = earlier.session or earlier.any
        compared = ComparedRequest(
            request,
            earlier,
            message_forms(turn.messages, () if like is None else like.forms),
            tool_forms(turn.tools, () if like is None else like.tools),
            self.hosted,
        )
        rows = compared.rows()
        self.promised += request.read + sum(row.tokens for row in rows)
        self.read += request.read
        first = self._count
        for row in rows:
            self._enter(request, row)
        if not self.hosted and request.whole:
            unexplained = [number for number, row in enumerate(rows, first + 1) if row.found.cause == "unknown"]
            unkept = any(row.found.cause == "answer_not_kept" for row in rows)
            self._trials.add(request.kept_read(tuple(unexplained), unkept=unkept))
        if turn.call.fields:
            missed = any(row.found.cause in ("provider", "unknown") for row in rows)
            hit = compared.before is not None and all(row.found.cause in _NEVER_STORED for row in rows)
            self._search.add(turn.session, turn.call.fields, missed=missed if missed or hit else None)
        self._states.add(request.state_after(compared.before, self.epoch, compared.forms, compared.tools))

    def _judge_rules(self, request: ReportedRequest) -> None:
        """Count what the log lacks, and whether the documented rules allow what was read."""
        rules, prediction = request.rules, request.prediction
        if request.lack is not None:
            self.unknown[request.lack] = self.unknown.get(request.lack, 0) + 1
        elif prediction is not None:
            self.compared += 1
            self.contradicted += request.read - prediction.cached > request.least
        if (predicted := request.predicted) is not None:
            self.calibrated += 1
            self.agreeing += abs(predicted - request.read) <= request.least
        self.marked += request.lack is None and rules is not None and rules.keeps == "breakpoints"

    def _enter(self, request: ReportedRequest, row: MissRow) -> None:
        cost = self._cost(request, row.tokens)
        written = request.usage.all_written
        found = row.found
        added = _CauseSum(1, row.tokens, written or 0, cost)
        self._sums.setdefault(found.cause, _CauseSum()).add(added)
        self._count += 1
        if found.cause == "expired" and row.gap is not None and request.rules is not None:
            self.expired += 1
            self.too_long += row.gap > max((request.rules.ttl or 0.0, *request.rules.tiers))
        if found.cause == "unknown" and not self.hosted:
            self._unknown[self._count] = added
        event = MissEvent(
            request=request.job.request.id,
            session=request.job.turn.session,
            time=request.now,
            gap=row.gap,
            cause=found.cause,
            certainty=found.certainty,
            tokens=row.tokens,
            written=written,
            cost=None if cost is None else format(cost.normalize(), "f"),
            detail=found.detail,
            place=found.place,
        )
        keep = heapq.heappush if len(self._events) < _MOST_EVENTS else heapq.heappushpop
        keep(self._events, (row.tokens, -self._count, event))

    def _cost(self, request: ReportedRequest, tokens: int) -> Decimal | None:
        """Return what the tokens cost above a read: by the rate of what the request wrote, else as input."""
        if self.money is None:
            return None
        moment = None if request.now is None else moment_of(self.epoch, request.now)
        rates = self.money.rates_of(request.call, request.prompt, moment)
        if rates is None:
            return None
        from kvtool.accounting.prices.price_row import MILLION

        written, hour = request.usage.all_written or 0, request.usage.written_1h or 0
        return tokens * rates.above_read(written=written, written_1h=hour) / MILLION

    def _totals(self, explained: frozenset[int]) -> dict[MissCause, _CauseSum]:
        """Return the sums by cause, with those misses that several replicas explain under that cause."""
        if not explained:
            return self._sums
        parts: dict[MissCause, _CauseSum] = {"replicas": _CauseSum(), "unknown": _CauseSum()}
        for number, each in self._unknown.items():
            parts["replicas" if number in explained else "unknown"].add(each)
        return {cause: total for cause, total in {**self._sums, **parts}.items() if total.events}

    @property
    def cache_keys(self) -> int:
        """Number of cache keys, where nothing else keeps prompts apart; else 1: then the keys are not to blame alone."""
        others = {replace(key, key=None) for key in self._keys}
        return len(self._keys) if len(others) == 1 and len(self._keys) < _MOST_KEYS else 1

    @property
    def longer_ttl_helps(self) -> bool:
        """Whether a time to live that the provider offers covers the gap of any prefix that expired."""
        return not self.too_long or self.too_long < self.expired

    @property
    def knows_prompts(self) -> bool:
        """Whether the log holds most prompts whole: else what the rules give is no prediction of theirs."""
        return 2 * sum(self.unknown.values()) <= self.requests

    @property
    def rules_hold(self) -> bool:
        """Whether the reports do not contradict the rules: a read of more than they allow shows that they are not followed."""
        return self.contradicted <= max(_MOST_CONTRADICTED * self.compared, 1)

    @property
    def predictable(self) -> bool:
        """Whether rules predict these requests: the log holds the prompts, and the reports do not contradict the rules."""
        return self.knows_prompts and self.rules_hold

    @property
    def advisable(self) -> bool:
        """Whether changes can be advised by predictions: these agree with the reports of nearly all requests."""
        return self.predictable and self.agreeing >= _LEAST_AGREEING * self.calibrated

    @property
    def knows_marks(self) -> bool:
        """Whether a mark can be missing: not in most requests of logs without marks, or of providers that need none."""
        return not self.requests or (2 * self.marked > self.requests and self.rules_hold)

    def misses(self) -> CacheMisses | None:
        """Return the sums and events; None where no request reports its reads."""
        if not self.requests:
            return None
        tried = None if self.hosted else self._trials.found()
        hypothesis, explained = (None, frozenset[int]()) if tried is None else tried
        events = [
            _simulated(event, hypothesis, known=-number in explained)
            for _, number, event in sorted(self._events, key=lambda kept: -kept[1])
        ]
        totals = self._totals(explained)
        sums = {
            cause: MissSum(
                events=total.events,
                tokens=total.tokens,
                written=total.written,
                cost=None if total.cost is None else format(total.cost.normalize(), "f"),
            )
            for cause, total in sorted(totals.items(), key=lambda item: (-(item[1].cost or 0), -item[1].tokens))
        }
        assert self.promised - self.read == sum(each.tokens for each in sums.values())
        return CacheMisses(
            requests=self.requests,
            prompt_tokens=self.prompt_tokens,
            promised=self.promised,
            read=self.read,
            by_cause=sums,
            events=events,
            left_out=self._count - len(events),
            unknown_fields=sorted(self.unknown),
            predictable=self.predictable,
            calibration=ReportAgreement(requests=self.calibrated, agree=self.agreeing, advises=self.advisable),
            separation=self._search.separation(),
            hypothesis=hypothesis,
            rule_contradictions=[] if self.rules_hold else [_contradiction(self.contradicted, self.compared)],
        )


def _simulated(event: MissEvent, hypothesis: Hypothesis | None, *, known: bool) -> MissEvent:
    """Return a miss with what a rerun shows of it."""
    if hypothesis is None or (event.cause != hypothesis.cause and not known):
        return event
    words = f"a rerun {hypothesis_in_words(hypothesis)} gives this read"
    return event.model_copy(update={"cause": hypothesis.cause, "certainty": "simulated", "detail": words})


def _contradiction(contradicted: int, compared: int) -> str:
    return (
        f"{contradicted:,} of {plural(compared, 'request')} read more than the documented rules allow, "
        "so nothing is predicted or advised by these rules"
    )
