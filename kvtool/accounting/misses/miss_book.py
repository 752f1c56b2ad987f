"""Write down every miss that reported usage shows: tokens that an earlier request had cached and this one did not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from kvtool.accounting.book import Book
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.accounting.log_clock import moment_of
from kvtool.accounting.misses.changed_part import part_of_place, place_in_record
from kvtool.accounting.misses.compactions import Compactions
from kvtool.accounting.misses.field_search import FieldSearch
from kvtool.accounting.misses.hypothesis_trials import RERUN_CAUSES, UNEXPLAINED, Explained, HypothesisTrials
from kvtool.accounting.misses.miss_causes import cause_of_report, rest_of_block
from kvtool.accounting.misses.miss_events import MissEvents
from kvtool.accounting.misses.miss_parts import ComparedRequest, MissPart
from kvtool.accounting.misses.miss_sums import CauseSum, MissedRequest, MissesByKey, MissTotals
from kvtool.accounting.misses.own_text import has_own_text
from kvtool.accounting.misses.prefix_cuts import PrefixCuts, prefix_cuts
from kvtool.accounting.misses.prompt_states import (
    CHUNK,
    CacheKey,
    PromptState,
    PromptStates,
    tool_forms,
)
from kvtool.accounting.misses.read_steps import ReadStep
from kvtool.accounting.misses.reported_request import LEAST_TOKENS, ReportedRequest, is_short, request_forms
from kvtool.accounting.misses.session_timelines import SessionTimelines
from kvtool.accounting.servers.server import ServedRequest
from kvtool.results.choices import MissesBy
from kvtool.results.misses import (
    CacheMisses,
    FieldSeparation,
    Hypothesis,
    MissCause,
    ProviderDiagnosis,
    ReportAgreement,
)
from kvtool.text.terminal.numbers import plural
from kvtool.workload.call import Call
from kvtool.workload.jobs import Job

if TYPE_CHECKING:
    from kvtool.accounting.prices.money_book import MoneyBook
    from kvtool.accounting.prices.price_row import Rates

_NEVER_STORED: tuple[MissCause, ...] = ("answer_not_kept", "below_minimum", "not_marked", "partial_block")
"""Causes of misses of a request that read all that was stored."""
_LEAST_AGREEING = 0.9
"""Share of requests whose report agrees with the prediction, below which predictions advise nothing."""
_MOST_KEYS = 10_000
_MOST_MODELS = 64
"""Models of which fields are compared."""
_MOST_CONTRADICTED = 0.1
"""Of the compared requests: above it the documented rules are not those that the provider follows, and advise nothing."""


class LatestRequest(NamedTuple):
    """The request that was entered last, and the causes of its misses."""

    request: ReportedRequest
    causes: frozenset[MissCause]


class _OpenMiss(NamedTuple):
    """A miss, the cause so far, and the row that has it beside the sums of all."""

    request: str
    model: str | None
    cause: MissCause
    of_block: MissCause
    """The cause where it is the rest of a block."""
    sums: CauseSum
    row: MissTotals | None


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
    short: int = 0
    """Requests without a reported read whose text is too short for their reported tokens."""
    unruled: int = 0
    """Requests for whose models no cache rules are known."""
    counted_twice: int = 0
    """Requests whose log counts tokens of their prompts twice."""
    local_times: int = 0
    """Requests whose time has no zone, and (`zoned_times`) those whose time has one."""
    zoned_times: int = 0
    compared: int = 0
    """Requests with a whole prompt and a prediction; of `contradicted` more was read than the rules allow."""
    contradicted: int = 0
    expired: int = 0
    """Misses that expired; for `too_long` the gap is longer than any time to live that the provider offers."""
    too_long: int = 0
    diagnosed: int = 0
    """Misses whose cause the provider reports; for `same_diagnosis` kvtool's own evidence gives the same cause."""
    same_diagnosis: int = 0
    marked: int = 0
    """Requests in which marks of the user decide what is stored, and whose marks the log holds."""
    _agreement: dict[str, list[int]] = field(default_factory=dict)
    """By group, its requests with a whole prompt, and those whose report is the prediction, to a block or to rounding."""
    _changed: set[tuple[str, str]] = field(default_factory=set)
    """Groups, and parts of their requests of which reports prove that a change in them was not read."""
    _states: PromptStates = field(default_factory=PromptStates)
    _events: MissEvents = field(default_factory=MissEvents)
    _keys: set[CacheKey] = field(default_factory=set)
    _searches: dict[str | None, FieldSearch] = field(default_factory=dict)
    """By model, as no model reads what another one stored."""
    _wrote: dict[str | None, tuple[int, int]] = field(default_factory=dict)
    """By model, all tokens that were read, and written."""
    _steps: dict[str | None, ReadStep] = field(default_factory=dict)
    """By model, the step in which its reads grow."""
    _trials: HypothesisTrials = field(default_factory=HypothesisTrials)
    _open: dict[int, _OpenMiss] = field(default_factory=dict)
    """By number, misses that a rerun may explain."""
    _by_key: MissesByKey | None = field(init=False)
    _compactions: Compactions = field(default_factory=Compactions)
    _timelines: SessionTimelines = field(default_factory=SessionTimelines)
    latest: LatestRequest | None = None
    _tested: tuple[Hypothesis | None, Explained] | None = None
    """The hypothesis that explains misses, and which ones; None: not tested yet."""

    def __post_init__(self) -> None:
        self._by_key = None if self.by is None else MissesByKey(self.by)

    def leave_out(self, job: Job) -> None:
        """Enter a request for whose model no cache rules are known: its report is a fact all the same."""
        self.unruled += 1
        self._add(job, None, None)

    def end(self, job: Job, entry: LedgerEntry | None, served: ServedRequest) -> None:
        self._add(job, entry, served)

    def _add(self, job: Job, entry: LedgerEntry | None, served: ServedRequest | None) -> None:
        request = ReportedRequest.of(job, entry, served)
        if request is None:
            self.total.unreported += 1
            if self._by_key is not None:
                self._by_key.leave_out(job.turn, self.epoch)
            self.short += is_short(job)
            return
        self.counted_twice += job.turn.call.counted_twice
        self.epoch = job.turn.epoch if self.epoch is None else self.epoch
        if len(self._keys) < _MOST_KEYS:
            self._keys.add(request.key)
        self._judge_rules(request)
        self.local_times += request.is_local
        self.zoned_times += request.now is not None and not request.is_local
        turn = job.turn
        donor = None if entry is None or entry.alignment is None else entry.alignment.donor
        found = self._states.find(request.names, request.key, turn.session, None if donor is None else donor.turn)
        shares = found.shared <= found.shared_session or has_own_text(job, found.shared, LEAST_TOKENS)
        earlier = found if shares else found.of_session()
        like = earlier.session or earlier.any
        compared = ComparedRequest(
            request,
            earlier,
            request_forms(job, () if like is None else like.forms),
            tool_forms(turn.tools, () if like is None else like.tools),
            self.hosted and (served is not None or _may_be_hosted(turn.call)),
            cached=served is not None or self._is_cached(request),
        )
        cuts, begins = prefix_cuts(compared.before, compared.forms, job)
        compared = replace(compared, reasons=begins is not None)
        parts = compared.parts()
        if request.read and (len(self._steps) < _MOST_MODELS or request.call.model in self._steps):
            self._steps.setdefault(request.call.model, ReadStep()).add(request.read)
        if self._trials.has_given_up:  # else all are judged at the end, when the step is known
            parts = [self._in_steps(request, part) for part in parts]
        self.latest = LatestRequest(request, frozenset(part.found.cause for part in parts))
        state = request.state_after(
            compared.before,
            self.epoch,
            compared.forms,
            compared.tools,
            begins,
            tells_writes=self._tells_writes(request),
        )
        self._enter(compared, parts, state, cuts)
        self._compare_diagnosis(compared)
        self._search_fields(compared, parts)
        self._states.add(state, turn)

    def _is_cached(self, request: ReportedRequest) -> bool:
        """Return whether the log has a read or a write of the request's model up to here."""
        return any((request.read, request.usage.all_written, *self._wrote.get(request.call.model, ())))

    def _tells_writes(self, request: ReportedRequest) -> bool:
        """Return whether writes of its model are reported: agents log 0 where a provider stores all prompts and reports none, and
        reads without any write show it."""
        model, wrote = request.call.model, request.usage.all_written or 0
        if len(self._wrote) < _MOST_MODELS or model in self._wrote:
            read, written = self._wrote.get(model, (0, 0))
            self._wrote[model] = read + request.read, written + wrote
        read, written = self._wrote.get(model, (0, 1))
        return not read or bool(written)

    def _enter(
        self,
        compared: ComparedRequest,
        parts: list[MissPart],
        state: PromptState,
        cuts: PrefixCuts,
    ) -> None:
        """Enter a request and its misses in the sums, the events and the replays."""
        request, earlier = compared.request, compared.earlier
        turn, usage, rates = request.job.turn, request.usage, self._rates(request)
        missed = [request.priced(part.found.cause, part.tokens, rates) for part in parts]
        paid = None if rates is None else request.paid(rates)
        written, judged = usage.all_written or 0, compared.is_judged
        whole = MissedRequest(request.prompt, request.read, written, paid, request.now, missed, judged)
        self.total.add(whole)
        row = None if self._by_key is None else self._by_key.add(turn, whole, self.epoch)
        first = self._events.count
        self._timelines.add(turn.session, request.job.request.id, whole, first + 1)
        shared = max(earlier.shared_session, earlier.shared_same_cache) // CHUNK
        prefix = f"{request.names[shared - 1]:016x}" if shared else None
        for part, each in zip(parts, missed, strict=True):
            self._events.add(request, part, each.cost, prefix)
            if part.found.certainty == "proven" and part.found.place is not None and each.cause != "expired":
                place = part.found.place.removeprefix(place_in_record(turn, ""))
                self._changed.add((turn.group, part_of_place(place)))
            if each.cause == "expired" and part.gap is not None and request.rules is not None:
                self.expired += 1
                self.too_long += part.gap > max((request.rules.ttl or 0.0, *request.rules.tiers))
            if each.cause in RERUN_CAUSES and part.found.certainty != "proven" and self._reruns(request):
                misses = CauseSum(1, each.tokens, whole.written, each.cost)
                of_block = rest_of_block(request.read, 0).cause
                of_log = request.job.request.id, request.call.model
                self._open[self._events.count] = _OpenMiss(*of_log, each.cause, of_block, misses, row)
        if self._reruns(request):
            numbers: dict[MissCause, tuple[int, ...]] = {}
            for number, each in enumerate(missed, first + 1):
                numbers[each.cause] = (*numbers.get(each.cause, ()), number)
            self._trials.add(request.kept_read(numbers, state, cuts))
            if self._trials.has_given_up:
                self._open.clear()
        self._compact(compared, rates)
        if rates is not None and request.call.summed is None:
            expired = sum(part.tokens - part.blocked for part in parts if part.found.cause == "expired")
            before = compared.before
            if before is not None and before.key != request.key:  # what is read was stored by one of the same cache
                before = earlier.same_cache
            gap = None if before is None else request.gap_after(before)
            for totals in (self.total, *([] if row is None else [row])):
                totals.replay.add(usage, request.answer, rates, before, gap, expired, model=request.call.model)

    def _reruns(self, request: ReportedRequest) -> bool:
        """Return whether hypotheses are tested on a request: its prompt is whole, and the log is not too long for them."""
        return request.whole and not self._trials.has_given_up

    def _compare_diagnosis(self, compared: ComparedRequest) -> None:
        """Count whether kvtool's own evidence gives the cause that the provider reports."""
        missed = compared.request.call.missed
        reported = None if missed is None else cause_of_report(missed)
        if reported is not None:
            self.diagnosed += 1
            self.same_diagnosis += reported.cause in compared.own_causes()

    def _search_fields(self, compared: ComparedRequest, parts: list[MissPart]) -> None:
        """Enter the fields of a record as those of a miss without a known cause, or of a hit."""
        turn = compared.request.job.turn
        if turn.call.fields:
            causes = {self._in_steps(compared.request, part).found.cause for part in parts}
            missed = not causes.isdisjoint(UNEXPLAINED)
            hit = compared.before is not None and causes.issubset(_NEVER_STORED)
            if len(self._searches) < _MOST_MODELS or turn.call.model in self._searches:
                search = self._searches.setdefault(turn.call.model, FieldSearch())
                search.add(turn.session, turn.call.fields, missed=missed if missed or hit else None)

    def _judge_rules(self, request: ReportedRequest) -> None:
        """Count what the log lacks, and whether the documented rules allow what was read."""
        rules, prediction = request.rules, request.prediction
        if request.lack is not None:
            self.unknown[request.lack] = self.unknown.get(request.lack, 0) + 1
        elif prediction is not None:
            self.compared += 1
            self.contradicted += request.read - prediction.cached > max(request.least, prediction.error)
        if (predicted := request.predicted) is not None:
            counts = self._agreement.setdefault(request.job.turn.group, [0, 0])
            counts[0] += 1
            counts[1] += abs(predicted - request.read) <= request.least
        self.marked += request.lack is None and rules is not None and rules.keeps == "breakpoints"

    def _compact(self, compared: ComparedRequest, rates: Rates | None) -> None:
        """Enter a request in the compactions of its session."""
        request, earlier = compared.request, compared.earlier
        before, session, now = earlier.session, request.job.turn.session, request.now
        if before is None or session is None:
            return
        shorter = request.own_tokens < before.own_tokens and earlier.shared_session < before.own_tokens - LEAST_TOKENS
        if not shorter or request.lack is None:
            self._compactions.continued(session)
            return
        from kvtool.accounting.prices.price_row import MILLION

        of_token = None if rates is None else (request.above_read(rates) / MILLION, rates.read / MILLION)
        prompts = before.prompt, request.prompt
        self._compactions.compacted(
            request.job.request.id, session, now, prompts=prompts, read=request.read, rates=of_token
        )

    def _rates(self, request: ReportedRequest) -> Rates | None:
        """Return the rates of a request; None where no price is known."""
        if self.money is None:
            return None
        moment = None if request.now is None else moment_of(self.epoch, request.now)
        return self.money.rates_of(request.call, request.prompt, moment)

    def _explain(self) -> tuple[Hypothesis | None, Explained]:
        """Test hypotheses by reruns, once, and give the misses that one explains their cause."""
        if self._tested is None:
            self._take(*(self._trials.found(hosted=self.hosted) or (None, {})))
        assert self._tested is not None
        return self._tested

    def explain_evictions(self, found: Hypothesis, requests: Collection[str]) -> None:
        """Give the misses of these requests that nothing else explains their cause: a rerun with a smaller cache."""
        open_ones = [(number, each.request) for number, each in self._open.items() if each.cause in UNEXPLAINED]
        explained: Explained = {number: ("unknown", "evicted") for number, request in open_ones if request in requests}
        if explained:
            self._take(found.model_copy(update={"misses": len(open_ones), "explained": len(explained)}), explained)

    def _take(self, hypothesis: Hypothesis | None, explained: Explained) -> None:
        explained = {number: causes for number, causes in explained.items() if number in self._open}
        if hypothesis is None:
            explained = {
                number: (each.cause, each.of_block)
                for number, each in self._open.items()
                if each.cause in UNEXPLAINED and each.sums.tokens < self._step_of(each.model)
            }
        self._tested = hypothesis, explained
        for number, (was, cause) in explained.items():
            miss = self._open[number]
            for totals in (self.total, *([] if miss.row is None else [miss.row])):
                totals.explain(miss.sums, was, cause)

    def _step_of(self, model: str | None) -> int:
        """Return the step in which the reads of a model grow, as its reports show; 0 where they do not."""
        step = self._steps.get(model)
        return 0 if step is None else step.known or 0

    def _in_steps(self, request: ReportedRequest, part: MissPart) -> MissPart:
        """Return a miss without a known cause as the rest of a block, where it is less than the step in which reads grow."""
        step = self._step_of(request.call.model)
        if part.found.cause not in UNEXPLAINED or part.tokens >= step:
            return part
        return replace(part, found=rest_of_block(request.read, step))

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
        return 2 * (sum(self.unknown.values()) + self.short) <= self.total.requests + self.total.unreported

    @property
    def rules_hold(self) -> bool:
        """Whether the reports do not contradict the rules: a read of more than they allow shows that they are not followed."""
        return self.contradicted <= max(_MOST_CONTRADICTED * self.compared, 1)

    @property
    def predictable(self) -> bool:
        """Whether rules predict these requests: rules are known, the log holds the prompts, and no report contradicts the rules."""
        is_ruled = self.unruled < self.total.requests + self.total.unreported
        return is_ruled and self.knows_prompts and self.rules_hold

    @property
    def calibrated(self) -> int:
        """Requests with a whole prompt, whose report is compared with the prediction."""
        return sum(whole for whole, _ in self._agreement.values())

    @property
    def agreeing(self) -> int:
        """Those of `calibrated` whose report is the prediction."""
        return sum(agree for _, agree in self._agreement.values())

    @property
    def advisable(self) -> bool:
        """Whether changes can be advised by predictions: these agree with the reports of nearly all requests."""
        return self.predictable and self.agreeing >= _LEAST_AGREEING * self.calibrated

    def proves_change(self, group: str, part: str) -> bool:
        """Return whether reports prove that a change in this part of a group's requests was not read, whatever rules predict."""
        return (group, part_of_place(part)) in self._changed

    @property
    def agreement(self) -> ReportAgreement:
        """Return how well predictions agree with the reports."""
        return ReportAgreement(
            requests=self.calibrated,
            agree=self.agreeing,
            advises=self.advisable,
            differing=[] if self.advisable else self.differing_groups,
        )

    @property
    def differing_groups(self) -> list[str]:
        """The groups of which predictions advise nothing: reports differ, or all of them where the rules predict nothing."""
        if not self.predictable:
            return list(self._agreement)
        return [name for name, (whole, agree) in self._agreement.items() if agree < _LEAST_AGREEING * whole]

    @property
    def knows_marks(self) -> bool:
        """Whether a mark can be missing: not in most requests of logs without marks, or of providers that need none."""
        return not self.total.requests or (2 * self.marked > self.total.requests and self.rules_hold)

    def _separation(self) -> FieldSeparation | None:
        """Return the field that separates best among the requests of one model."""
        searches = list(self._searches.values())
        found = [each for search in searches if (each := search.separation(len(searches))) is not None]
        return min(found, key=lambda each: each.chance, default=None)

    def misses(self) -> CacheMisses | None:
        """Return the sums and events; None where no request reports its reads."""
        total = self.total
        if not total.requests:
            return None
        hypothesis, explained = self._explain()
        blocks = {model: rest_of_block(0, self._step_of(model)).detail for model in self._steps}
        events = self._events.results(hypothesis, explained, blocks)
        by_cause = total.by_cause()
        assert total.missed == sum(each.tokens for each in by_cause.values())
        counted = Counter[MissCause]()
        for event in events:
            counted[event.cause] += event.tokens
        assert counted == {cause: each.tokens for cause, each in by_cause.items()}, "events do not sum to their causes"
        return CacheMisses(
            requests=total.requests,
            prompt_tokens=total.prompt_tokens,
            promised=total.promised,
            read=total.read,
            unjudged=total.unjudged,
            unreported=total.unreported,
            counted_twice=self.counted_twice,
            local_times=self.local_times,
            zoned_times=self.zoned_times,
            by_cause=by_cause,
            events=events,
            unknown_fields=sorted(self.unknown),
            predictable=self.predictable,
            calibration=self.agreement,
            diagnosis=ProviderDiagnosis(misses=self.diagnosed, agree=self.same_diagnosis) if self.diagnosed else None,
            separation=self._separation(),
            hypothesis=hypothesis,
            rule_contradictions=[] if self.rules_hold else [_contradiction(self.contradicted, self.compared)],
            began=self.epoch if moment_of(self.epoch, 0.0) is not None else None,
            rows=None if self._by_key is None else self._by_key.rows(total, self.epoch),
            ttl=total.replay.result(),
            compactions=self._compactions.results(),
            timelines=self._timelines.results(explained),
        )


def _may_be_hosted(call: Call) -> bool:
    from kvtool.accounting.hosted_models import is_hosted  # a workload without logs loads no rules

    return call.model is None or is_hosted(call)


def _contradiction(contradicted: int, compared: int) -> str:
    return (
        f"{contradicted:,} of {plural(compared, 'request')} read more than the documented rules allow, "
        "so nothing is predicted or advised by these rules"
    )
