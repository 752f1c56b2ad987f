"""The way tasks are done, as the user asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.workload.ahead.child import cores
from kvtool.workload.tasks.task_map import SingleProcess, TaskMap

_WHERE_IT_PAYS = 2
"""Processes where nobody says how many."""


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """`jobs` processes; None: as many as suit."""

    jobs: int | None = None

    def task_map(self, *, pays: bool) -> TaskMap:
        """Return what runs the tasks; `pays`: there is so much to do that a second process is worth its start."""
        jobs = self.jobs or (min(_WHERE_IT_PAYS, cores()) if pays else 1)
        if jobs == 1:
            return SingleProcess()
        from kvtool.workload.tasks.process_pool import ProcessPool

        return ProcessPool(jobs)
