"""Tasks on a Ray cluster, by way of a process that talks to it: what Ray does to its own process ends no command."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TypeVar, cast

from kvtool.errors import NotAvailableError
from kvtool.workload.ahead.child import signals_held
from kvtool.workload.tasks.ray_driver import RayAsked, Said, drive_ray
from kvtool.workload.tasks.task_map import Poisoned

Item = TypeVar("Item")
Result = TypeVar("Result")

_REACH = 60.0
"""Seconds in which a cluster answers, or one is begun here."""
_LEAVE = 10.0
"""Seconds for taking leave of it."""


class ClusterGoneError(NotAvailableError):
    """The Ray cluster went away, or never answered; results that were given out before are what there is."""


class RayPool:
    """Actors on the cluster at `address`; None: on that of $RAY_ADDRESS, or else on one that is begun here for the tasks."""

    def __init__(self, jobs: int | None, address: str | None) -> None:
        """`jobs` actors with a core each, None: as many as the cluster has cores. Ray is installed: see `need_ray`."""
        self._jobs = jobs
        self._address = address

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result | Poisoned]:
        """As `TaskMap` says. ClusterGoneError where the cluster does not answer, or no longer."""
        if not items:
            return
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        asked = RayAsked(self._jobs, self._address)
        process = context.Process(target=drive_ray, args=(there, asked, work, list(items)), daemon=False)
        leave = 0.0
        try:
            with signals_held():
                process.start()
            there.close()
            _reach(here)
            leave = _LEAVE
            for done in range(len(items)):
                yield cast("Result | Poisoned", _next(here, done, len(items)))
        finally:
            here.close()
            there.close()
            if process.pid is not None:
                process.join(leave)
                process.kill()
                process.join()


def _reach(pipe: Connection) -> None:
    """Wait until the driver has a cluster."""
    why = f"none answered in {_REACH:.0f} s"
    with suppress(EOFError, OSError):
        if pipe.poll(_REACH):
            said, value = pipe.recv()
            if said is Said.REACHED:
                return
            why = str(value)
    raise ClusterGoneError(
        f"no Ray cluster could be used: {why}",
        hint="ray status says what there is; RAY_AUTH_TOKEN is that of the cluster, where it has one",
    )


def _next(pipe: Connection, done: int, count: int) -> object:
    """The next result. Raises what its task raised."""
    try:
        said, value = pipe.recv()
    except (EOFError, OSError):
        said, value = Said.GONE, "its driver was ended"
    if said is Said.RESULT:
        return value
    if said is Said.ERROR:
        assert isinstance(value, Exception)
        raise value
    raise ClusterGoneError(f"the Ray cluster went away after {done:,} of {count:,} tasks: {value}")
