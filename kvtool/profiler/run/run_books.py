"""The small books of a run: hits, times, counters, rows, prices, decode steps, tenants' salts, KV events."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtool.accounting.book import Book
from kvtool.accounting.decode_traffic import ConversationWindows, SampledSteps
from kvtool.accounting.event_writer import EventWriter
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.accounting.ledger.traced_batch import TracedBatch
from kvtool.accounting.log_clock import moment_of
from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.server import ServedRequest, Server
from kvtool.engine.blocks.chain_numbers import Chain
from kvtool.engine.prediction.latency import PrefillTimes
from kvtool.engine.runner import DryRunner
from kvtool.engine.step import Runner
from kvtool.results.report import RequestRead, RequestRow
from kvtool.results.run_times import Decode
from kvtool.workload.call import FEWER
from kvtool.workload.jobs import Job
from kvtool.workload.kept_requests import KeptRequests, KeptTrace
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.accounting.caches.cache_rules import Prediction
    from kvtool.accounting.prices.money_book import MoneyBook
    from kvtool.accounting.prices.price_table import PriceTable

_MOST_SALTS = 10_000
"""Bound for hostile logs: no real log has so many tenants whose exact number matters."""

Hits = dict[tuple[str, str, int], list[int]]
"""Hit tokens by group, request id and turn; a log may use an id again."""


def hits_key(job: Job) -> tuple[str, str, int]:
    """Return the key of a request in `Hits`."""
    return job.turn.group, job.request.id, job.turn.index


class HitBook(Book):
    """Keep the hit tokens of each request, for the ledger of a later run."""

    takes_batches = False

    def __init__(self) -> None:
        self.hits: Hits = {}

    def end(self, job: Job, _entry: LedgerEntry | None, served: ServedRequest) -> None:
        self.hits.setdefault(hits_key(job), []).append(served.hit)


@dataclass(slots=True)
class ModelSums:
    """Sums over the requests that name one model."""

    requests: int = 0
    hit_tokens: int = 0


class TimeBook(Book):
    """Keep the seconds to the first token of each request: on the server's clock, or predicted for a request alone.

    They are those of the model that the request names; there are none where it is unknown.
    """

    def __init__(self, plan: Plan, *, has_clock: bool) -> None:
        self._plan = plan
        self._prefills: dict[str | None, PrefillTimes | None] = {}
        self._has_clock = has_clock
        self.models: dict[str | None, ModelSums] = {}
        """Sums by the model that requests name; None where they name none."""
        self.groups: dict[str, array[float]] = {}
        """Times with the cache, by group."""
        self.off: array[float] = array("d")
        """Without the cache; empty where the server has a clock."""
        self.computed: array[int] = array("q")
        """Prompt tokens that were computed."""

    @property
    def on(self) -> array[float]:
        """The times with the cache, of all groups."""
        together = array("d")
        for times in self.groups.values():
            together.extend(times)
        return together

    def end(self, job: Job, _entry: LedgerEntry | None, served: ServedRequest) -> None:
        group, tokens, model = job.turn.group, job.request.num_prompt_tokens, job.turn.call.model
        self._sum(model, served.hit)
        if not self._has_clock:
            self._add_alone(group, tokens, served.hit, model)
        elif served.waited is not None:
            on_clock = self._plan.sized and self._plan.latency_of(model) is self._plan.latency
            self._add(group, served.waited if on_clock else None, tokens - served.hit)

    def add_batch(self, batch: TracedBatch) -> None:
        rows = batch.rows()
        for number, tokens, hit in zip(rows.group.tolist(), rows.tokens.tolist(), rows.hit.tolist(), strict=True):
            self._sum(None, hit)
            self._add_alone(batch.groups[number], tokens, hit, None)

    def _sum(self, model: str | None, hit: int) -> None:
        sums = self.models.get(model)
        if sums is None:
            sums = self.models[model] = ModelSums()
        sums.requests += 1
        sums.hit_tokens += hit

    def _add_alone(self, group: str, tokens: int, hit: int, model: str | None) -> None:
        """Add a request that has the server for itself: at least its last token is computed."""
        if model not in self._prefills:
            latency, budget = self._plan.latency_of(model), self._plan.engine.max_num_batched_tokens
            self._prefills[model] = None if latency is None else PrefillTimes(latency, budget)
        prefill = self._prefills[model]
        if prefill is None:
            self._add(group, None, tokens - hit)
            return
        off, used = prefill.seconds(tokens, 0), min(hit, tokens - 1)
        self._add(group, prefill.seconds(tokens, used) if used else off, tokens - hit)
        self.off.append(off)

    def _add(self, group: str, seconds: float | None, computed: int) -> None:
        if seconds is not None:
            self.groups.setdefault(group, array("d")).append(seconds)
        self.computed.append(computed)


class CounterBook(Book):
    """Count a server's metrics other than its lookups."""

    def __init__(self, *, may_skip_cache: bool) -> None:
        """Create the book. `may_skip_cache`: the server has requests without a lookup, as vLLM does."""
        self._may_skip_cache = may_skip_cache
        self.generation_tokens = 0
        self.uncounted = 0
        """Requests without a lookup, so that no counter of their server includes them."""
        self.uncounted_tokens = 0
        """Prompt tokens of these."""
        self.short = 0
        """Requests of which the log has far less text than their reported tokens need."""

    def end(self, job: Job, _entry: LedgerEntry | None, _served: ServedRequest) -> None:
        self.generation_tokens += len(job.request.outputs)
        self.short += job.turn.call.incomplete == FEWER and _is_short(job)
        if self._may_skip_cache and job.request.skip_reading_cache:
            self.uncounted += 1
            self.uncounted_tokens += job.request.num_prompt_tokens

    def add_batch(self, batch: TracedBatch) -> None:
        self.generation_tokens += int(batch.rows().outputs.sum())


def _is_short(job: Job) -> bool:
    from kvtool.accounting.misses.reported_request import is_short

    return is_short(job)


class SaltBook(Book):
    """Keep the cache salts that the rules of a run do not know; of many, only the first ones."""

    def __init__(self) -> None:
        self.salts: set[str] = set()

    def begin(self, job: Job, _entry: LedgerEntry | None) -> None:
        if job.turn.salt and len(self.salts) < _MOST_SALTS:
            self.salts.add(job.turn.salt)


class RowBook(Book):
    """Keep a row of each request, for reports with `--per-request`."""

    takes_batches = False

    def __init__(self) -> None:
        self.rows: list[RequestRow] = []

    def end(self, job: Job, _entry: LedgerEntry | None, served: ServedRequest) -> None:
        row = RequestRow(
            id=job.request.id,
            group=job.turn.group,
            prompt_tokens=job.request.num_prompt_tokens,
            hit_tokens=served.hit,
            provider=_read(job, served.prediction),
        )
        self.rows.append(row)


def _read(job: Job, prediction: Prediction | None) -> RequestRead | None:
    if prediction is None:
        return None
    from kvtool.accounting.prices.money_book import request_read

    return request_read(job.turn.call, prediction)


class PriceBook(Book):
    """Sum the costs of requests, if a provider's rules apply."""

    def __init__(self, money: MoneyBook, epoch: float | None) -> None:
        """Create the book. `epoch`: seconds of the clock at which the log begins."""
        self.money = money
        self._epoch = epoch

    def leave_out(self, job: Job) -> None:
        self._add(job, None, job.turn.arrival or 0.0)

    def end(self, job: Job, _entry: LedgerEntry | None, served: ServedRequest) -> None:
        if served.prediction is not None:
            self._add(job, None if self._lacks_prompt(job) else served.prediction, job.request.arrival)

    def _lacks_prompt(self, job: Job) -> bool:
        """Return whether the log has no whole prompt, but the report of what was read: a prediction would contradict it."""
        call = job.turn.call
        if call.usage is None or call.usage.prompt is None or call.usage.cached is None:
            return False
        if call.incomplete is None and not call.loops:
            return False
        from kvtool.accounting.misses.reported_request import lack_of

        return lack_of(job) is not None

    def _add(self, job: Job, prediction: Prediction | None, now: float) -> None:
        turn, moment = job.turn, moment_of(self._epoch, now)
        self.money.add(turn.group, turn.call, prediction, output=job.logged_output, now=now, moment=moment)


class ProvidersBill(Book):
    """Sum the costs of requests to providers that a run of the user's own server leaves out, and those that its log says."""

    def __init__(self, prices: Callable[[], PriceTable]) -> None:
        """Create the book. `prices` are loaded for the first of these requests: most logs of own servers have none."""
        self.money: MoneyBook | None = None
        self.own_requests = 0
        self._prices = prices

    def end(self, job: Job, _entry: LedgerEntry | None, _served: ServedRequest) -> None:
        self.own_requests += 1
        if (cost := job.turn.call.cost) is not None:
            self._book().log(cost)

    def leave_out(self, job: Job) -> None:
        turn = job.turn
        now = turn.arrival or 0.0
        moment = moment_of(turn.epoch, now)
        self._book().add(turn.group, turn.call, None, output=job.logged_output, now=now, moment=moment)

    def _book(self) -> MoneyBook:
        if self.money is None:
            from kvtool.accounting.prices.money_book import MoneyBook

            self.money = MoneyBook(self._prices())
        return self.money


class DecodeBook(Book):
    """Sample the reads of decode steps: those of the run, or of conversations that would decode together."""

    def __init__(self, plan: Plan) -> None:
        self._windows = ConversationWindows(plan)
        self._steps = None if plan.one_at_a_time else SampledSteps(plan, DryRunner())
        self.decode: Decode | None = None

    @property
    def runner(self) -> Runner | None:
        """The runner that measures the steps of the run; None for requests one at a time."""
        return self._steps

    def end(self, job: Job, _entry: LedgerEntry | None, _served: ServedRequest) -> None:
        self._windows.add(job.turn, job.request)

    def add_numbered(self, turn: Turn, chain: Chain) -> None:
        assert turn.hashed is not None
        self._windows.add_numbered(turn.hashed.num_tokens, chain.numbers)

    def close(self) -> None:
        traffic = None if self._steps is None else self._steps.traffic()
        self.decode = self._windows.traffic() if traffic is None else traffic


class KeptBook(Book):
    """Keep the requests, for runs that try something else."""

    def __init__(self, kept: KeptTrace | KeptRequests) -> None:
        self._kept = kept
        self.takes_batches = isinstance(kept, KeptTrace)

    def begin(self, job: Job, _entry: LedgerEntry | None) -> None:
        self._kept.add(job.turn, job.chain)

    def add_numbered(self, turn: Turn, chain: Chain) -> None:
        self._kept.add(turn, chain)


class EventFile(Book):
    """Write a server's KV events to a file."""

    takes_batches = False

    def __init__(self, writer: EventWriter, server: Server) -> None:
        self._writer = writer
        self._server = server

    def end(self, _job: Job, _entry: LedgerEntry | None, _served: ServedRequest) -> None:
        self.close()

    def close(self) -> None:
        """Write the events since the last time."""
        self._writer.write(self._server.take_events())
