"""The way tasks are done, as the user asks for it, and the extra `ray`, which only a cluster needs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from kvtool.errors import INSTALL_RAY, NotAvailableError
from kvtool.results.choices import TaskEngine
from kvtool.workload.ahead.child import cores
from kvtool.workload.tasks.task_map import SingleProcess, TaskMap

_WHERE_IT_PAYS = 2
"""Processes where nobody says how many."""


def need_ray(what: str) -> None:
    """Raise NotAvailableError where ray, without which there is no `what`, is not installed. It is not imported: that starts
    threads."""
    if find_spec("ray") is None:
        raise NotAvailableError(f"{what} needs ray, which is not installed", hint=INSTALL_RAY)


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """`jobs` processes or actors; None: as many as suit. `address` is that of a Ray cluster; None: see `RayPool`."""

    jobs: int | None = None
    engine: TaskEngine = "local"
    address: str | None = None

    def task_map(self, *, pays: bool) -> TaskMap:
        """Return what runs the tasks; `pays`: there is so much to do that a second process is worth its start."""
        if self.engine == "ray":
            from kvtool.workload.tasks.ray_pool import RayPool

            return RayPool(self.jobs, self.address)
        jobs = self.jobs or (min(_WHERE_IT_PAYS, cores()) if pays else 1)
        if jobs == 1:
            return SingleProcess()
        from kvtool.workload.tasks.process_pool import ProcessPool

        return ProcessPool(jobs)
