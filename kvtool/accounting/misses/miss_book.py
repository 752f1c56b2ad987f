"""Write down every miss that reported usage shows: tokens that an earlier request had cached and this one did not read."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from kvtool.accounting.book import Book
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.accounting.log_clock import moment_of
from kvtool.accounting.misses.compactions import Compactions
from kvtool.accounting.misses.miss_causes import MissEvidence, MissReason, cause_of_report, find_cause, find_unstored
from kvtool.accounting.misses.miss_sums import Missed, MissesByKey, MissTotals, ReportedRequest, decimal_text
from kvtool.accounting.misses.prompt_states import (
    CHUNK,
    CacheKey,
    Earlier,
    MessageForm,
    PromptState,
    PromptStates,
    chunk_names,
    message_forms,
)
from kvtool.accounting.misses.ttl_replay import TtlReplay
from kvtool.accounting.servers.server import ServedRequest
from kvtool.results.choices import MissesBy
from kvtool.results.misses import CacheMisses, MissEvent
from kvtool.text.terminal.numbers import plural
from kvtool.workload.call import FEWER, Usage
from kvtool.workload.jobs import Job

if TYPE_CHECKING:
    from kvtool.accounting.caches.cache_rules import Prediction
    from kvtool.accounting.caches.providers import Provider
    from kvtool.accounting.prices.money_book import MoneyBook
    from kvtool.accounting.prices.price_row import Rates

_MOST_EVENTS = 10_000
"""Events that are kept, the largest ones, a bound on memory; the sums are of all."""
_MOST_CONTRADICTED = 0.1
"""Of the compared requests: above it the documented rules are not those that the provider follows, and advise nothing."""
_MOST_FEWER = 1.5
"""Reported tokens for each of ours up to which a text is whole: tokenizers of the same text differ by less."""
_LEAST_TOKENS = 64
_ROUNDING = 64
"""A miss is more than the step of the cache, this many tokens, and one in so many of the prompt: tokenizers differ by less."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A part of a request's misses, before it has a price."""

    tokens: int
    found: MissReason
    gap: float | None


@dataclass(slots=True)
class MissBook(Book):
    """Compare each request's reported read with what the requests before it left in the cache."""

    money: MoneyBook | None
    epoch: float | None
    hosted: bool
    """Whether a provider serves the requests, not an engine of the user."""
    by: MissesBy | None = None
    """What the sums go by, beside those of all requests."""
    takes_batches = False
    total: MissTotals = field(default_factory=MissTotals)
    unknown: dict[str, int] = field(default_factory=dict)
    compared: int = 0
    """Requests with a whole prompt and a prediction; of `contradicted` more was read than the rules allow."""
    contradicted: int = 0
    marked: int = 0
    """Requests in which marks of the user decide what is stored, and whose marks the log holds."""
    _states: PromptStates = field(default_factory=PromptStates)
    _events: list[tuple[int, int, MissEvent]] = field(default_factory=list)
    """A heap of the largest ones: tokens, number, event."""
    _count: int = 0
    _by_key: MissesByKey | None = field(init=False)
    _replay: TtlReplay = field(default_factory=TtlReplay)
    _compactions: Compactions = field(default_factory=Compactions)

    def __post_init__(self) -> None:
        self._by_key = None if self.by is None else MissesByKey(self.by)

    def leave_out(self, job: Job) -> None:
        """Enter a request for whose model no cache rules are known: its report is a fact all the same."""
        self._add(job, None, None)

    def end(self, job: Job, entry: LedgerEntry | None, served: ServedRequest) -> None:
        self._add(job, entry, served.prediction)

    def _add(self, job: Job, entry: LedgerEntry | None, prediction: Prediction | None) -> None:
        usage = job.turn.call.usage
        if job.unit != 1 or usage is None or usage.prompt is None or usage.cached is None:
            return
        if self.epoch is None:
            self.epoch = job.turn.epoch
        if (lack := _lack(job, usage.prompt)) is not None:
            self.unknown[lack] = self.unknown.get(lack, 0) + 1
        rules = None if prediction is None else prediction.rules
        if lack is None and prediction is not None:
            self.compared += 1
            self.contradicted += usage.cached - prediction.cached > _least(rules, usage.prompt)
        self.marked += lack is None and rules is not None and rules.keeps == "breakpoints"
        names, key, forms = chunk_names(job.ids), _key_of(job), message_forms(job.turn.messages)
        now = job.turn.arrival
        earlier = self._states.find(names, key, job.turn.session)
        rows = self._rows(job, usage.prompt, usage.cached, earlier, entry, prediction, now, key, forms)
        rates = self._rates(job, usage.prompt, now)
        missed = [self._missed(row, usage, rates) for row in rows]
        paid = None if rates is None else _paid(job, usage, rates)
        request = ReportedRequest(usage.prompt, usage.cached, usage.all_written or 0, paid, now, missed)
        self.total.add(request)
        if self._by_key is not None:
            self._by_key.add(job.turn, request, self.epoch)
        shared = max(earlier.shared_session, earlier.shared_same_cache) // CHUNK
        prefix = f"{names[shared - 1]:016x}" if shared else None
        for row, each in zip(rows, missed, strict=True):
            self._keep_event(job, usage, row, each.cost, prefix)
        self._follow(job, usage, rates, earlier, sum(each.tokens for each in missed if each.cause == "expired"))
        self._states.add(self._state(job, usage, usage.prompt, usage.cached, prediction, now, key, names, forms))

    def _rows(
        self,
        job: Job,
        prompt: int,
        read: int,
        earlier: Earlier,
        entry: LedgerEntry | None,
        prediction: Prediction | None,
        now: float | None,
        key: CacheKey,
        forms: tuple[MessageForm, ...],
    ) -> list[_Row]:
        """Return the request's misses by cause: what was stored and not read, what was never stored, what a change blocks."""
        call, own = job.turn.call, len(job.ids)
        whole = _lack(job, prompt) is None and not call.uncounted
        before = earlier.session
        if before is None or (whole and earlier.shared_same_cache > earlier.shared_session):
            before = earlier.same_cache if earlier.shared_same_cache >= earlier.shared else earlier.any
        if before is None and call.missed is not None and (found := cause_of_report(call.missed)) is not None:
            return [_Row(min(call.missed.tokens or 0, prompt - read), found, None)] if call.missed.tokens else []
        if before is None or (not whole and before is not earlier.session):
            return []  # a prompt that is not whole and of no session: what it shares is not in the log
        least = _least(None if prediction is None else prediction.rules, prompt)
        rewritten = before is earlier.session and earlier.shared_session < before.own_tokens - _LEAST_TOKENS
        evidence = MissEvidence(
            key,
            call.settings,
            before,
            read,
            now,
            whole,
            rewritten=rewritten and not whole,
            shorter=own < before.own_tokens,
            forms=forms,
            missed=call.missed,
            prediction=prediction,
            hosted=self.hosted,
        )
        if not whole:
            missed = min(before.stored, prompt) - read
            if missed <= least:
                return []
            return [_Row(missed, find_cause(evidence), evidence.gap)]
        known = entry.known if entry is not None else earlier.shared
        shared = min(known * prompt // max(own, 1), prompt)
        stored = min(before.stored, shared)
        rows = []
        if stored - read > least:
            rows.append(_Row(stored - read, find_cause(evidence), evidence.gap))
        if (unstored := shared - max(stored, read)) > least and before.stored < shared:
            found = find_unstored(prediction, after_prompt=before.stored >= before.prompt - least)
            rows += [] if found is None else [_Row(unstored, found, evidence.gap)]
        runs = 0 if entry is None or entry.alignment is None else sum(gap.run for gap in entry.alignment.gaps)
        blocked = min(min(runs, own - known) * prompt // max(own, 1), before.stored - shared, prompt - shared)
        if (changed := blocked - max(read - shared, 0)) > least:
            found = MissReason("prompt_changed", "proven", f"text differs after token {shared:,}")
            rows.append(_Row(changed, found, evidence.gap))
        if not rows and call.missed is not None and (call.missed.tokens or 0) > least:
            rows.append(_Row(min(call.missed.tokens or 0, prompt - read), find_cause(evidence), evidence.gap))
        return rows

    def _follow(self, job: Job, usage: Usage, rates: Rates | None, earlier: Earlier, expired: int) -> None:
        """Enter a request in the replay of times to live, and in the compactions of its session."""
        before, session, now = earlier.session, job.turn.session, job.turn.arrival
        gap = None if before is None or now is None or before.time is None else max(now - before.time, 0.0)
        if rates is not None:
            self._replay.add(usage, _answer(job, usage), rates, before, gap, expired)
        if before is None or session is None or usage.prompt is None:
            return
        shorter = len(job.ids) < before.own_tokens and earlier.shared_session < before.own_tokens - _LEAST_TOKENS
        if not shorter or _lack(job, usage.prompt) is None:
            self._compactions.continued(session)
            return
        from kvtool.accounting.prices.price_row import MILLION

        of_token = None
        if rates is not None:
            above_read = rates.above_read(written=usage.all_written or 0, written_1h=usage.written_1h or 0)
            of_token = above_read / MILLION, rates.read / MILLION
        prompts = before.prompt, usage.prompt
        self._compactions.compacted(
            job.request.id, session, now, prompts=prompts, read=usage.cached or 0, rates=of_token
        )

    def _keep_event(self, job: Job, usage: Usage, row: _Row, cost: Decimal | None, prefix: str | None) -> None:
        found = row.found
        self._count += 1
        event = MissEvent(
            request=job.request.id,
            session=job.turn.session,
            time=job.turn.arrival,
            gap=row.gap,
            cause=found.cause,
            certainty=found.certainty,
            tokens=row.tokens,
            written=usage.all_written,
            cost=decimal_text(cost),
            detail=found.detail,
            model=job.turn.call.model,
            provider_id=job.turn.call.request_id,
            prefix=prefix if found.cause == "provider" else None,
        )
        keep = heapq.heappush if len(self._events) < _MOST_EVENTS else heapq.heappushpop
        keep(self._events, (row.tokens, -self._count, event))

    def _rates(self, job: Job, prompt: int, now: float | None) -> Rates | None:
        """Return the rates of a request; None where no price is known."""
        if self.money is None:
            return None
        return self.money.rates_of(job.turn.call, prompt, None if now is None else moment_of(self.epoch, now))

    @staticmethod
    def _missed(row: _Row, usage: Usage, rates: Rates | None) -> Missed:
        """Return a part of the misses with its price above that of a read: by the rate of what was written, else as input."""
        if rates is None:
            return Missed(row.found.cause, row.tokens, None)
        from kvtool.accounting.prices.price_row import MILLION

        above_read = rates.above_read(written=usage.all_written or 0, written_1h=usage.written_1h or 0)
        return Missed(row.found.cause, row.tokens, row.tokens * above_read / MILLION)

    def _state(
        self,
        job: Job,
        usage: Usage,
        prompt: int,
        read: int,
        prediction: Prediction | None,
        now: float | None,
        key: CacheKey,
        names: tuple[int, ...],
        forms: tuple[MessageForm, ...],
    ) -> PromptState:
        """Return what the request left in the cache: what it read and wrote or, where writes are free, all of it in whole steps."""
        call = job.turn.call
        rules = None if prediction is None else prediction.rules
        wrote = usage.all_written
        if wrote is not None or (rules is not None and rules.keeps == "breakpoints"):
            stored = min(read + (wrote or 0), prompt)
        else:
            step = 1 if rules is None else rules.step
            stored = prompt // step * step
            if rules is not None and stored < rules.minimum:
                stored = read
        ttl = 3600.0 if usage.written_1h else 300.0 if usage.written_5m else None
        if ttl is None and rules is not None:
            ttl = rules.ttl
        answered = call.first_answer if call.first_answer is not None else call.end
        if answered is not None and self.epoch is not None:
            answered -= self.epoch
        return PromptState(
            key,
            job.turn.session,
            now,
            answered,
            call.settings,
            stored,
            prompt,
            len(job.ids),
            ttl,
            names,
            forms,
        )

    @property
    def knows_prompts(self) -> bool:
        """Whether the log holds most prompts whole: else what the rules give is no prediction of theirs."""
        return 2 * sum(self.unknown.values()) <= self.total.requests

    @property
    def rules_hold(self) -> bool:
        """Whether the reports do not contradict the rules: a read of more than they allow shows that they are not followed."""
        return self.contradicted <= max(_MOST_CONTRADICTED * self.compared, 1)

    @property
    def predictable(self) -> bool:
        """Whether rules predict these requests: the log holds the prompts, and the reports do not contradict the rules."""
        return self.knows_prompts and self.rules_hold

    @property
    def knows_marks(self) -> bool:
        """Whether a mark can be missing: not in most requests of logs without marks, or of providers that need none."""
        return not self.total.requests or (2 * self.marked > self.total.requests and self.rules_hold)

    def misses(self) -> CacheMisses | None:
        """Return the sums and events; None where no request reports its reads."""
        total = self.total
        if not total.requests:
            return None
        events = [event for _, _, event in sorted(self._events, key=lambda kept: -kept[1])]
        by_cause = total.by_cause()
        assert total.missed == sum(each.tokens for each in by_cause.values())
        return CacheMisses(
            requests=total.requests,
            prompt_tokens=total.prompt_tokens,
            promised=total.promised,
            read=total.read,
            by_cause=by_cause,
            events=events,
            left_out=self._count - len(events),
            unknown_fields=sorted(self.unknown),
            predictable=self.predictable,
            rule_contradictions=[] if self.rules_hold else [_contradiction(self.contradicted, self.compared)],
            began=self.epoch if moment_of(self.epoch, 0.0) is not None else None,
            rows=None if self._by_key is None else self._by_key.rows(total, self.epoch),
            ttl=self._replay.result(),
            compactions=self._compactions.results(),
        )


def _paid(job: Job, usage: Usage, rates: Rates) -> Decimal:
    from kvtool.accounting.prices.money_book import reported_bill

    return reported_bill(usage, usage.prompt or 0, _answer(job, usage), rates).total


def _answer(job: Job, usage: Usage) -> int:
    """Return the tokens of the answer: as reported, else as the log holds it."""
    return job.logged_output if usage.output is None else usage.output


def _least(rules: Provider | None, prompt: int) -> int:
    """Return the tokens above which a difference is more than rounding."""
    return max(1 if rules is None else rules.step, _LEAST_TOKENS, prompt // _ROUNDING)


def _lack(job: Job, prompt: int) -> str | None:
    """Return why the log does not hold the whole prompt; None where nothing says so, or where its tokens agree with the report."""
    lack = job.turn.call.incomplete
    return None if lack == FEWER and prompt <= _MOST_FEWER * len(job.ids) else lack


def _contradiction(contradicted: int, compared: int) -> str:
    return (
        f"{contradicted:,} of {plural(compared, 'request')} read more than the documented rules allow, "
        "so nothing is predicted or advised by these rules"
    )


def _key_of(job: Job) -> CacheKey:
    call, scope = job.turn.call, job.turn.call.scope
    return CacheKey(
        call.model, scope.key or job.turn.salt, call.provider, (scope.organisation, scope.workspace, scope.region)
    )
