"""Runs a workload once, rendered and tokenized once, through the caches of all engines side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from kvtool.accounting.caches.cache_rules import traced_error
from kvtool.accounting.caches.engine_caches import asked_of
from kvtool.accounting.caches.engine_tally import EngineTally, SharedPrefixes, TallySums
from kvtool.accounting.caches.relaxed_configs import relax_configs
from kvtool.accounting.hosted_models import is_hosted
from kvtool.config.asked_run import RunOptions
from kvtool.config.command_line import flags
from kvtool.config.engine_rules import own_choice, rules_of_flags
from kvtool.config.options.rule_flags import RuleFlags
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import AnyRuleSet, RuleChoice, Rung
from kvtool.engine.rules.rule_sets import find_rule_set, rule_set_names
from kvtool.engine.rules.vllm import VllmOptions
from kvtool.errors import KvtoolError, MessageRefusedError
from kvtool.profiler.engines.left_out_layers import knows_kinds, left_out_of
from kvtool.profiler.left_out import hosted_left_out
from kvtool.profiler.opening import Opened
from kvtool.profiler.planned_run import PlannedRun
from kvtool.results.documents.engine_table import EngineGroupRow, EngineRow, EngineTable
from kvtool.text.terminal.numbers import plural
from kvtool.text.terminal.progress import Progress
from kvtool.workload.drive import first_turns, in_order_of_arrival, one_at_a_time, side_by_side
from kvtool.workload.jobs import Job, JobMaker
from kvtool.workload.turn import Turn

_USUAL: dict[str, tuple[dict[str, object], ...]] = {
    "sglang": ({"page_size": 64},),
    "llamacpp": ({"parallel": 1, "cache_ram": 0}, {"cache_reuse": 64}, {"swa_full": True}),
}
"""By rules, settings that people run and that reuse differently; one that changes nothing is left out."""
_VLLM_FLAGS = ("block_size", "num_gpu_blocks")
_CAUSES = {
    "partial_block": "block size",
    "last_token": "block size",
    "evicted": "evicted",
    "isolated": "salts",
    "window": "window",
    "host_list_full": "dropped from host memory",
    "slot_lost": "server slot lost",
    "taken_over": "block taken over",
    "not_kept": "window or state not kept",
    "no_state": "window or state not kept",
    "drafts": "drafts",
}
"""What a fate is called as the cause of a difference."""
_MOVED = "moved text"
"""What the others lack where an engine moves text."""
_REFUSED = "refused"


class EngineComparison:
    """The caches of all engines, and what each made of the requests so far."""

    def __init__(self, opened: Opened, flags: RuleFlags, progress: Progress, own: str | None) -> None:
        """`flags` are the engines' own options, `own` are the rules of the engine that the user runs, if any."""
        self._own = own
        self.opened = opened
        self.progress = progress
        choices, self._missing = choices_of(opened.planned, flags)
        self.tallies = [EngineTally(choice) for choice in choices]
        self._known = SharedPrefixes()
        self._plan = opened.planned.plan
        self._maker = JobMaker(opened.renderer, seed=self._plan.seed)
        self._groups: dict[str, list[int]] = {}
        """Requests and prompt tokens of each."""
        self._refused = 0
        self._hosted = 0
        """Requests of a hosted API that are left out, and (`_compared`) those that are compared."""
        self._compared = 0
        self._reported: Counter[str] = Counter()
        self._withheld = 0
        """Requests of whose prompts the log has no text, or too little."""

    def run(self) -> EngineTable:
        """Return all requests through all caches. KvtoolError where there are none, or where they have no tokens."""
        self.progress.stage("under every engine's rules", None)
        partial = False
        conversations = self.opened.source.conversations()
        try:
            if self._plan.use_arrivals:
                conversations = first_turns(side_by_side(conversations), self._plan.limit)
                in_order_of_arrival(
                    conversations, self._begin, self._execute, self._end, seconds=self._seconds, required=False
                )
            else:
                one_at_a_time(first_turns(conversations, self._plan.limit), self._begin, self._execute, self._end)
        except KeyboardInterrupt:
            if not self._groups:
                raise
            partial = True
        if self._withheld > sum(requests for requests, _ in self._groups.values()):
            lack = f"the log lacks the text of {plural(self._withheld, 'prompt')}"
            raise KvtoolError(
                f"{self.opened.name}: {lack}, so no engine can be compared",
                hint="kvtool profile shows what was reported",
            )
        if not self._groups:
            raise KvtoolError(f"{self.opened.name}: no request was compared", hint="check the input")
        return self._table(partial=partial)

    def _begin(self, turn: Turn) -> Job | None:
        if turn.call.has_failed:
            return None
        if self._plan.leaves_out(turn):
            self._hosted += 1
            return None
        try:
            job = self._maker.make(turn)
        except MessageRefusedError:
            if not self._plan.skip_refused:
                raise
            self._refused += 1
            return None
        if job.is_trace:
            raise traced_error("other engines")
        if turn.call.incomplete is not None:
            from kvtool.accounting.misses.reported_request import is_withheld

            if is_withheld(job):
                self._withheld += 1
                return None
        return job

    def _execute(self, job: Job) -> None:
        request = job.request
        asked = asked_of(job)
        self._compared += is_hosted(job.turn.call)
        usage = job.turn.call.usage
        if usage is not None and usage.prompt is not None and usage.cached is not None:
            self._reported.update(requests=1, prompt=usage.prompt, cached=min(usage.cached, usage.prompt))
        own, known = self._known.enter(job.ids, asked.answer, request.cache_salt)
        sums = self._groups.setdefault(job.turn.group, [0, 0])
        sums[0] += 1
        sums[1] += len(job.ids)
        for tally in self.tallies:
            tally.take(job.turn.group, asked, own, known)
        request.outputs = list(request.output_ids or [])

    def _end(self, _: Job) -> None:
        self.progress.advance(1)

    def _seconds(self, job: Job) -> float:
        """Return what the answer takes, by the latency model and without a cache: the next turn comes no sooner."""
        latency, count = self._plan.latency, job.request.num_prompt_tokens
        prefill = latency.prefill_seconds(count, 0, self._plan.engine.max_num_batched_tokens)
        return prefill + max(job.request.max_tokens - 1, 0) * latency.step_seconds([(count, 1)])

    def _table(self, *, partial: bool) -> EngineTable:
        totals = [tally.total() for tally in self.tallies]
        best = max(range(len(totals)), key=lambda number: (totals[number].hit_tokens, -number))
        rows = [_row(tally, total, totals[best]) for tally, total in zip(self.tallies, totals, strict=True)]
        engine = self._plan.engine
        tokens = sum(count for _, count in self._groups.values())
        renderer, reported = self.opened.renderer, self._reported
        return EngineTable(
            schema="kvtool.engines/1",
            input=self.opened.name,
            tokenizer=renderer.tokenizer.name if renderer.loaded("tokenizer") else None,
            requests=sum(requests for requests, _ in self._groups.values()),
            prompt_tokens=tokens,
            capacity_tokens=None if engine.num_blocks is None else (engine.num_blocks - 1) * engine.block_size,
            rows=rows,
            groups=[self._group(name) for name in self._groups],
            notes=self._notes(),
            own=self._own,
            hosted_requests=self._compared,
            reported_requests=reported["requests"],
            reported_hit_rate=reported["cached"] / reported["prompt"] if reported["prompt"] else None,
            next=self._next(rows),
            partial=partial,
        )

    def _group(self, name: str) -> EngineGroupRow:
        sums = [tally.groups.get(name, TallySums()) for tally in self.tallies]
        best = max(sums, key=lambda each: each.hit_tokens)
        worst = min(sums, key=lambda each: each.hit_tokens)
        requests, tokens = self._groups[name]
        return EngineGroupRow(
            name=name,
            requests=requests,
            prompt_tokens=tokens,
            cached_tokens=[each.hit_tokens for each in sums],
            cause=cause_of(worst, best),
        )

    def _notes(self) -> list[str]:
        how = "one request at a time"
        if self._plan.use_arrivals:
            how += ", in order of arrival"
        notes = [*self.opened.options.notes, how, *self._missing]
        if self._own is None:
            notes.append("prompt tokens: as the chat template of an own server writes the messages")
        planned = self.opened.planned
        if (
            planned.model is not None
            and (lack := left_out_of(planned.run_model.served(), kinds_known=False)) is not None
        ):
            choices = [tally.choice for tally in self.tallies]
            others = [each for each in choices if each.rules.name != "vllm" and not knows_kinds(each.options)]
            names = dict.fromkeys(each.rules.engine.partition(",")[0] for each in others)
            notes += [f"{lack}: kvtool assumes full attention in every layer for {name}" for name in names]
        if planned.model is None and not self._missing:
            notes.append(planned.assumed_note)
        notes += [*hosted_left_out(self._hosted), *self.opened.wrong_usage]
        if self._withheld:
            notes.append(f"{plural(self._withheld, 'request')} left out: the log lacks the text")
        if self._refused:
            notes.append(f"{plural(self._refused, 'request')} left out: the chat template refuses them")
        return notes

    def _next(self, rows: Sequence[EngineRow]) -> list[str]:
        """Return the profile by the rules of the engine that the user runs."""
        own = next((row for row in rows if row.rules == self._own), rows[0])
        asked = self.opened.options
        options = flags(
            tokenizer=asked.rendering.tokenizer,
            chat_template=asked.rendering.chat_template,
            model=asked.predicting.model,
            kv_cache_dtype=asked.serving.kv_cache_dtype,
            requests=asked.reading.requests,
            group_by=asked.reading.group_by,
            seed=asked.reading.seed,
            groups=asked.reading.groups,
            rules=own.rules,
            # A log of a hosted API is one of an own server with it, whatever the rules.
            block_size=asked.serving.block_size if self._own is None and not own.flags else None,
        )
        return ["profile", *asked.inputs, *options, *own.flags]


def cause_of(less: TallySums, more: TallySums) -> str | None:
    """Return what the difference between two engines is mostly due to; None where there is none."""
    if more.hit_tokens <= less.hit_tokens:
        return None
    excess: Counter[str] = Counter()
    for fate in {*less.lost, *more.lost}:
        excess[_CAUSES.get(fate, fate)] += less.lost[fate] - more.lost[fate]
    excess[_MOVED] = more.moved_tokens - less.moved_tokens
    excess[_REFUSED] = more.prompt_tokens - less.prompt_tokens
    cause, tokens = max(excess.items(), key=lambda pair: (pair[1], pair[0]))
    return cause if tokens > 0 else None


def _row(tally: EngineTally, total: TallySums, best: TallySums) -> EngineRow:
    choice: RuleChoice = tally.choice
    return EngineRow(
        rules=choice.rules.name,
        engine=choice.rules.engine,
        settings={
            each.name: value
            for each in fields(choice.options)
            if isinstance(value := getattr(choice.options, each.name), str | int | float | None)
        },
        flags=flags_of(choice),
        requests=total.requests,
        refused_requests=tally.refused,
        first_refusal=tally.first_refusal or None,
        prompt_tokens=total.prompt_tokens,
        cached_tokens=total.hit_tokens,
        hit_rate=total.hit_tokens / total.prompt_tokens if total.prompt_tokens else 0.0,
        moved_tokens=total.moved_tokens,
        evicted_tokens=tally.evicted,
        lost={fate: tokens for fate, tokens in sorted(total.lost.items()) if tokens},
        cause=cause_of(total, best),
        behind_tokens=max(best.hit_tokens - total.hit_tokens, 0),
        status=choice.rules.status,
        evidence=choice.rules.evidence,
        not_modelled=list(choice.rules.not_modelled),
    )


def choices_of(planned: PlannedRun, flags: RuleFlags) -> tuple[list[RuleChoice], list[str]]:
    """Return all engines with the room that the plan's cache has, in the order of the table, and why some are not there.

    `flags` are the engines' own options.
    """
    options = replace(planned.options, rule_flags=flags)
    engine = planned.plan.engine
    found: list[RuleChoice] = []
    missing: list[str] = []
    for name in rule_set_names():
        rules = find_rule_set(name)
        if name == "vllm":
            found.append(_embedded(rules, engine))
            continue
        try:
            facts = planned.facts_of(name)
            base = _own_choice(options, planned, rules, facts)
        except EngineError as error:
            _own_choice(options, planned, rules, {})  # raises for options that are wrong for any model
            missing.append(f"left out: {error.message}")
            continue
        found.append(base)
        for changes in _USUAL.get(name, ()):
            other = replace(base.options, **changes)
            if other != base.options and (not changes.get("swa_full") or base.options.sliding_window):
                found.append(RuleChoice(rules, other))
    return found, missing


def _own_choice(
    options: RunOptions, planned: PlannedRun, rules: AnyRuleSet, facts: Mapping[str, int | str]
) -> RuleChoice:
    """Return an engine with its own options, with the facts of the model, and with the room of the plan's cache."""
    base, sized = own_choice(options, planned.asked, rules.name, facts)
    engine = planned.plan.engine
    if engine.num_blocks is None or sized or rules.limited is None:
        return base
    return RuleChoice(rules, rules.limited(base.options, (engine.num_blocks - 1) * engine.block_size))


def _embedded(rules: AnyRuleSet, engine: EngineConfig) -> RuleChoice:
    """Return the embedded engine; of a model of several groups with the limits that these have."""
    if engine.plan is None:
        return RuleChoice(rules, VllmOptions(engine.block_size, engine.num_blocks))
    alignment = engine.plan.hit_alignment
    options = VllmOptions(num_gpu_blocks=engine.num_blocks, engine=engine)
    ladder = tuple(_rung(fate, kind) for fate, kind in relax_configs(engine))
    return RuleChoice(replace(rules, unit=lambda _: alignment, ladder=ladder, rest="no_state"), options)


def _rung(fate: str, kind: EngineConfig) -> Rung[VllmOptions]:
    """Return the embedded engine as it is without a limit."""

    def lifted(options: VllmOptions) -> VllmOptions:
        return replace(options, engine=kind)

    return Rung(fate, lifted)


def flags_of(choice: RuleChoice) -> list[str]:
    """Return the flags that give these settings, beside `--rules`."""
    named = [each.name for each in fields(choice.options) if each.name in rules_of_flags() or each.name in _VLLM_FLAGS]
    values = {name: getattr(choice.options, name) for name in named}
    usual = choice.rules.options
    return list(flags(**{name: value for name, value in values.items() if value != getattr(usual, name)}))
