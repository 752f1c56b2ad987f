"""The options of worker processes; `Reading.jobs` is their number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from kvtool.config.option import Option, Panel
from kvtool.errors import KvtoolError
from kvtool.results.choices import TaskEngine

if TYPE_CHECKING:
    from kvtool.workload.tasks.task_options import TaskOptions


@dataclass(frozen=True, kw_only=True)
class Spreading:
    """Place of the processes that --jobs counts."""

    PANEL: ClassVar = Panel.ADVANCED
    engine: Annotated[TaskEngine, Option("Place of the --jobs: this machine, or a Ray cluster (extra ray).")] = "local"
    ray_address: Annotated[
        str | None,
        Option(
            "Address of the Ray cluster: HOST:PORT, or auto for one on this machine.",
            "ADDRESS",
            words="$RAY_ADDRESS, else a new cluster",
        ),
    ] = None

    def tasks(self, jobs: int | None) -> TaskOptions:
        """Return the choice. Raises KvtoolError for options that exclude each other, NotAvailableError for ray without ray."""
        from kvtool.workload.tasks.task_options import TaskOptions

        if self.ray_address is not None and self.engine != "ray":
            raise KvtoolError("--ray-address says where a Ray cluster is", hint="add --engine ray")
        if self.engine == "ray":
            from kvtool.workload.tasks.task_options import need_ray

            need_ray("--engine ray")
        return TaskOptions(jobs, self.engine, self.ray_address)
