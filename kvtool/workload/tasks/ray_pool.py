"""Tasks on a Ray cluster.

A process beside the command talks to the cluster, gives tasks to actors and results to the command, in order: what Ray does to its
own process ends no command.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar, cast

from kvtool.errors import NotAvailableError
from kvtool.workload.ahead.child import block_signals, sendable
from kvtool.workload.tasks.task_map import Came, Poisoned, TaskQueue, attempt

_AHEAD = 4
"""Results for each actor that may wait for one that takes long."""
_LOOK = 0.5
"""Seconds after which the driver looks whether its command is still there."""
_STILLBORN = 3
"""Actors that may be lost before they answer, one after another, for each one that is wanted."""
_NO_CORES = 60.0
"""Seconds that a cluster may be without a core before it is taken to be gone."""
_SHORT = 200  # characters of an error that a message quotes
_OWN = "local"
"""Ray's word for a cluster that is begun here and ends with its driver."""
Item = TypeVar("Item")
Result = TypeVar("Result")
_REACH = 60.0
"""Seconds in which a cluster answers, or one is begun here."""
_LEAVE = 10.0
"""Seconds for taking leave of it."""


class DriverMessage(Enum):
    """Messages of the driver to its command."""

    REACHED = auto()
    """There is a cluster. Sent first; all else is sent after it."""
    UNREACHED = auto()
    """There is none; why."""
    RESULT = auto()
    ERROR = auto()
    """Of a task: the command raises it."""
    GONE = auto()
    """There is none any more; why."""


@dataclass(frozen=True, slots=True)
class RayOptions:
    """How many actors, and which cluster; None: that of $RAY_ADDRESS, or else one of its own on this machine."""

    jobs: int | None
    address: str | None


class _ClusterLostError(Exception):
    """The cluster does not answer, or has no cores left."""


def drive_ray(pipe: Connection, asked: RayOptions, work: Callable[[Any], object], items: Sequence[object]) -> None:
    """Do all tasks; the command that closes the pipe wants no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the command, too, which ends this one
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    _be_silent()
    with suppress(OSError, EOFError):
        try:
            ray = _connected(asked)
        except Exception as error:  # whatever Ray raises: the command tells it
            pipe.send((DriverMessage.UNREACHED, _first_line(error)))
            return
        try:
            pipe.send((DriverMessage.REACHED, None))
            _drive(ray, pipe, asked.jobs, work, items)
        except (OSError, EOFError):  # of the pipe: the command wants no more
            pass
        except _ClusterLostError as error:
            pipe.send((DriverMessage.GONE, str(error)))
        except Exception as error:  # of a task, or a bug: the command raises it
            pipe.send((DriverMessage.ERROR, sendable(error)))
        finally:
            pipe.close()
            ray.shutdown()


def _be_silent() -> None:
    """Silence Ray and what it starts: they write into no terminal; their words may hold what was in a prompt. Ray keeps logs of
    its own."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.close(nowhere)


def _connected(asked: RayOptions) -> Any:
    """Return Ray, connected to a cluster. No usage statistics, no dashboard."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    address = asked.address or os.environ.get("RAY_ADDRESS") or _OWN
    ray.init(
        address=address,
        num_cpus=asked.jobs if address == _OWN else None,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    return ray


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:_SHORT]


class _TaskActor:
    """An actor on a core of the cluster: it keeps its work, and what that has loaded."""

    def __init__(self, work: Callable[[Any], object], folder: str) -> None:
        """`folder` is where the command runs, from which relative paths begin."""
        with suppress(OSError):  # a node without it: what is not there is reported by whoever opens it
            os.chdir(folder)
        self._work = work

    def begin(self) -> None:
        """Answer, to show that the actor is there."""

    def attempt(self, item: object) -> tuple[Came, object]:
        """Return the result of a task."""
        return attempt(self._work, item)


@dataclass(slots=True)
class _Seat:
    """An actor and the task that it is at; None: it has not answered yet."""

    actor: Any
    task: int | None = None


class _Cluster:
    """The actors, by what they were asked last."""

    def __init__(self, ray: Any, jobs: int | None, work: Callable[[Any], object], most: int) -> None:
        self._ray = ray
        self._kind = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD")(
            _TaskActor
        )
        self._work = ray.put(work)
        self._folder = str(Path.cwd())
        self._asked: dict[Any, _Seat] = {}
        self._answered = time.monotonic()
        self._stillborn = 0
        self.size = max(min(jobs or self._cores(), most), 1)
        for _ in range(self.size):
            self._seat()

    def give(self, queue: TaskQueue, items: Sequence[object], waiting: list[_Seat]) -> None:
        """Give tasks to actors that wait for one, as long as there are some."""
        while waiting and (task := queue.take()) is not None:
            seat = waiting.pop()
            seat.task = task
            self._asked[seat.actor.attempt.remote(items[task])] = seat

    def heard(self, queue: TaskQueue) -> list[_Seat]:
        """Return the actors that have answered by now; lost actors are replaced."""
        ray = self._ray
        answered, _ = ray.wait(list(self._asked), num_returns=1, timeout=_LOOK)
        free = []
        for reference in answered:
            seat = self._asked.pop(reference)
            try:
                came = ray.get(reference)
            except ray.exceptions.RaySystemError as error:
                raise _ClusterLostError(_first_line(error)) from error
            except ray.exceptions.RayTaskError:
                raise
            except ray.exceptions.RayError as error:
                if seat.task is None:
                    self._stillborn += 1
                else:
                    queue.put(seat.task, Came.LOST, _how(ray, error))
                if self._stillborn > _STILLBORN * self.size:
                    raise _ClusterLostError("its workers do not start; install the same kvtool on each node") from error
                self._seat()
                continue
            if seat.task is not None:
                queue.put(seat.task, *came)
            free.append(_Seat(seat.actor))
            self._answered, self._stillborn = time.monotonic(), 0
        if not answered:
            self._look()
        return free

    def _seat(self) -> None:
        actor = self._kind.remote(self._work, self._folder)
        self._asked[actor.begin.remote()] = _Seat(actor)

    def _look(self) -> None:
        """Raise _ClusterLostError where nobody has been at work for long, and nobody could be."""
        if all(seat.task is None for seat in self._asked.values()) and time.monotonic() - self._answered > _NO_CORES:
            raise _ClusterLostError(f"none of its actors started within {_NO_CORES:.0f} s")

    def _cores(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 1))


def _how(ray: Any, error: Exception) -> str:
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        return "its node ran out of memory"
    return "its worker or node was lost"


def _drive(
    ray: Any, pipe: Connection, jobs: int | None, work: Callable[[Any], object], items: Sequence[object]
) -> None:
    cluster = _Cluster(ray, jobs, work, len(items))
    queue = TaskQueue(len(items), ahead=_AHEAD * cluster.size)
    waiting: list[_Seat] = []
    while not queue.over:
        cluster.give(queue, items, waiting)
        waiting += cluster.heard(queue)
        for result in queue.results():
            pipe.send((DriverMessage.RESULT, result))
        if pipe.poll():
            raise EOFError  # nothing is ever sent here: the command has closed it


class ClusterGoneError(NotAvailableError):
    """The Ray cluster went away, or never answered; results that were given out before are what there is."""


class RayPool:
    """Actors on the cluster at `address`; None: on that of $RAY_ADDRESS, or else on one that is begun here for the tasks."""

    def __init__(self, jobs: int | None, address: str | None) -> None:
        """`jobs` actors with a core each, None: as many as the cluster has cores. Ray is installed: see `need_ray`."""
        self._jobs = jobs
        self._address = address

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result | Poisoned]:
        """Map as `TaskMap` says. ClusterGoneError where the cluster does not answer, or no longer."""
        if not items:
            return
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        asked = RayOptions(self._jobs, self._address)
        process = context.Process(target=drive_ray, args=(there, asked, work, list(items)), daemon=False)
        leave = 0.0
        try:
            with block_signals():
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
            if said is DriverMessage.REACHED:
                return
            why = str(value)
    raise ClusterGoneError(
        f"cannot use a Ray cluster: {why}",
        hint="check with ray status; set RAY_AUTH_TOKEN if the cluster has a token",
    )


def _next(pipe: Connection, done: int, count: int) -> object:
    """Return the next result. Raises what its task raised."""
    try:
        said, value = pipe.recv()
    except (EOFError, OSError):
        said, value = DriverMessage.GONE, "its driver ended"
    if said is DriverMessage.RESULT:
        return value
    if said is DriverMessage.ERROR:
        assert isinstance(value, Exception)
        raise value
    raise ClusterGoneError(f"the Ray cluster went away after {done:,} of {count:,} tasks: {value}")
