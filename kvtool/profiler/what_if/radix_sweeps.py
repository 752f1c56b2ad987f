"""SGLang's own cache in sweeps: the same requests through its tree, with each of its evictions and each size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kvtool.accounting.caches.cache_rules import traced_error
from kvtool.accounting.caches.engine_caches import asked_of
from kvtool.accounting.curves.engine_hits import best_hits
from kvtool.config.engine_rules import engine_notes
from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import RuleChoice, RuleRequest
from kvtool.engine.rules.sglang import SglangCache
from kvtool.engine.rules.sglang_options import EVICTION_POLICIES, SglangOptions
from kvtool.errors import KvtoolError
from kvtool.profiler.opening import Opened
from kvtool.profiler.what_if.planned_change import Flags
from kvtool.profiler.what_if.planning_pass import BlockReading, read_requests
from kvtool.profiler.what_if.sweep_tasks import results
from kvtool.profiler.what_if.sweeps import FEW_POINTS, POINTS, SweepOptions, spread, sweep_document
from kvtool.results.choices import Policy
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.numbers import plural
from kvtool.text.terminal.progress import Progress
from kvtool.workload.block_trace import BlockCollector, BlockTrace
from kvtool.workload.jobs import Job, JobMaker
from kvtool.workload.tasks.task_options import TaskOptions
from kvtool.workload.turn import Turn

WORTH_IT = 3_000_000
"""Pages that the bound goes through at all capacities from which on a second process pays: about two seconds of one."""
_FASTER = 30
"""How many times as many tokens SGLang's tree takes in the same time, as it compares runs of them."""
MOST_FOR_OPT = 5_000_000
"""Pages of all requests up to which the bound is counted where nobody asks for it: each capacity takes seconds, and memory."""
OF_SGLANG: tuple[Policy, ...] = ("lru", "lfu", "slru", "priority", "opt")
"""Its evictions, and the bound."""


@dataclass(frozen=True, slots=True)
class RadixRequests:
    """Requests of tokens, and the same as pages: those of their prompts and answers that the tree can hold."""

    requests: Sequence[RuleRequest]
    pages: BlockTrace


class RadixCollector:
    """Takes requests in their order, as SGLang's cache is asked for them."""

    def __init__(self, page_size: int, engine: str) -> None:
        """`engine` is whose rules do not know traces of block ids."""
        self.block_size = page_size
        self._engine = engine
        self._pages = BlockCollector(page_size)
        self._requests: list[RuleRequest] = []

    def add_hashed(self, turn: Turn) -> None:
        """Raise KvtoolError: a request of a trace has no tokens."""
        del turn
        raise traced_error(self._engine)

    def add(self, job: Job) -> None:
        """Add a request of tokens."""
        self._pages.add(job)
        self._requests.append(asked_of(job))

    def leave_out(self, turn: Turn) -> None:
        """Ignore a request that its server did not take."""

    def collected(self) -> RadixRequests:
        """Return all that was added."""
        return RadixRequests(self._requests, self._pages.trace())


@dataclass(slots=True)
class RadixSweep:
    """One axis by SGLang's rules; capacities are in pages, of one token where nobody says --page-size.

    `command` is what was given, with other flags: each row has the one that gives it again.
    """

    opened: Opened
    asked: SweepOptions
    command: Callable[[Flags], str]
    choice: RuleChoice = field(init=False)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raise KvtoolError for what SGLang does not have."""
        rules = self.opened.planned.plan.cache
        assert rules is not None
        assert rules.engine is not None, "SGLang's rules"
        self.choice = replace(rules.engine, together=1)
        if self.asked.axis not in ("capacity", "policy"):
            raise KvtoolError(
                f"--sweep {self.asked.axis} supports --rules vllm or block-lru, not sglang",
                hint="use --sweep policy or --sweep capacity with --rules sglang",
            )
        if self.asked.sample < 1:
            raise KvtoolError("--sample supports a list of blocks, and sglang has a tree", hint="leave --sample out")
        for name in self.asked.policies:
            if name not in OF_SGLANG:
                raise KvtoolError(
                    f"--policies: SGLang has no policy {name}",
                    hint=f"one of {', '.join(OF_SGLANG)}; --rules block-lru has others",
                )

    def document(self, tasks: TaskOptions, progress: Progress) -> WhatIfDocument:
        """Read the requests, and run them once for each row. KvtoolError where there is no row."""
        page = self.choice.unit
        collector = RadixCollector(page, self.choice.rules.engine)
        plan = self.opened.planned.plan
        reading = BlockReading(collector, JobMaker(self.opened.renderer, seed=plan.seed), plan)
        self.notes = read_requests(self.opened, reading, progress)
        found = collector.collected()
        self.notes += engine_notes(replace(self.choice, options=self._unswept()))
        self.notes.append(f"a block is a page of {plural(page, 'token')}, as --capacity counts them")
        rows = self._rows(found, tasks, progress)
        document = sweep_document(self.opened, found.pages, self.notes, self.asked, rows)
        most = self._options.max_total_tokens
        return document.model_copy(update={"capacity": None if most is None else most // page})

    @property
    def _options(self) -> SglangOptions:
        options: SglangOptions = self.choice.options
        return options

    def _unswept(self) -> SglangOptions:
        """Return what holds for all rows."""
        options = replace(self._options, max_total_tokens=None)
        return replace(options, radix_eviction_policy="lru") if self.asked.axis == "policy" else options

    def _rows(self, found: RadixRequests, tasks: TaskOptions, progress: Progress) -> list[SweepRow]:
        todo = self._todo(found)
        if not todo:
            raise KvtoolError(f"no row was computed: {self.notes[-1]}", hint="larger --capacities")
        progress.stage("counting", len(todo))
        tokens = int(found.pages.prompt_tokens.sum())
        work = sum(len(found.pages.numbers) if one.policy == "opt" else tokens // _FASTER for one in todo)
        counting = _Counting(found, self._options)
        tasked = tasks.task_map(pays=work >= WORTH_IT)
        counted = results(todo, counting, tasked, progress, lambda one: one.name, self.notes)
        return [self._row(one, hits, counting.references) for one, hits in counted]

    def _row(self, one: _OneRun, hits: int, references: int) -> SweepRow:
        axis = self.asked.axis
        policy = one.policy if axis == "policy" else None
        return SweepRow(
            axis=axis,
            policy=policy,
            capacity=one.capacity,
            hit_blocks=hits,
            references=references,
            hit_rate=hits / references if references else 0.0,
            sure="bound" if one.policy == "opt" else "exact",
            command=self.command({"sweep": axis, "capacities": one.capacity, "policies": policy}),
        )

    def _todo(self, found: RadixRequests) -> list[_OneRun]:
        """Return what is run; `notes` get what is left out, and why."""
        own = next(name for name in OF_SGLANG if name == self._options.radix_eviction_policy)
        policies: Sequence[Policy] = (own,)
        if self.asked.axis == "policy":
            policies = self.asked.policies or self._usual(found)
        if "priority" in policies and len({request.priority for request in found.requests}) == 1:
            self.notes.append(
                "all requests have one priority: SGLang evicts answers before prompts, then the least recently used"
            )
        return [_OneRun(policy, capacity) for policy in policies for capacity in self._capacities(found, policies)]

    def _usual(self, found: RadixRequests) -> Sequence[Policy]:
        if len(found.pages.numbers) <= MOST_FOR_OPT:
            return OF_SGLANG
        self.notes.append(
            f"OPT is left out: {len(found.pages.numbers):,} pages take long; set --policies opt, or --page-size 16 for fewer"
        )
        return OF_SGLANG[:-1]

    def _capacities(self, found: RadixRequests, policies: Sequence[Policy]) -> list[int]:
        """Return capacities in pages. What was asked for and cannot run all requests is left out with a note; the bound alone
        needs no such room.
        """
        distinct = found.pages.distinct
        if tuple(policies) == ("opt",):
            return list(self.asked.capacities or spread(distinct, FEW_POINTS))
        least = self._least(found.requests)
        if not self.asked.capacities:
            points = spread(distinct, FEW_POINTS if self.asked.axis == "policy" else POINTS)
            return sorted({max(capacity, least) for capacity in points})
        for capacity in self.asked.capacities:
            note = f"left out: {capacity:,} blocks, because SGLang needs at least {least:,} for all requests"
            if capacity < least and note not in self.notes:
                self.notes.append(note)
        return [capacity for capacity in self.asked.capacities if capacity >= least]

    def _least(self, requests: Sequence[RuleRequest]) -> int:
        """Count pages of the smallest pool in which SGLang runs all requests."""
        longest: dict[int, int] = {}
        for request in requests:
            prompt = len(request.prompt)
            longest[prompt] = max(longest.get(prompt, 0), len(request.answer))
        low, high = 0, 1
        while not self._runs(longest, high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._runs(longest, middle) else (middle, high)
        return high

    def _runs(self, longest: dict[int, int], capacity: int) -> bool:
        options = replace(self._options, max_total_tokens=capacity * self.choice.unit)
        try:
            for prompt, answer in longest.items():
                if prompt:  # SGLang does not take an empty one, and nothing is looked up for it
                    options.check_fits(prompt, answer)
        except EngineError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class _OneRun:
    policy: Policy
    capacity: int
    """Pages."""

    @property
    def name(self) -> str:
        return f"{self.policy}, {self.capacity:,} blocks"


@dataclass(frozen=True, slots=True)
class _Counting:
    """The work of each process on its rows: it counts the pages that hit."""

    found: RadixRequests
    options: SglangOptions

    @property
    def references(self) -> int:
        """Count pages that are looked up: those of all prompts but the one with a prompt's last token."""
        return self.found.pages.of_engine().references

    def __call__(self, one: _OneRun) -> int:
        if one.policy == "opt":
            return best_hits(self.found.pages, self.found.pages.of_engine(), one.capacity).blocks
        assert one.policy in EVICTION_POLICIES
        size = self.options.page_size
        cache = SglangCache(
            replace(self.options, radix_eviction_policy=one.policy, max_total_tokens=one.capacity * size)
        )
        return sum(cache.serve(request).cached for request in self.found.requests) // size
