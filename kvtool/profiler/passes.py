"""One pass over a workload: every request through the engine as configured, every token into the ledger."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvtool.accounting.boundary import BoundaryBook
from kvtool.accounting.caches.cache_rules import Prediction
from kvtool.accounting.decode_traffic import ConversationWindows, SampledSteps
from kvtool.accounting.event_writer import EventWriter
from kvtool.accounting.ledger.ledger import Ledger, LedgerEntry
from kvtool.accounting.ledger.totals import TokenTotals
from kvtool.accounting.log_clock import moment_of
from kvtool.accounting.observable import ObservableBook
from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.choose import choose_server
from kvtool.accounting.servers.server import ByNumber, Rungs, ServedRequest
from kvtool.accounting.views.collector import ViewBook
from kvtool.diagnose.causes import CauseBook
from kvtool.diagnose.shared_secrets import SensitiveBook
from kvtool.engine.engine_error import EngineError
from kvtool.engine.prediction.latency import PrefillTimes
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.errors import KvtoolError, MessageRefusedError
from kvtool.fixes.fix import CombinedFixes
from kvtool.profiler.cause_sample import Looks
from kvtool.profiler.compared_ahead import ComparedAhead
from kvtool.profiler.samples import SampleBook
from kvtool.results.choices import By
from kvtool.results.report import RequestRead, RequestRow
from kvtool.results.run_times import Decode
from kvtool.text.terminal.interrupts import Shield, uninterrupted
from kvtool.text.terminal.numbers import percent
from kvtool.text.terminal.progress import Progress
from kvtool.workload.ahead.ahead import read_ahead
from kvtool.workload.ahead.divided import divided
from kvtool.workload.drive import (
    NO_ANSWER,
    Rewrite,
    first_turns,
    rewritten,
)
from kvtool.workload.jobs import Job, JobMaker, Prepared, TokensTurn
from kvtool.workload.kept_requests import KeptRequests, KeptTrace
from kvtool.workload.turn import Conversation, Output, Source, Turn

if TYPE_CHECKING:
    from kvtool.accounting.caches.provider_cache import ProviderCache
    from kvtool.accounting.prices.money_book import MoneyBook
    from kvtool.profiler.reported.beside_events import BesideEvents
    from kvtool.profiler.reported.server_reads import ServerReads
    from kvtool.profiler.trace_run import TraceRun

_FAILED = 400
"""The first status that says that a request failed."""

_MOST_SALTS = 10_000
"""Salts that are counted where rules leave them out."""

Hits = dict[tuple[str, str, int], list[int]]
"""Hit tokens by group, request id and turn; a log may use an id again."""


@dataclass(slots=True)
class PassResult:
    """What one pass over the workload found."""

    ledger: Ledger
    causes: CauseBook
    boundaries: BoundaryBook
    sensitive: SensitiveBook = field(default_factory=SensitiveBook)
    ttft: dict[str, array[float]] = field(default_factory=dict)
    """Predicted seconds to the first token of each request, cache on, by group."""
    ttft_off: array[float] = field(default_factory=lambda: array("d"))
    computed: array[int] = field(default_factory=lambda: array("q"))
    """Tokens of each prompt that were computed, of the requests whose times are known."""
    rows: list[RequestRow] = field(default_factory=list)
    refused: int = 0
    failed: dict[int, int] = field(default_factory=dict)
    """Requests that their server refused or failed, by status: no traffic of its cache."""
    unpredicted: dict[str, int] = field(default_factory=dict)
    """Requests left out by model, as nothing is known of how it is cached."""
    first_refusal: str = ""
    routed: int = 0
    """Requests that a router gave to replicas, `keyless` of them of no session and no tenant."""
    keyless: int = 0
    evictions: int = 0
    preemptions: int = 0
    queries: int = 0
    """Tokens that the scheduler looked up, and `hit_queries` those it found, each request once."""
    hit_queries: int = 0
    generation_tokens: int = 0
    filled_blocks: int = 0
    peak_used_blocks: int = 0
    partial: bool = False
    hits: Hits = field(default_factory=dict)
    decode: Decode | None = None
    samples: SampleBook = field(default_factory=SampleBook)
    """Turns of each group, where causes were looked for."""
    views: ViewBook | None = None
    """What reports draw, where it was asked for."""
    hosted: ProviderCache | None = None
    """The cache of a provider, as the run left it."""
    observable: ObservableBook = field(default_factory=ObservableBook)
    """What tenants hit of each other's, in the first pass."""
    money: MoneyBook | None = None
    """What requests cost, and what was reported of them, where a provider's rules are followed."""
    reads: ServerReads | None = None
    """What servers reported of requests that the embedded engine ran."""
    uncounted: int = 0
    """Requests that look nothing up, so that no counter of their server has them, and `uncounted_tokens` of their prompts."""
    uncounted_tokens: int = 0
    unsalted: set[str] = field(default_factory=set)
    """Salts that the rules of the run leave out; of many the first."""
    told_reads: list[int] = field(default_factory=list)
    """Of the requests that their servers told of, the numbers of their rows."""

    @property
    def ttft_on(self) -> array[float]:
        """Those of all groups."""
        together = array("d")
        for times in self.ttft.values():
            together.extend(times)
        return together

    def forget_requests(self) -> None:
        """Keep totals and causes, and nothing that grows with the requests: several such results are kept side by side."""
        self.ledger.forget_requests()
        self.hosted = None
        self.ttft, self.ttft_off, self.rows, self.hits = {}, array("d"), [], {}
        self.computed = array("q")

    def add_ttft(self, group: str, seconds: float, computed: int) -> None:
        """What a request would wait, or did wait on the virtual clock, for so many tokens."""
        self.ttft.setdefault(group, array("d")).append(seconds)
        self.computed.append(computed)


class Pass:
    """Takes jobs through the engine as configured and writes every token into the ledger."""

    def __init__(
        self,
        plan: Plan,
        maker: JobMaker,
        *,
        progress: Progress,
        explain: bool = True,
        per_request: bool = False,
        kinder_hits: Sequence[tuple[str, Hits]] = (),
        keep_hits: bool = False,
        rewrite: Rewrite | None = None,
        events: EventWriter | None = None,
        look_at_decode: bool = False,
        by: By | None = None,
        one_in: Mapping[str, int] | None = None,
        views: ViewBook | None = None,
        only_hits: bool = False,
        only_causes: bool = False,
        keep: KeptTrace | KeptRequests | None = None,
        jobs: int | None = 1,
        money: MoneyBook | None = None,
        timed: bool = False,
        beside: BesideEvents | None = None,
    ) -> None:
        """`explain` looks for causes; `kinder_hits` are those of passes with `keep_hits` by kinder rules, in
        the order of the ladder, each with the fate of what it adds.

        `rewrite` changes every turn before it is used; `events` gets what happens to the cache. `look_at_decode` finds out what
        decode steps read. `by` asks the ledger for sums by session, tenant or line, too. `one_in` has causes looked for in a part
        of large groups (see `Looks`), and the tokens of causes are then those of the whole group as this part tells them.
        `views` collects what reports draw. With `only_hits` nothing is counted but what hits, and what `kinder_hits` and times
        of requests that run together need: no token has a fate. With `only_causes` causes are looked for beside that, and no more.
        `money` sums what requests cost, where a provider's rules are followed. `keep` takes the requests for later passes, `beside`
        those whose reuse a server's events show. `jobs` processes may work on it, None: as many as pay.
        """
        self.jobs = jobs
        self.money = money
        self.timed = timed
        """Whether times are predicted, whatever else is counted."""
        self.keep = keep
        self.events = events
        self.beside = beside
        self.rewrite = rewrite
        self.plan = plan
        self.maker = maker
        self.progress = progress
        self.per_request = per_request
        self.kinder_hits = kinder_hits
        self.keep_hits = keep_hits
        self.only_hits = only_hits
        self.only_causes = only_causes
        self.first_look = explain and rewrite is None
        """Whether all is collected that only the run of the prompts as they are has to tell."""
        self._ahead: ComparedAhead | None = None
        self._one_in = one_in or {}
        self._looks = Looks(self._one_in)
        numbers = maker.numbers
        dry = DryRunner()
        look_at_decode = look_at_decode and plan.engine.plan is None  # windows and states are read otherwise
        self._windows = ConversationWindows(plan) if look_at_decode else None
        self._steps = SampledSteps(plan, dry) if look_at_decode and not plan.one_at_a_time else None
        self.server = choose_server(
            plan,
            self._steps or dry,
            numbers=numbers,
            record_events=events is not None,
            ladder=not (only_hits or only_causes),
        )
        self._traits = self.server.traits
        ledger = Ledger(
            plan.base_block,
            newline=lambda: maker.renderer.tokenizer.newline_mask,
            caching=plan.engine.enable_prefix_caching,
            whole_prompt_may_hit=self._traits.whole_prompt_may_hit,
            find_gaps=explain,
            by=by,
            watcher=views,
            fates=not only_causes,
            salted=self._traits.salted,
            moves=self._traits.moves,
        )
        boundaries = BoundaryBook(plan.base_block, whole_prompt_may_hit=self._traits.whole_prompt_may_hit)
        causes = CauseBook(lambda ids: maker.renderer.tokenizer.decode(ids), block_size=plan.base_block)
        self.result = PassResult(ledger, causes, boundaries, views=views)
        self._entries: dict[int, LedgerEntry] = {}
        self._untold = 0
        """Requests before the first of which a server told what it read."""
        self._shield = Shield()
        self._prefill = PrefillTimes(plan.latency, plan.engine.max_num_batched_tokens)
        self._by_number = self.server.by_number
        self._trace: TraceRun | None = None
        """Takes requests that are like most of a trace, as long as all are."""
        wants_each = per_request or keep_hits or kinder_hits or by is not None or beside is not None or only_causes
        if (
            numbers is not None
            and self._by_number is not None
            and not wants_each
            and not (views is not None and views.details)
            and not isinstance(keep, KeptRequests)
        ):
            from kvtool.profiler.trace_run import TraceRun

            self._trace = TraceRun(
                plan,
                numbers,
                self._by_number.serve_chain,
                self.result,
                self._prefill,
                follows_engine=self._traits.follows_engine,
                windows=self._windows,
                keep=keep,
                only_hits=only_hits,
                first_look=self.first_look,
                timed=timed or not only_hits,
            )

    def run(self, source: Source) -> PassResult:
        """One pass over the source. Ctrl-C ends it early; the result is then marked partial."""
        if self.first_look:
            self.progress.tells(self._rate_so_far)
        try:
            with self._shield.installed(), self._conversations(source) as conversations:
                if self._trace is not None and self._by_number is not None:
                    self._take_trace(self._by_number, first_turns(conversations, self.plan.limit))
                else:
                    self.server.drive(conversations, self)
        except KeyboardInterrupt:
            self.result.partial = True
            for entry in self._entries.values():
                self.result.ledger.drop(entry)
        self._drain()
        with uninterrupted():
            self._enter_trace()
        result = self.result
        if not (self.only_hits or self.only_causes):
            result.ledger.close()
        for group, weight in self._looks.weights():
            result.causes.scale(group, weight)
        counts = self.server.counts()
        result.queries += counts.queries
        result.hit_queries += counts.hit_queries
        result.evictions, result.preemptions = counts.evictions, counts.preemptions
        result.filled_blocks, result.peak_used_blocks = counts.filled_blocks, counts.peak_used_blocks
        result.routed, result.keyless, result.hosted = counts.routed, counts.keyless, counts.hosted
        if self.plan.cache is not None:
            result.money = self.money
        with uninterrupted():
            result.decode = self._decode_traffic()
        return result

    def _rate_so_far(self) -> str:
        self._enter_trace()
        return f"{percent(TokenTotals.of(self.result.ledger.totals()).hit_rate)} hit"

    def _conversations(self, source: Source) -> AbstractContextManager[Iterator[Conversation]]:
        """Those of the source, rewritten; read by another process where much is to be found out about each, in their order."""
        if self.first_look and self._in_order_of_log:
            return read_ahead(source, self.maker, jobs=self.jobs, finds=self._compared_ahead())
        if isinstance(source, KeptRequests) and isinstance(self.rewrite, CombinedFixes) and self._may_divide:
            looks, explain = Looks(self._one_in), self.result.ledger.find_gaps
            whole = [explain and looks.take(turn.group, 1) for turn in source.turns]
            return divided(source, self.rewrite, self.maker, jobs=self.jobs, whole=whole)
        return nullcontext(rewritten(source.conversations(), self.rewrite))

    def _compared_ahead(self) -> ComparedAhead | None:
        """Where each request of a log goes into the ledger, but for those that `takes` knows of."""
        if self.plan.limit is not None or not self._traits.follows_engine or self._one_in:
            return None

        def takes(turn: Turn, made: Prepared) -> bool:
            if turn.call.status is not None and turn.call.status >= _FAILED:
                return False
            prompt = made.prompt
            request = Request("", len(prompt), prompt_ids=prompt.ids, output_ids=made.output, cache_salt=turn.salt)
            try:
                self.server.admit(Job(turn, prompt, request, prompt.ids, 1, ""))
            except EngineError:
                return False
            return True

        self._ahead = ComparedAhead(self.result.ledger, takes)
        return self._ahead

    @property
    def _may_divide(self) -> bool:
        """Whether nothing but its tokens is needed of a request that is not looked at."""
        counted = self.only_hits or self.only_causes
        return counted and self._in_order_of_log and self.plan.cache is None and self.events is None

    @property
    def _in_order_of_log(self) -> bool:
        """Whether requests of tokens run one after another as they stand in the log."""
        plan = self.plan
        return plan.one_at_a_time and not plan.use_arrivals and not plan.traced

    def _decode_traffic(self) -> Decode | None:
        """Of requests that did decode together, or else of conversations that would."""
        traffic = self._steps.traffic() if self._steps is not None else None
        return self._windows.traffic() if traffic is None and self._windows is not None else traffic

    def _take_trace(self, by_number: ByNumber, conversations: Iterator[Conversation]) -> None:
        """One at a time, and many at a time into the books until a request is taken that has more to it."""
        for conversation in conversations:
            previous: Output | None = None
            while (turn := conversation.next_turn(previous)) is not None:
                previous = NO_ANSWER
                if self._trace is not None:
                    with self._shield:
                        taken = self._trace.take(turn)
                    if taken:
                        self.maker.made += 1
                        self.progress.advance(1)
                        continue
                job = self.begin(turn)
                if job is not None:
                    self.end(job, by_number.serve(job, self.entry(job)))
                    previous = job.output()

    def _enter_trace(self) -> None:
        """Enter in the books what was served and waits for that."""
        if self._trace is not None:
            self._trace.flush()

    def begin(self, turn: Turn) -> Job | None:
        """Make a request of a turn and enter it in the books; None where it is left out."""
        status = turn.call.status
        if status is not None and status >= _FAILED:
            self.result.failed[status] = self.result.failed.get(status, 0) + 1
            return None
        try:
            job = self.maker.make(turn)
        except MessageRefusedError as error:
            if not self.plan.skip_refused:
                raise
            self._refuse(f"{error.place}: {error.message}" if error.place else error.message)
            return None
        if job.unit not in (1, self.plan.engine.block_size):
            raise KvtoolError(
                f"a trace with blocks of {job.unit} tokens in a run with blocks of {self.plan.engine.block_size}",
                hint=f"--block-size {job.unit}",
                place=turn.place,
            )
        if not self.server.predicts(job):
            model = turn.call.model or "no model said"
            self.result.unpredicted[model] = self.result.unpredicted.get(model, 0) + 1
            self._price(job, None, turn.arrival or 0.0)
            return None
        if not self._admitted(job):
            self.maker.take_back()
            return None
        if self.keep is not None:
            self.keep.add(turn, job.chain)
        if self._trace is not None:
            with self._shield:
                self._enter_trace()
                self._trace = None  # one by one from here on: batches between such requests would be small
        if self.only_hits:
            self.result.ledger.group(turn.group)
            return job
        if self.first_look:
            self.result.samples.add(turn)
            if not self._traits.salted and turn.salt and len(self.result.unsalted) < _MOST_SALTS:
                self.result.unsalted.add(turn.salt)
        with self._shield:
            ledger = self.result.ledger
            compare = self._looked_at(job)
            turn = job.turn
            entry = ledger.submit(
                turn,
                job.ids,
                job.ids[:0]
                if self._traits.whole_prompt_may_hit
                else job.computed_output(),  # that one keeps prompts only
                prompt=job.prompt,
                unit=job.unit,
                num_tokens=job.request.num_prompt_tokens,
                compare=compare,
                chain=job.chain,
                scope=self._hosted_scope(turn),
                reads=not (self.plan.by_vllm and job.request.skip_reading_cache),
            )
            if entry.alignment is not None and job.prompt is not None:
                ledger.explain(entry, self.result.causes.add(turn, job.prompt, entry.alignment))
            if self.first_look:
                self.result.sensitive.add(job, entry.own)
                self.result.boundaries.add(turn.group, entry.num_tokens, entry.own, unit=job.unit)
            self._show(job, entry)
            self._entries[id(job)] = entry
        return job

    def _looked_at(self, job: Job) -> bool:
        """Whether causes are looked for in a request; then it has its texts, and what it was compared with where that was done."""
        if self._ahead is not None:
            self._ahead.comes(job.turn)
        chosen = job.unit == 1 and self._looks.take(job.turn.group, job.request.num_prompt_tokens)
        if chosen and self.result.ledger.find_gaps and isinstance(job.turn, TokensTurn):
            job.turn = job.turn.whole()
            job.prompt = self.maker.prepare(job.turn).prompt
        return chosen

    def _admitted(self, job: Job) -> bool:
        """Whether the engine would ever run a request; else it is counted as refused."""
        try:
            self.server.admit(job)
        except EngineError as error:
            self._refuse(error.message)
            return False
        return True

    def _show(self, job: Job, entry: LedgerEntry) -> None:
        """A request that will run to those that watch the run."""
        if self.result.views is not None:
            self.result.views.submitted(job, entry)
        if self.beside is not None:
            self.beside.submitted(job)

    def _hosted_scope(self, turn: Turn) -> str | None:
        """The cache of a provider that a request can read; None where none is followed."""
        if not self._traits.hosted:
            return None
        from kvtool.accounting.caches.scopes import scope_of

        return scope_of(turn)

    def _refuse(self, reason: str) -> None:
        self.result.refused += 1
        self.result.first_refusal = self.result.first_refusal or reason

    def entry(self, job: Job) -> LedgerEntry | None:
        """Give the ledger's entry of a request that has begun; None where the ledger only counts."""
        return self._entries.get(id(job))

    def _drain(self) -> None:
        if self.events is not None:
            with self._shield:  # what is taken is written
                self.events.write(self.server.take_events())

    def end(self, job: Job, served: ServedRequest) -> None:
        """Book a request that is done, with the TTFT that it had or would have had alone: at least its last token is computed."""
        self._drain()
        count, cached = job.request.num_prompt_tokens, served.hit
        self._settle(job, served)
        if self._traits.has_clock:
            if served.waited is not None:
                self.result.add_ttft(job.turn.group, served.waited, count - cached)
            return
        if (self.only_hits or self.only_causes) and not self.timed:
            return
        off = self._prefill.seconds(count, 0)
        hit = min(cached, count - 1)
        self.result.add_ttft(job.turn.group, self._prefill.seconds(count, hit) if hit else off, count - cached)
        self.result.ttft_off.append(off)

    def _rungs(self, job: Job, served: ServedRequest) -> Rungs | None:
        """What a request hit by kinder rules; None where nothing but the cache's size is known to be in the way."""
        rungs = list(served.rungs or ())
        for fate, hits in self.kinder_hits:
            others = hits.get(_hits_key(job))
            if others:
                rungs.append((fate, others.pop(0)))
        return rungs if rungs or served.rungs is not None else None

    def _price(self, job: Job, prediction: Prediction | None, now: float) -> None:
        """Put the request into the sums of money."""
        if self.money is None or self.plan.cache is None:
            return
        turn, output = job.turn, len(job.request.output_ids or [])
        if turn.output_text is None and turn.output_ids is None and turn.output_tokens is None:
            output = 0  # the log does not say that there was an answer
        moment = moment_of(self.plan.cache.epoch, now)
        self.money.add(turn.group, turn.call, prediction, output=output, now=now, moment=moment)

    def _add_read(self, job: Job, entry: LedgerEntry, hit: int) -> bool:
        """Put what its server reported of a request beside what hit; whether it said anything."""
        reads = self.result.reads
        if reads is None:
            if job.turn.call.usage is None or job.turn.call.usage.cached is None:
                self._untold += 1
                return False
            from kvtool.profiler.reported.server_reads import ServerReads

            reads = self.result.reads = ServerReads(whole=not self._untold)
        return reads.add(job, hit, entry.reachable, entry.known)

    def _settle(self, job: Job, served: ServedRequest) -> None:
        hit = served.hit
        if served.prediction is not None:
            self._price(job, served.prediction, job.request.arrival)
        if self._windows is not None:
            self._windows.add(job.turn, job.request)
        if job.request.skip_reading_cache and self.plan.by_vllm:
            self.result.uncounted += 1
            self.result.uncounted_tokens += job.request.num_prompt_tokens
        if self.keep_hits:
            self.result.hits.setdefault(_hits_key(job), []).append(hit)
        if self.only_hits:
            self.result.ledger.count(job.turn.group, job.request.num_prompt_tokens, hit)
            self.progress.advance(1)
            return
        if self.only_causes:
            del self._entries[id(job)]
            self.result.ledger.count(job.turn.group, job.request.num_prompt_tokens, hit)
            self.progress.advance(1)
            return
        if self.first_look:
            scope = (
                self._hosted_scope(job.turn) if self._traits.hosted else job.turn.salt if self._traits.salted else ""
            )
            self.result.observable.add(job, scope or "", hit)
        entry = self._entries[id(job)]
        told = self.first_look and self._traits.follows_engine and self._add_read(job, entry, hit)
        if self.beside is not None:
            self.beside.settled(job, hit)
        with self._shield:
            self.result.ledger.settle(self._entries.pop(id(job)), hit, kinder=self._rungs(job, served))
            self.result.generation_tokens += len(job.request.outputs)
            if self.per_request:
                row = RequestRow(
                    id=job.request.id,
                    group=job.turn.group,
                    prompt_tokens=job.request.num_prompt_tokens,
                    hit_tokens=hit,
                    provider=_read(job, served.prediction),
                )
                self.result.told_reads += [len(self.result.rows)] if told else []
                self.result.rows.append(row)
        self.progress.advance(1)


def _read(job: Job, prediction: Prediction | None) -> RequestRead | None:
    if prediction is None:
        return None
    from kvtool.accounting.prices.money_book import request_read

    return request_read(job.turn.call, prediction)


def _hits_key(job: Job) -> tuple[str, str, int]:
    return job.turn.group, job.request.id, job.turn.index
