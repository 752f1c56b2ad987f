"""The rows of a sweep by several processes: each part of it is a task over the same blocks."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.errors import KvtoolError
from kvtool.profiler.what_if.sweeps import AskedSweep, parts, sweep
from kvtool.results.documents.what_if import SweepRow
from kvtool.text.terminal.progress import Progress
from kvtool.workload.block_trace import BlockTrace
from kvtool.workload.tasks.asked_tasks import AskedTasks
from kvtool.workload.tasks.task_map import Poisoned

WORTH_IT = 2_000_000
"""Blocks that all parts go through together from which on a second process pays: about two seconds of one."""


def swept(
    trace: BlockTrace, asked: AskedSweep, tasks: AskedTasks, progress: Progress
) -> tuple[list[SweepRow], list[str]]:
    """The rows of `sweep`, whoever counted them, and what there is to say of those that nobody could."""
    todo = parts(trace, asked)
    if len(todo) == 1 and tasks.engine == "local":
        return sweep(trace, asked), []
    progress.stage("counting", len(todo))
    rows: list[SweepRow] = []
    notes = []
    pays = len(todo) * len(trace.numbers) >= WORTH_IT
    for part, found in zip(todo, tasks.task_map(pays=pays).map(_Counting(trace), todo), strict=True):
        progress.advance(1)
        if isinstance(found, Poisoned):
            notes.append(f"left out: {_name(part)}, tried {found.tries} times; {found.why}")
        else:
            rows += found
    if not rows:
        raise KvtoolError(f"no row could be counted: {notes[0]}", hint="--jobs 1 does all in one process")
    return rows, notes


@dataclass(frozen=True, slots=True)
class _Counting:
    """What each process does with the parts that it is given."""

    trace: BlockTrace

    def __call__(self, part: AskedSweep) -> list[SweepRow]:
        return sweep(self.trace, part)


def _name(part: AskedSweep) -> str:
    said = [*part.policies, *(f"{size:,} blocks" for size in part.capacities)]
    said += [f"blocks of {size:,} tokens" for size in part.block_sizes]
    return ", ".join(said) or f"the sweep over {part.axis}"
