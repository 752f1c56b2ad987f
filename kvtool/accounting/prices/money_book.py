"""Sums of requests' costs and reads: as reported, by the rules, without a cache. No request is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal

from kvtool.accounting.caches.cache_rules import Prediction
from kvtool.accounting.prices.bill import Bill, Charged, bill_of
from kvtool.accounting.prices.cost_mistakes import CostMistakes
from kvtool.accounting.prices.daily_rates import DailyRates
from kvtool.accounting.prices.price_row import MILLION, PriceRow, Rates
from kvtool.accounting.prices.price_table import PriceTable
from kvtool.accounting.prices.read_difference import difference_of
from kvtool.accounting.prices.storage_book import StorageBook
from kvtool.results.money import MORE_PREDICTED, MORE_REPORTED
from kvtool.results.report import RequestRead
from kvtool.workload.call import Call, StoredContent, Usage


@dataclass(slots=True)
class Read:
    """Requests, their prompt tokens, and those that were read from a cache."""

    requests: int = 0
    prompt: int = 0
    cached: int = 0

    def add(self, prompt: int, cached: int) -> None:
        """Add another request."""
        self.requests += 1
        self.prompt += prompt
        self.cached += cached

    @property
    def rate(self) -> float:
        return self.cached / self.prompt if self.prompt else 0.0


@dataclass(slots=True)
class BilledRequests:
    """The same requests three times."""

    requests: int = 0
    paid: Bill = field(default_factory=Bill)
    predicted: Bill = field(default_factory=Bill)
    without: Bill = field(default_factory=Bill)


@dataclass(slots=True)
class MoneySide:
    """Requests with reported reads, or the others. `told` covers all reports, `reported` those that have a prediction, too."""

    told: Read = field(default_factory=Read)
    reported: Read = field(default_factory=Read)
    predicted: Read = field(default_factory=Read)
    reachable: int = 0
    difference: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    cost: dict[tuple[str, bool], tuple[int, Decimal]] = field(default_factory=dict)
    """Return the tokens charged in full for a cause and their cost; causes of the difference are separate (True)."""
    costs: BilledRequests = field(default_factory=BilledRequests)


class MoneyBook:
    """Take every request with its prediction; a request of an unknown price is counted, and never guessed."""

    def __init__(self, prices: PriceTable) -> None:
        self.prices = prices
        self.groups: dict[str, dict[bool, MoneySide]] = {}
        """Requests with reported reads (True) and the others, by group."""
        self.total = {True: MoneySide(), False: MoneySide()}
        self.requests = 0
        self.summed = 0
        """Those that are rows of a bill, and the requests that these sum as far as they say it."""
        self.summed_requests = 0
        self.daily = DailyRates()
        """Their hit rates by day."""
        self.unpriced: Counter[str] = Counter()
        self.longer_writes: Counter[str] = Counter()
        """Requests that write for longer than any published price says, by model; they have the price of usual writes."""
        self.undated = 0
        self.logged = Decimal(0)
        self.logged_requests = 0
        self.logged_compared = Decimal(0)
        self.logged_priced = Decimal(0)
        """The cost of those with a known price: by the log, and by our prices."""
        self.mistakes = CostMistakes()
        self.currencies: Counter[str] = Counter()
        self.first: float | None = None
        self.last: float | None = None
        self.most_a_minute = 0
        self.last_day: date | None = None
        self.not_stored: list[str] = []
        """Storage without a price, and the reason."""
        self.storage = StorageBook()
        self.used: dict[str, PriceRow] = {}
        """The rows that were used, by model, the latest of each."""

    def add(
        self, group: str, call: Call, prediction: Prediction | None, *, output: int, now: float, moment: datetime | None
    ) -> None:
        """Enter a request that came `now` seconds after the log began, at `moment` of the clock where there is one."""
        self.requests += 1
        if call.summed is not None:
            self.summed += 1
            self.summed_requests += call.summed.requests or 0
        self.storage.use(call, moment)
        self.first = now if self.first is None else min(self.first, now)
        self.last = now if self.last is None else max(self.last, now)
        usage = call.usage if call.usage is not None else Usage()
        reported = usage.prompt is not None and usage.cached is not None
        told = reported or call.was_reported  # an edited request stays among those that it is compared with
        if call.summed is not None and moment is not None and reported:
            self.daily.add(call.model or "", moment.date(), usage.prompt or 0, usage.cached or 0)
        sides = (self.total[told], self.groups.setdefault(group, {True: MoneySide(), False: MoneySide()})[told])
        prompt = usage.prompt if usage.prompt is not None else None if prediction is None else prediction.prompt
        rates = None if prompt is None else self._rates(call, prompt, moment)
        parts = [] if prediction is None or not reported else difference_of(prediction, usage.cached or 0, call)
        if prediction is not None:
            self.most_a_minute = max(self.most_a_minute, prediction.in_a_minute)
        for side in sides:
            if reported:
                side.told.add(usage.prompt or 0, usage.cached or 0)
            if prediction is not None:
                side.predicted.add(prediction.prompt, prediction.cached)
                side.reachable += prediction.cached + sum(tokens for _, tokens in prediction.lost)
                side.lost.update(dict(prediction.lost))
                if reported:
                    side.reported.add(usage.prompt or 0, usage.cached or 0)
                side.difference.update(dict(parts))
        if call.cost is not None:
            self.log(call.cost)
        if rates is None or prompt is None:
            return
        longer = prediction is not None and prediction.written_1h and rates.cache_write_1h is None and rates.writes_cost
        if usage.written_12h or longer:
            self.longer_writes[call.model or ""] += 1
        paid = self._charge(sides, usage, prediction, parts, rates, prompt, output)
        if call.cost is not None:
            self.logged_compared += call.cost
            self.logged_priced += paid
            if (short := self.rates_of(call, 0, moment)) is not None:
                answer = usage.output if usage.output is not None else output
                short_cost = None if short == rates else reported_bill(usage, prompt, answer, short).total
                self.mistakes.add(rates, usage, call.cost, paid, short_cost)

    def _charge(
        self,
        sides: tuple[MoneySide, ...],
        usage: Usage,
        prediction: Prediction | None,
        parts: list[tuple[str, int]],
        rates: Rates,
        prompt: int,
        output: int,
    ) -> Decimal:
        """Enter what a request costs; return what was paid, else what the rules predict."""
        answer = usage.output if usage.output is not None else output
        written = usage.all_written or 0
        paid = reported_bill(usage, prompt, answer, rates)
        without = bill_of(Charged(prompt, output=answer), rates)
        by_rules = paid
        if prediction is not None:
            charged = Charged(prompt, prediction.cached, prediction.written, prediction.written_1h, answer)
            by_rules = bill_of(charged, rates)
        above_read = rates.above_read(written=written, written_1h=usage.written_1h or 0)
        charged_causes = _charged(prediction, parts)
        for side in sides:
            costs = side.costs
            costs.requests += 1
            costs.paid.add(paid)
            costs.predicted.add(by_rules)
            costs.without.add(without)
            for cause, tokens, differs in charged_causes:
                before, cost = side.cost.get((cause, differs), (0, Decimal(0)))
                side.cost[cause, differs] = before + tokens, cost + tokens * above_read / MILLION
        return paid.total if usage.cached is not None else by_rules.total

    def store(self, caches: Iterable[StoredContent]) -> None:
        """Add the cost of explicit caches at the end; `caches` are separate records of caches."""
        self.storage.add_all(caches)
        bill, self.not_stored = self.storage.bill(self.prices)
        costs = self.total[self.told].costs
        if costs.requests:
            costs.paid.add(bill)
            costs.predicted.add(bill)

    def rates_of(self, call: Call, prompt: int, moment: datetime | None) -> Rates | None:
        """Return the rates of a request's model on its day, without counting it; None without a price."""
        row, _ = self._row(call, moment)
        return None if row is None else self._rates_in(row, call, prompt, moment)

    def _row(self, call: Call, moment: datetime | None) -> tuple[PriceRow | None, str]:
        """Return the prices of a request's model on its day; or None, and the way of serving for which the model has no price."""
        row = None if call.model is None else self.prices.row(call.model, call.provider, moment and moment.date())
        way = "batch" if call.settings.batch else call.settings.service_tier
        return (None, f" ({way})") if row is not None and way is not None and not row.tells(way) else (row, "")

    def _rates_in(self, row: PriceRow, call: Call, prompt: int, moment: datetime | None) -> Rates:
        settings = call.settings
        prompt = prompt if call.summed is None else call.summed.prompt
        return self.prices.rates(row, prompt, moment, batch=settings.batch, tier=settings.service_tier)

    def _rates(self, call: Call, prompt: int, moment: datetime | None) -> Rates | None:
        """Return the rates of a request's model on its day, and count it; None without a price."""
        row, way = self._row(call, moment)
        if row is None:
            self.unpriced[f"{call.model or 'no model said'}{way}"] += 1
            return None
        self.undated += moment is None
        if moment is not None:
            day = moment.date()
            self.last_day = day if self.last_day is None else max(self.last_day, day)
        self.currencies[row.currency] += 1
        self.used[call.model or ""] = row
        return self._rates_in(row, call, prompt, moment)

    def log(self, cost: Decimal) -> None:
        """Enter what the log says that a request cost."""
        self.logged += cost
        self.logged_requests += 1

    def cost_of(self, group: str) -> Decimal:
        """Return what the rules predict for a group's requests."""
        return self.groups[group][self.told].costs.predicted.total

    @property
    def told(self) -> bool:
        """Return whether the log reports reads of any request; sums then cover only those, else all."""
        side = self.total[True]
        return side.told.requests > 0 or side.costs.requests > 0

    @property
    def known(self) -> bool:
        """Return whether there are any figures: a model with a price, or reported reads."""
        return self.told or self.total[False].costs.requests > 0


def reported_bill(usage: Usage, prompt: int, answer: int, rates: Rates) -> Bill:
    """Return the cost of a request with this prompt and answer, in tokens, by what its usage says of reads and writes."""
    written = usage.all_written or 0
    return bill_of(Charged(prompt, usage.cached or 0, written, usage.written_1h or 0, answer), rates)


def _charged(prediction: Prediction | None, parts: list[tuple[str, int]]) -> list[tuple[str, int, bool]]:
    """Return the causes of tokens charged in full: those of the difference, and those of the rules as far as it was not read
    all the same."""
    found = [(cause, tokens, True) for cause, tokens in parts if cause in MORE_PREDICTED]
    read = sum(tokens for cause, tokens in parts if cause in MORE_REPORTED)
    for cause, tokens in () if prediction is None else prediction.lost:
        left = max(tokens - read, 0)
        read -= tokens - left
        if left:
            found.append((cause, left, False))
    return found


def request_read(call: Call, prediction: Prediction) -> RequestRead:
    """Return one request's reads, reported beside predicted."""
    reported = None if call.usage is None else call.usage.cached
    return RequestRead(
        prompt_tokens=prediction.prompt,
        predicted_tokens=prediction.cached,
        reported_tokens=reported,
        difference={} if reported is None else dict(difference_of(prediction, reported, call)),
    )
