"""Tasks on the cores of this machine: processes that are given one task at a time."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, ForkProcess, SpawnContext, SpawnProcess
from typing import TypeVar, cast

from kvtool.errors import KvtoolError
from kvtool.workload.ahead.child import block_signals, can_fork, quiet_tokenizers
from kvtool.workload.tasks.task_map import Came, Poisoned, SingleProcess, TaskQueue, attempt

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 4
"""Results for each process that may wait for one that takes long."""
_STILLBORN = 3
"""Processes that may end before they are ready, for each one that is wanted."""


class ProcessPool:
    """Up to `jobs` other processes: copies of this one where it can be copied, which then share its memory, else fresh ones."""

    def __init__(self, jobs: int) -> None:
        assert jobs >= 1
        self._jobs = jobs

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result | Poisoned]:
        """Map as `TaskMap` says. KvtoolError where processes do not even begin to work."""
        team = _Team(work, min(self._jobs, len(items)))
        queue = TaskQueue(len(items), ahead=_AHEAD * self._jobs)
        try:
            team.fill()
            if not team.members:  # the system has no room for another process
                yield from SingleProcess().map(work, items)
                return
            while not queue.over:
                team.fill()
                for worker in team.idle():
                    if (task := queue.take()) is not None:
                        worker.begin(task, items[task])
                for task, came, value in team.heard():
                    queue.put(task, came, value)
                for result in queue.results():
                    yield cast("Result | Poisoned", result)
        finally:
            team.end()


class _Worker:
    """A process and the task that it is at."""

    def __init__(self, process: ForkProcess | SpawnProcess, pipe: Connection) -> None:
        self.pipe = pipe
        self.ready = False
        self.task: int | None = None
        self._process = process

    def begin(self, task: int, item: object) -> None:
        self.task = task
        with suppress(OSError):  # it is gone, which is heard of
            self.pipe.send(item)

    def end(self) -> str:
        """End the process, and return how it ended."""
        self._process.kill()
        self._process.join()
        self.pipe.close()
        code = self._process.exitcode or 0
        self._process.close()
        return f"signal {-code} ended its process" if code < 0 else f"its process ended with exit code {code}"


class _Team:
    """The processes that there are. To be ended."""

    def __init__(self, work: Callable[[Item], object], size: int) -> None:
        self._work = work
        self._size = size
        self._stillborn = 0
        self._ever = False
        self.members: list[_Worker] = []
        copies = can_fork()
        self._context: ForkContext | SpawnContext = (
            multiprocessing.get_context("fork") if copies else multiprocessing.get_context("spawn")
        )
        self._copies = copies
        self._lives, self._life = self._context.Pipe(duplex=False)
        """Nothing is ever said here: whoever listens at the one end sees that this process, which holds the other, is gone."""

    def fill(self) -> None:
        """Begin as many processes as there is room for, up to the size."""
        while len(self.members) < self._size:
            try:
                self.members.append(self._begun())
            except OSError as error:
                if self._ever and not self.members:
                    raise KvtoolError(f"cannot start another process: {error.strerror}") from error
                self._size = len(self.members)
            self._ever = True

    def _begun(self) -> _Worker:
        here, there = self._context.Pipe()
        others = [self._life, here, *(worker.pipe for worker in self.members)] if self._copies else []
        try:
            with block_signals() as before, quiet_tokenizers():
                args = there, self._lives, self._work, before, others
                process = self._context.Process(target=_live, args=args, daemon=True)
                process.start()
        except BaseException:
            here.close()
            raise
        finally:
            there.close()
        return _Worker(process, here)

    def idle(self) -> list[_Worker]:
        return [worker for worker in self.members if worker.ready and worker.task is None]

    def heard(self) -> Iterator[tuple[int, Came, object]]:
        """Wait until one or more say something; what came of their tasks."""
        by_pipe = {worker.pipe: worker for worker in self.members}
        for pipe in wait(list(by_pipe)):
            worker = by_pipe[cast("Connection", pipe)]
            task = worker.task
            try:
                said: tuple[Came, object] | None = worker.pipe.recv()
            except (EOFError, OSError):
                how = worker.end()
                self.members.remove(worker)
                if task is not None:
                    yield task, Came.LOST, how
                    continue
                self._stillborn += 1
                if self._stillborn > _STILLBORN * self._size:
                    raise KvtoolError(
                        f"worker processes do not start: {how}", hint="use --jobs 1 for one process"
                    ) from None
                continue
            if said is None:
                worker.ready = True
                continue
            assert task is not None
            worker.task = None
            yield task, *said

    def end(self) -> None:
        """End those that are left; what they are at is not waited for."""
        for worker in self.members:
            worker.end()
        self.members = []
        self._life.close()
        self._lives.close()


def _live(
    pipe: Connection,
    lives: Connection,
    work: Callable[[object], object],
    before: set[signal.Signals | int],
    others: Sequence[Connection],
) -> None:
    """Run another process: it says that it is ready, then takes tasks until nobody gives it any."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the parent, too, which ends this one
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    for other in others:  # a copy of the parent's ends: while one is open, nobody sees that the parent is gone
        other.close()
    threading.Thread(target=_end_with_parent, args=(lives,), daemon=True).start()
    gc.freeze()  # what was there is not looked at again: it need not be copied
    with suppress(EOFError, OSError):
        pipe.send(None)
        while True:
            pipe.send(attempt(work, pipe.recv()))
    os._exit(0)  # nothing of the parent's is cleaned up


def _end_with_parent(lives: Connection) -> None:
    with suppress(EOFError, OSError):
        lives.recv_bytes()
    os._exit(1)
