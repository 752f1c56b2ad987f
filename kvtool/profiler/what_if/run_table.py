"""The table of `kvtool what-if` where blocks of one size do not describe the cache: models with several groups of layers, other
engines, times to live, replicas. Each row is a run of all requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypedDict

from kvtool.accounting.ledger.totals import TokenTotals
from kvtool.engine.engine_error import EngineError
from kvtool.errors import KvtoolError
from kvtool.fixes.fix import Fix
from kvtool.fixes.run_fixes import DOUBLE_CAPACITY, run_fixes
from kvtool.profiler.opening import Opened
from kvtool.profiler.profiler import ReportOptions
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.workload_runs import WorkloadRuns
from kvtool.profiler.what_if.cache_changes import NO_CAPACITY, UNLIMITED, capacity_flags, larger_caches
from kvtool.profiler.what_if.change_table import CLOCK_ROWS, TableOptions, WhatIfTable
from kvtool.profiler.what_if.planned_change import RunChange, nothing_fits, with_blocks
from kvtool.profiler.what_if.prompt_changes import prompt_changes
from kvtool.profiler.what_if.sweeps import spread
from kvtool.profiler.what_if.table_answer import answer
from kvtool.results.documents.what_if import SCHEMA, SweepRow, WhatIfDocument
from kvtool.text.terminal.numbers import capitalized
from kvtool.text.terminal.progress import Progress


class RowHits(TypedDict):
    """What a run hits, as a row has it."""

    hit_blocks: float
    references: int
    hit_rate: float
    computed_tokens: int


class RunTable:
    """Makes the rows of one workload."""

    def __init__(self, opened: Opened, asked: TableOptions, progress: Progress) -> None:
        self._opened, self._asked, self._plan = opened, asked, opened.planned.plan
        self._of_prompts = WhatIfTable(opened, asked, progress)
        """Runs the requests as they are, finds the fixes of the prompts, and keeps what is missing."""

    def document(self) -> WhatIfDocument:
        """Return the table; KvtoolError where no request can be served."""
        profiler, profiled = self._of_prompts.explained()
        runs = profiler.runs
        misses = self._of_prompts.reported()
        withheld = "" if misses is None else misses.calibration.too_few
        found = self._of_prompts.fixes(withheld)
        made = found.chosen(self._asked.fixed) if found is not None and self._asked.fixed else ()
        taken = made if found is None else found.run_as(made)
        today = RunChange("today", "with these fixes" if made else "today", "", taken, {})
        served = self._run(runs, today.fixes) if taken else profiled
        changes = [] if withheld else [*self._settings(profiled, taken), *self._capacities(taken)]
        if found is not None:
            changes += [
                RunChange("prompts", each.name, each.does, each.fixes, {"fixed": each.fixed})
                for each in prompt_changes(found, made)
            ]
        first, others = self._row(today, served), list[SweepRow]()
        for change in changes:
            try:
                row = self._row(change, self._run(runs, change.fixes, served))
            except (KvtoolError, EngineError) as error:
                self._of_prompts.lack(change.name, capitalized(error.message))
            else:
                if change.kind != "setting" or (row.computed_tokens or 0) < (first.computed_tokens or 0):
                    others.append(row)
        rows = [
            first,
            *sorted(others, key=lambda row: (row.sure == "bound", row.computed_tokens or 0)),
        ]
        self._of_prompts.lack(CLOCK_ROWS, "Needs one group of layers by vLLM's rules")
        prompts = "" if found is None else f"{found.edits_label}: {self._asked.edits_of(found.together)}"
        told = answer(rows, self._of_prompts.missing, prompts_command=prompts)
        return self._document(profiled, rows, answer=self._of_prompts.answer_of(misses, told))

    def of_capacities(self, capacities: Sequence[int]) -> WhatIfDocument:
        """Return the rows of caches of these sizes, in blocks; without any, of sizes up to one that evicts nothing."""
        runs = self._opened.profiler(ReportOptions(advice=False), self._of_prompts.progress).runs
        unlimited = self._run(runs, [_with_blocks(None)])
        rows: list[SweepRow] = []
        small: list[tuple[int, KvtoolError | EngineError]] = []
        for blocks in capacities or spread(self._distinct(unlimited)):
            try:
                result = self._run(runs, [_with_blocks(blocks)], unlimited)
            except (KvtoolError, EngineError) as error:
                small.append((blocks, error))
            else:
                row = _rates(result, self._plan.engine.block_size)
                rows.append(SweepRow(axis="capacity", capacity=blocks, sure="exact", **row))
        if not rows:
            raise small[-1][1]
        notes = (
            [f"caches of up to {max(blocks for blocks, _ in small):,} blocks are too small for some requests"]
            if small
            else []
        )
        found = self._document(unlimited, rows, notes=notes)
        best = _rates(unlimited, found.block_size)
        return found.model_copy(
            update={"reachable_blocks": int(best["hit_blocks"]), "reachable_hit_rate": best["hit_rate"]}
        )

    def _settings(self, today: RunResult, taken: Sequence[Fix]) -> Iterator[RunChange]:
        """Yield the settings of the engine that may win back what a run lost."""
        keyed = today.counts.keyless < today.counts.routed
        fixes = {fix.what: fix for fix in run_fixes(today.ledger.totals(), self._plan, keyed=keyed)}
        names = Counter(what.partition(": --")[0] for what in fixes)
        for what, fix in fixes.items():
            name = what.partition(": --")[0]
            if fix.key != DOUBLE_CAPACITY:
                yield RunChange("setting", what if names[name] > 1 else name, what, [*taken, fix], fix.flags or None)

    def _capacities(self, taken: Sequence[Fix]) -> Iterator[RunChange]:
        blocks = self._plan.engine.num_blocks
        if blocks is None:
            if self._plan.cache is None or self._plan.cache.engine is None:
                self._of_prompts.lack("cache x 2", NO_CAPACITY)
            return
        for larger, name, does in larger_caches(self._plan, blocks - 1):
            fixes = [*taken, _with_blocks(larger)]
            yield RunChange("capacity", name, does, fixes, capacity_flags(larger), more_hardware=True)
        yield RunChange("capacity", *UNLIMITED, [*taken, _with_blocks(None)], sure="bound", more_hardware=True)

    def _run(self, runs: WorkloadRuns, fixes: Sequence[Fix], like: RunResult | None = None) -> RunResult:
        """Run all requests; KvtoolError where some can never be served, of those that another run served, too."""
        result = runs.run("trying changes", self._plan, fixes=fixes)
        if result.partial:
            raise KeyboardInterrupt
        if like is not None and _requests(result) != _requests(like):
            raise KvtoolError("some requests do not fit into its cache")
        return result

    def _row(self, change: RunChange, result: RunResult) -> SweepRow:
        command = self._asked.command_of
        plan = self._plan
        for fix in change.fixes:
            plan = plan if fix.plan is None else fix.plan(plan)
        return SweepRow(
            kind=change.kind,
            change=change.name,
            does=change.does,
            more_hardware=change.more_hardware,
            capacity=None if plan.engine.num_blocks is None else plan.engine.num_blocks - 1,
            block_size=plan.engine.block_size,
            command=None if change.flags is None else command(change.flags),
            sure=change.sure,
            **_rates(result, plan.engine.block_size),
        )

    def _distinct(self, result: RunResult) -> int:
        """Return the blocks of all different prompts, in each group of layers."""
        groups = 1 if self._plan.engine.plan is None else len(self._plan.engine.plan.groups)
        total = TokenTotals.of(result.ledger.totals())
        return groups * max(total.prompt_tokens - total.reachable_tokens, 0) // self._plan.engine.block_size

    def _document(
        self, result: RunResult, rows: list[SweepRow], *, answer: Sequence[str] = (), notes: Sequence[str] = ()
    ) -> WhatIfDocument:
        plan, total = self._plan, TokenTotals.of(result.ledger.totals())
        block = plan.engine.block_size
        return WhatIfDocument(
            schema=SCHEMA,
            input=self._opened.name,
            rules=plan.rules,
            block_size=block,
            requests=total.requests,
            references=total.prompt_tokens // block,
            distinct_blocks=self._distinct(result),
            reachable_blocks=total.reachable_tokens // block,
            reachable_hit_rate=total.reachable_rate,
            capacity=None if plan.engine.num_blocks is None else plan.engine.num_blocks - 1,
            bytes_per_block=plan.bytes_per_block,
            sampled=1.0,
            notes=[*notes, *self._opened.wrong_usage],
            answer=list(answer),
            rows=rows,
            missing=self._of_prompts.missing,
        )


def _with_blocks(blocks: int | None) -> Fix:
    what = "another size of the cache"
    return Fix(f"run:blocks-{blocks}", "", "P0", None, what, plan=lambda plan: with_blocks(plan, blocks))


def _requests(result: RunResult) -> int:
    return sum(group.requests for group in result.ledger.totals())


def _rates(result: RunResult, block_size: int) -> RowHits:
    total = TokenTotals.of(result.ledger.totals())
    if not total.requests:
        raise nothing_fits()
    return {
        "hit_blocks": round(total.hit_tokens / block_size, 1),
        "references": total.prompt_tokens // block_size,
        "hit_rate": total.hit_rate,
        "computed_tokens": total.prompt_tokens - total.hit_tokens,
    }
