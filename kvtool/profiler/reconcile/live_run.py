"""A workload beside a running server: what it will be sent, the sending, and all that was observed meanwhile."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

from kvtool.errors import KvtoolError, MessageRefusedError
from kvtool.measure.servers.exchange import Exchange
from kvtool.measure.servers.http_exchange import ServerConnection, ServerError
from kvtool.measure.servers.kv_events.event_batches import EventBatch
from kvtool.measure.servers.kv_events.event_listener import EventListener, event_lines, event_sources
from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.metrics.counted_between import Counted, counted_between
from kvtool.measure.servers.metrics.counters import Scrape, scrape_of
from kvtool.measure.servers.metrics.exposition import MOST_BYTES, parse_exposition
from kvtool.measure.servers.request_body import SentAs, ToSend, to_send
from kvtool.measure.servers.sender import Sender
from kvtool.measure.servers.sending import Sending, Sent, empty_cache, has_tokens_to_read, send_all, tokens_read
from kvtool.measure.servers.server_address import ServerAddress
from kvtool.measure.servers.server_facts import MOST_JSON, UNCOUNTED, ServerFacts, ask_server, kept_info
from kvtool.measure.servers.session_recording import EVENTS, METRICS_AFTER, METRICS_BEFORE, WITHOUT_TEXT, RecordFolder
from kvtool.profiler.opening import Opened
from kvtool.profiler.reconcile.blinded_run import BlindedRun
from kvtool.profiler.reconcile.event_trace import EventTrace
from kvtool.profiler.reconcile.observed import ObservedRun
from kvtool.profiler.reconcile.recorded_prompts import renderer_at
from kvtool.profiler.reconcile.twin import Ask
from kvtool.text.terminal.numbers import plural
from kvtool.text.terminal.progress import Progress
from kvtool.workload.drive import first_turns, one_at_a_time, side_by_side
from kvtool.workload.jobs import Job, JobMaker
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.request_fields import requested_answers
from kvtool.workload.turn import Turn

_SETTLING = 10
"""How often counters are read again until they hold all that was answered: a server adds them up after its answers."""
_PAGES = (("version.json", "/version"), ("models.json", "/v1/models"))


Blind = Callable[[Sequence[Exchange]], Mapping[int, Sequence[Ask]]]
"""The prompts of answered requests by their numbers, for a record that has no text."""


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """Settings for sending a workload. `timeout` is in seconds, for a request as a whole."""

    timeout: float
    salt: bool = False
    reset: bool = False
    max_tokens: int | None = None
    kv_events: str | None = None
    """Where the server publishes, if it is not where it says itself."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan of a live run: at most so many tokens of answers, and prompts as they are predicted."""

    requests: int
    prompt_tokens: int
    output_tokens: int

    def __str__(self) -> str:
        prompts = plural(self.prompt_tokens, "prompt token")
        return f"{plural(self.requests, 'request')} with {prompts} and answers of at most {plural(self.output_tokens, 'token')}"


class LiveRun:
    """One run beside one server."""

    def __init__(self, address: ServerAddress, facts: ServerFacts, opened: Opened, options: LiveOptions) -> None:
        self.address = address
        self.facts = facts
        self.opened = opened
        self.options = options
        self._run = secrets.token_hex(4)
        self._how = SentAs(
            facts.model,
            salt=secrets.token_hex(8) if options.salt else None,
            token_ids=facts.server is not None and facts.other_server is None,
        )
        self._maker = JobMaker(renderer_at(opened.renderer, facts.date), seed=opened.planned.plan.seed)
        self._notes: list[str] = []
        if isinstance(opened.source, LogSource):
            opened.source.each_answer = False  # they are sent as their clients sent them

    def planned(self) -> Planned:
        """Return one pass over the workload, with the answers that it has; each group's first prompt is held against the server's
        tokens.

        KvtoolError where they differ: nothing was sent then.
        """
        requests = prompt_tokens = output_tokens = 0
        seen: set[str] = set()

        def begin(turn: Turn) -> Job | None:
            nonlocal requests, prompt_tokens, output_tokens
            job = self._made(turn)
            if job is None:
                return None
            requests += turn.call.prompts == 1 or turn.index == 0
            prompt_tokens += job.request.num_prompt_tokens
            output_tokens += self._most(job) * requested_answers(turn.fields)
            if turn.group not in seen and self.facts.other_server is None:
                request = to_send(turn, self._how, 1)
                if has_tokens_to_read(request):
                    seen.add(turn.group)
                    self._check_tokens(turn, job, request)
            return job

        limit = self.opened.planned.plan.limit
        one_at_a_time(first_turns(self.opened.source.conversations(), limit), begin, lambda _: None, lambda _: None)
        if not requests:
            raise KvtoolError(f"{self.opened.name} has no request to send")
        if isinstance(self.opened.source, LogSource):
            for each in self.opened.source.prompts.not_followed_notes():
                self._note(each)
        return Planned(requests, prompt_tokens, output_tokens)

    def _made(self, turn: Turn) -> Job | None:
        try:
            return self._maker.make(turn)
        except MessageRefusedError:
            if not self.opened.planned.plan.skip_refused:
                raise
            return None

    def _most(self, *jobs: Job) -> int:
        """Count tokens of an answer at most: the workload's, the option's, and what the model has room for."""
        longest = max(job.request.num_prompt_tokens for job in jobs)
        wanted = self.options.max_tokens or max(job.request.max_tokens for job in jobs)
        return max(min(wanted, self.opened.planned.plan.engine.max_model_len - longest), 1)

    def _check_tokens(self, turn: Turn, job: Job, request: ToSend) -> None:
        theirs = tokens_read(self.address, request)
        if theirs is None:
            self._note("the server has no /tokenize: kvtool compares only the number of tokens")
            return
        ours = job.ids.tolist()
        if theirs == ours:
            return
        at = next(
            (at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
        )
        mine, other = (str(ids[at]) if at < len(ids) else "no token" for ids in (ours, theirs))
        raise KvtoolError(
            f"group {turn.group}: the server counts {plural(len(theirs), 'token')} in its first prompt, kvtool {len(ours):,}; "
            f"token {at + 1:,} is {mine} in kvtool and {other} on the server; nothing was sent",
            hint="set its tokenizer and template: --tokenizer FOLDER, --chat-template FILE",
        )

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def observed(
        self, progress: Progress, planned: Planned, record: RecordFolder | None, blind: Blind | None = None
    ) -> ObservedRun:
        """Send it. Ctrl-C ends the sending, not what comes after it; another signal ends what comes after the record.

        With `blind` the record has no text.
        """
        plan = self.opened.planned.plan
        at_once = plan.concurrency or (plan.engine.max_num_seqs if plan.use_arrivals else 1)
        with ServerConnection(self.address, timeout=self.options.timeout) as connection:
            if record is not None:
                self._keep_pages(connection, record)
            if self.options.reset:
                empty_cache(self.address)
            before = self._scrape(connection, record, METRICS_BEFORE)
            began = time.time()
            with ExitStack() as stack:
                listener = self._listener(connection, stack)
                sent = self._send(progress, planned, at_once)
                trace = batches = None
                if listener is not None:
                    batches = listener.since()
                    trace = EventTrace.of(batches, before=listener.before)
            answered = sum(
                each.usage.prompt or 0 for each in sent.exchanges if each.answered and each.usage is not None
            )
            counted = None if sent.ended else self._counted(connection, before, answered)
            if record is not None:
                if sent.ended is None:
                    self._scrape(connection, record, METRICS_AFTER)
                meta: dict[str, object] = {
                    "start_unix": began,
                    "concurrency": at_once,
                    "stream": True,
                    "salted": self.options.salt,
                }
                self._keep_run(record, sent.exchanges, batches, meta, blind)
            if sent.ended is not None:
                raise sent.ended
            if sent.interrupted and not any(each.answered for each in sent.exchanges):
                raise KeyboardInterrupt
        return ObservedRun(
            sent.exchanges,
            self.facts,
            trace,
            counted,
            partial=sent.interrupted,
            stopped=sent.stopped,
            notes=tuple(self._notes),
            date=self.facts.date,
        )

    def _keep_run(
        self,
        record: RecordFolder,
        exchanges: Sequence[Exchange],
        batches: Sequence[EventBatch] | None,
        meta: dict[str, object],
        blind: Blind | None,
    ) -> None:
        """Write what was sent, answered and published; `meta` is how."""
        if blind is not None:
            size = self.opened.planned.plan.engine.block_size
            blinded = BlindedRun(size, (each.session_id for each in exchanges if each.session_id is not None))
            answered = [each for each in exchanges if each.answered]
            exchanges = list(blinded.exchanges(exchanges, blind(answered) if answered else {}))
            batches = None if batches is None else list(blinded.batches(batches))
            meta |= {WITHOUT_TEXT: size}
        if batches is not None:
            record.keep(f"{EVENTS}.gz", event_lines(batches))
        record.keep_exchanges(exchanges)
        record.keep_meta(meta)

    def _listener(self, connection: ServerConnection, stack: ExitStack) -> EventListener | None:
        """Return one that hears all that is published from now on; None where nobody publishes, or nobody would read it."""
        if self.facts.other_server is not None:
            return None
        named = event_sources(connection, self.options.kv_events)
        for note in named.notes:
            self._note(note)
        if not named.sources:
            self._note("no KV events: the server publishes none, or at an unknown place (--kv-events ENDPOINT)")
            return None
        return stack.enter_context(EventListener(named.sources))

    def _send(self, progress: Progress, planned: Planned, at_once: int) -> Sent:
        plan = self.opened.planned.plan
        at_once = min(at_once, planned.requests)
        progress.stage("sending", planned.requests)
        sending = Sending(
            Sender(self.address, self._how, timeout=self.options.timeout, at_once=at_once),
            self._run,
            at_once=at_once,
            use_arrivals=plan.use_arrivals,
            max_tokens=self._most_of,
            advance=lambda: progress.advance(1),
        )
        conversations = self.opened.source.conversations()
        if at_once > 1:
            conversations = side_by_side(conversations)
        return send_all(sending, first_turns(conversations, plan.limit))

    def _most_of(self, turns: Sequence[Turn]) -> int:
        jobs = [job for turn in turns if (job := self._made(turn)) is not None]
        return self._most(*jobs) if jobs else 1

    def _scrape(self, connection: ServerConnection, record: RecordFolder | None, name: str) -> Scrape | None:
        """Return the counters now; None where the server has none that are known."""
        try:
            text = connection.text("/metrics", limit=MOST_BYTES)
            scrape = scrape_of(
                parse_exposition(text, shown=self.address.url("/metrics")),
                shown=self.address.url("/metrics"),
                at=datetime.now(UTC).timestamp(),
            )
        except KvtoolError as error:
            if UNCOUNTED not in self.facts.notes:
                self._note(f"no counters: {error.message}")
            return None
        if record is not None:
            record.keep(name, text.encode())
        return scrape

    def _counted(self, connection: ServerConnection, before: Scrape | None, answered: int) -> Counted | None:
        if before is None:
            return None
        counted = None
        for _ in range(_SETTLING):
            after = self._scrape(connection, None, METRICS_AFTER)
            if after is None:
                return None
            counted = counted_between(before, after)
            if counted.broken is not None or (counted.get(names.QUERIES) or 0) >= answered:
                break
            time.sleep(0.1)
        return counted

    def _keep_pages(self, connection: ServerConnection, record: RecordFolder) -> None:
        """Write what the server says about itself, as far as it does."""
        for name, path in _PAGES:
            try:
                record.keep(name, json.dumps(connection.json(path, limit=MOST_JSON)).encode())
            except ServerError:
                continue
        try:
            info = connection.json("/server_info?config_format=json", limit=MOST_JSON)
        except ServerError:
            return
        if (kept := kept_info(info)) is not None:
            record.keep("server_info.json", json.dumps(kept, indent=1).encode())


def facts_of(address: ServerAddress, timeout: float) -> ServerFacts:
    """Return what the server says of itself; of one that has no /metrics nothing. ServerError where nobody answers."""
    with ServerConnection(address, timeout=timeout) as connection:
        return ask_server(connection, uncounted=True)
