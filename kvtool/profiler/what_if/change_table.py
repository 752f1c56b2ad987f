"""The table of `kvtool what-if`: today's row, one for each change, the best first, and what is missing with why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, inf

import numpy as np

from kvtool.accounting.misses.advised_change import costliest_change
from kvtool.accounting.misses.miss_book import MissBook
from kvtool.accounting.plan import Plan
from kvtool.config.command_line import flags
from kvtool.engine.fleet.gpu_search import MOST_REPLICAS
from kvtool.errors import KvtoolError
from kvtool.fixes.fix import Fix
from kvtool.profiler.opening import Opened
from kvtool.profiler.planned_run import PlannedRun
from kvtool.profiler.profiler import Profiler
from kvtool.profiler.reported.server_reads import ServerReadBook
from kvtool.profiler.reported.server_reported import compare_server_reports
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run_description import step_notes
from kvtool.profiler.what_if.cache_changes import NO_CLOCK, NO_MODEL, CacheChanges
from kvtool.profiler.what_if.fleet_rows import clock_fields
from kvtool.profiler.what_if.planned_change import Flags, PlannedChange, fitting, nothing_fits
from kvtool.profiler.what_if.planning_pass import block_trace, check_arrivals
from kvtool.profiler.what_if.prompt_changes import PromptFixes, explained_requests, prompt_changes, prompt_fixes
from kvtool.profiler.what_if.sweeps import plan_document
from kvtool.profiler.what_if.table_answer import answer, gpus_of
from kvtool.profiler.what_if.table_clock import Clocked, TableClock, TableFleet
from kvtool.profiler.what_if.tier_rows import counted_with_tier, host_tier
from kvtool.results.documents.what_if import MissingRow, SweepRow, WhatIfDocument
from kvtool.results.misses import CacheMisses
from kvtool.results.next_step import PREDICT_SERVER
from kvtool.text.terminal.numbers import capitalized, percent, plural
from kvtool.text.terminal.progress import Progress
from kvtool.workload.block_trace import BlockTrace
from kvtool.workload.logs.logs import LogSource

_FINE = 16
"""Tokens of the blocks in which prompts are read, or a part of today's where that is none of it: other sizes are made of them."""

CLOCK_ROWS = "TTFT, TPOT, goodput, GPUs, replicas, routers, prefill/decode split"
"""What needs a clock."""

_WITH_FIXES = "with these fixes"
"""Name of the first row where `--fixed` makes some."""

CommandOf = Callable[[Flags | tuple[str, ...]], str]
"""The command line that was given with these flags, by name or as words, in place of what it says."""
EditsOf = Callable[[Sequence[Fix]], str]
"""The command that edits prompts with these fixes, under the options that were given."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Options of the table: `fixed` names fixes that are made in the prompts of all rows, `advice` looks for some."""

    command_of: CommandOf
    edits_of: EditsOf
    fixed: Sequence[str] = ()
    advice: bool = True
    fleet: TableFleet | None = None
    """None: no clock is asked for."""


@dataclass(slots=True)
class WhatIfTable:
    """Reads the requests once, and counts every change on their blocks."""

    opened: Opened
    asked: TableOptions
    progress: Progress
    missing: list[MissingRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _run: tuple[Profiler, RunResult] | None = None

    def document(self) -> WhatIfDocument:
        """Return all of it; KvtoolError for what cannot be planned."""
        plan = self.opened.planned.plan
        misses = self.reported()
        withheld = "" if misses is None else misses.calibration.too_few
        found = self.fixes(withheld)
        made = found.chosen(self.asked.fixed) if found is not None and self.asked.fixed else ()
        taken = made if found is None else found.run_as(made)
        fine, self.notes[:] = block_trace(self.opened, self.progress, block_size=self._fine_size(plan), fixes=taken)
        self.notes += step_notes(self.opened.planned) if plan.by_engine else []
        read = len(fine)
        fine = self._without_refused(fine, plan)
        name = _WITH_FIXES if made else "today" if misses is None else "today, predicted"
        today = PlannedChange("today", name, "", _in_blocks_of(fine, plan), plan)
        clock = self._clock(today)
        if clock is not None:
            today = replace(today, replicas=clock.asked.replicas)
        changes = [] if withheld else list(self._changes(today, fine, found, made))
        swept = not self.asked.fixed and len(today.trace) == read
        if withheld:
            self.lack("cache, tiers, replicas", capitalized(withheld))
        elif clock is not None:
            changes += clock.changes(today, self.missing, swept=swept)
        elif self._counts_tiers(today):
            changes += host_tier(today, self.missing, NO_CLOCK if swept else None, clock=False)
        rows = [self._row(change, clock) for change in (today, *changes)]
        first, *others = rows
        rows = [first, *sorted(others, key=lambda row: _order(row, first))]
        blocks = today.trace.of_studies() if plan.by_trace_study else today.trace.of_engine()
        told = answer(
            rows,
            self.missing,
            prompts_command="" if found is None else f"{found.edits_label}: {self.asked.edits_of(found.together)}",
            gpus_each=plan.latency.tensor_parallel,
        )
        return plan_document(
            self.opened,
            today.trace,
            blocks,
            rows,
            self.notes,
            bytes_per_block=plan.bytes_per_block,
            answer=self.answer_of(misses, told),
            missing=self.missing,
        )

    def reported(self) -> CacheMisses | None:
        """Return what servers reported beside the prediction; None without reports. KvtoolError where nothing is predicted."""
        if not isinstance(self.opened.source, LogSource) or self.opened.planned.plan.traced:
            return None
        result = self.explained()[1]
        book, read = result.find(MissBook), result.find(ServerReadBook)
        if book is not None and not book.predictable and book.total.requests:
            raise lacks_prompts(self.opened)
        if read is not None and read.reads is not None:
            compare_server_reports(result, read.reads, self.opened.planned.plan)
        return None if book is None else book.misses()

    def explained(self) -> tuple[Profiler, RunResult]:
        """Return the run of the requests as they are, with the causes of their losses, and its profiler; there is one."""
        if self._run is None:
            self._run = explained_requests(self.opened, self.progress)
        return self._run

    def answer_of(self, misses: CacheMisses | None, by_prediction: list[str]) -> list[str]:
        """Return what was reported and, where predictions differ from it, what to change and the cache that explains the reads."""
        if misses is None:
            return by_prediction
        withheld = misses.calibration.too_few
        told = [f"Reported: hit rate {percent(min(misses.read / max(misses.prompt_tokens, 1), 1.0))}."]
        if not withheld:
            return [*told, *by_prediction]
        change = costliest_change(misses, hosted=False)
        told.append(advice_withheld(withheld))
        if change is not None:
            told.append(f"Change first: {change.text}.")
        cache = None if misses.hypothesis is None else misses.hypothesis.cache
        if cache is not None:
            size = {"block_size": cache.block_size, "num_gpu_blocks": cache.blocks}
            told.append(f"{PREDICT_SERVER}: {self.asked.command_of(size)}")
        return told

    @staticmethod
    def _fine_size(plan: Plan) -> int:
        size = plan.engine.block_size
        return size if plan.traced else gcd(size, _FINE)

    def _without_refused(self, fine: BlockTrace, plan: Plan) -> BlockTrace:
        """Return the requests that today's engine would run at all; all rows are about these."""
        fits = fitting(_in_blocks_of(fine, plan), plan)
        if fits.all():
            return fine
        left = len(fine) - int(fits.sum())
        if left == len(fine):
            raise nothing_fits()
        self.notes.append(
            f"all rows leave out {plural(left, 'request')} longer than today's cache or the context of the model; "
            "rows with a larger cache serve them"
        )
        return fine.only(fits)

    def _changes(
        self, today: PlannedChange, fine: BlockTrace, found: PromptFixes | None, made: Sequence[Fix]
    ) -> Iterator[PlannedChange]:
        caches = CacheChanges(today, fine, self._replanned, self._is_memory_given(), self.missing)
        yield from caches.found()
        if found is not None:
            yield from self._of_prompts(found, made, today)

    def _of_prompts(self, found: PromptFixes, made: Sequence[Fix], today: PlannedChange) -> Iterator[PlannedChange]:
        plan = today.plan

        for change in prompt_changes(found, made):
            read, _ = block_trace(self.opened, self.progress, fixes=change.fixes)
            trace = read.only(fitting(read, plan))
            if len(trace) == len(today.trace):
                flags: Flags = {"fixed": change.fixed}
                yield replace(today, kind="prompts", name=change.name, does=change.does, trace=trace, flags=flags)
            else:
                self.lack(change.name, "some prompts get longer than the cache or the context of the model")

    def fixes(self, withheld: str = "") -> PromptFixes | None:
        """Return what the advisor would change; None where it is not asked, is `withheld`, or there is no text to change."""
        name = "prompt fixes"
        if self.opened.planned.plan.traced:
            why = "A trace of block ids has no text"
        elif withheld:
            why = capitalized(withheld)
        elif not (self.asked.advice or self.asked.fixed):
            why = " ".join(flags(advice=False))
        else:
            found = prompt_fixes(self.opened, *self.explained())
            if found.together:
                return found
            why = "No edit of the prompts raises the hit rate"
        if self.asked.fixed:
            raise KvtoolError(f"--fixed: {why}", hint="leave --fixed out")
        self.lack(name, why)
        return None

    def lack(self, change: str, why: str) -> None:
        """Say why there is no row of a change."""
        self.missing.append(MissingRow(change=change, why=why))

    def _replanned(self, **serving: object) -> Plan:
        opened = self.opened
        options = replace(opened.options, serving=replace(opened.options.serving, **serving))  # type: ignore[arg-type]  # fields of it
        return PlannedRun(options, opened.planned.asked, opened.source).plan

    def _is_memory_given(self) -> bool:
        """Return whether it is the memory of accelerators that says how large the cache is."""
        serving, asked = self.opened.options.serving, self.opened.planned.asked
        said = serving if any((serving.capacity, serving.num_gpu_blocks, serving.gpu_memory)) else asked
        return said.gpu_memory is not None and said.capacity is None and said.num_gpu_blocks is None

    def _clock(self, today: PlannedChange) -> TableClock | None:
        """Return None where there are no times or none are asked for; KvtoolError for times that cannot be."""
        fleet, untimed = self.asked.fleet, int(np.isnan(today.trace.arrivals).sum())
        if untimed:
            none = untimed == len(today.trace)
            why = "No request has an arrival time" if none else f"{plural(untimed, 'request')} without an arrival time"
        elif not today.plan.sized:
            why = NO_MODEL
        elif fleet is None:
            why = "Add --use-timestamps to use the arrival times"
        elif today.plan.by_trace_study:
            why = "Needs vLLM's rules: leave --rules out"
        else:
            check_arrivals(today.trace, "a clock")
            made = TableClock(fleet, today.plan.seed)
            self.notes.append(
                f"times of {today.plan.predicted_on}, predicted; today "
                f"{plural(fleet.replicas, 'replica')}" + (f" by {made.today}" if fleet.replicas > 1 else "")
            )
            return made
        self.lack(CLOCK_ROWS if self._counts_tiers(today) else CLOCK_ROWS.replace("routers,", "routers, tiers,"), why)
        return None

    @staticmethod
    def _counts_tiers(today: PlannedChange) -> bool:
        """Return whether a tier is counted without a clock, as its sweep does: where not all requests have times."""
        return not today.plan.by_trace_study and bool(np.isnan(today.trace.arrivals).any())

    def _row(self, change: PlannedChange, clock: TableClock | None) -> SweepRow:
        row = SweepRow(
            kind=change.kind,
            change=change.name,
            does=change.does,
            more_hardware=change.more_hardware,
            policy=change.policy if change.kind == "policy" else None,
            capacity=change.capacity,
            block_size=change.trace.block_size,
            hit_blocks=0,
            references=0,
            hit_rate=0.0,
            command=None if change.flags is None else self.asked.command_of(change.flags),
            sure=change.sure,
        )
        told: dict[str, object]
        if clock is None and change.tiers is not None:
            told = counted_with_tier(change)
        elif clock is None or change.kind == "policy":
            hits = change.hits
            told = {
                "hit_blocks": hits.blocks,
                "references": hits.references,
                "hit_rate": hits.rate,
                "computed_tokens": hits.computed,
            }
        else:
            told = self._clocked(change, clock.served(change)) | {"routing": change.routing or clock.today}
        return row.model_copy(update=told)

    def _clocked(self, change: PlannedChange, served: Clocked) -> dict[str, object]:
        """Return the fields of a row on the clock."""
        run, figures, search = served.run, served.figures, served.search
        hits, prompts = int(run.hit_blocks.sum()), int(run.prompt_tokens[run.served].sum())
        if search is not None and search.replicas is None and change.kind == "today":
            best = percent(search.attainable if not search.shares else search.best)
            self.notes.append(
                f"no fleet of up to {MOST_REPLICAS} replicas meets the objectives: at most {best} of the requests do"
            )
        return {
            **clock_fields(run, figures, search, change.accelerators),
            "hit_blocks": hits,
            "references": run.references,
            "hit_rate": hits * change.trace.block_size / prompts if prompts else 0.0,
            "computed_tokens": int(run.computed_tokens.sum()),
            "sure": "predicted" if change.sure == "exact" else change.sure,
            **served.built,
        }


def _in_blocks_of(fine: BlockTrace, plan: Plan) -> BlockTrace:
    return fine.coarser(plan.engine.block_size // fine.block_size)


def _order(row: SweepRow, today: SweepRow) -> tuple[bool, float, float, float]:
    """Order rows by accelerators for the objectives, then by TTFT p99, then by what is computed; bounds after all that can be
    done.
    """
    found = gpus_of(row, today)
    gpus = inf if found is None else found
    late = inf if row.ttft_p99 is None else row.ttft_p99
    return row.sure == "bound", gpus, late, row.computed_tokens or 0


def advice_withheld(why: str) -> str:
    """Say that predictions advise nothing."""
    return f"Advice by prediction is withheld: {why}."


def lacks_prompts(opened: Opened) -> KvtoolError:
    """Return the error for a log whose prompts no rules predict."""
    return KvtoolError(
        f"{opened.name}: the log does not contain what predictions need, so no change can be tried",
        hint="kvtool profile shows what was reported, and each miss with its cause",
    )
