"""The rows of a sweep by several processes: each part of it is a task over the same blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kvtool.errors import KvtoolError
from kvtool.profiler.what_if.sweeps import SweepOptions, parts, sweep
from kvtool.results.documents.what_if import SweepRow
from kvtool.text.terminal.progress import Progress
from kvtool.workload.block_trace import BlockTrace
from kvtool.workload.tasks.task_map import Poisoned, TaskMap
from kvtool.workload.tasks.task_options import TaskOptions

Item = TypeVar("Item")
Result = TypeVar("Result")

WORTH_IT = 2_000_000
"""Blocks that all parts go through together from which on a second process pays: about two seconds of one."""


def swept(
    trace: BlockTrace, asked: SweepOptions, tasks: TaskOptions, progress: Progress
) -> tuple[list[SweepRow], list[str]]:
    """Return the rows of `sweep`, whoever counted them, and what there is to say of those that nobody could."""
    todo = parts(trace, asked)
    if len(todo) == 1:
        return sweep(trace, asked), []
    progress.stage("counting", len(todo))
    notes: list[str] = []
    tasked = tasks.task_map(pays=len(todo) * len(trace.numbers) >= WORTH_IT)
    counted = results(todo, _Counting(trace), tasked, progress, _name, notes)
    return [row for _, rows in counted for row in rows], notes


def results(
    todo: Sequence[Item],
    work: Callable[[Item], Result],
    tasks: TaskMap,
    progress: Progress,
    name: Callable[[Item], str],
    notes: list[str],
) -> Iterator[tuple[Item, Result]]:
    """Yield what comes of each item; `notes` get the names of those that nobody could do. KvtoolError where that is all of them."""
    left_out: list[str] = []
    for item, found in zip(todo, tasks.map(work, todo), strict=True):
        progress.advance(1)
        if isinstance(found, Poisoned):
            left_out.append(f"left out: {name(item)}, failed {found.tries} times; {found.why}")
            notes.append(left_out[-1])
        else:
            yield item, found
    if todo and len(left_out) == len(todo):
        raise KvtoolError(f"no row was computed: {left_out[0]}", hint="run in one process with --jobs 1")


@dataclass(frozen=True, slots=True)
class _Counting:
    """The work of each process on its parts."""

    trace: BlockTrace

    def __call__(self, part: SweepOptions) -> list[SweepRow]:
        return sweep(self.trace, part)


def _name(part: SweepOptions) -> str:
    said = [*part.policies, *(f"{size:,} blocks" for size in part.capacities)]
    said += [f"blocks of {size:,} tokens" for size in part.block_sizes]
    return ", ".join(said) or f"the sweep over {part.axis}"
