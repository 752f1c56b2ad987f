"""A copy of this process that does one piece of work, writes it into a pipe, and is gone: soon after its parent at the latest."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, NoReturn

from kvtool.errors import KvtoolError

_BUFFER = 1 << 18
"""Bytes that are written and read at a time."""
_PIPE = 1 << 20
"""Bytes that wait in the pipe: the child gets so far ahead of its parent, and no further."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_QUIET = "TOKENIZERS_PARALLELISM"
Work = Callable[[BinaryIO], None]


def sendable(error: Exception) -> Exception:
    """Return an error as another process can raise it; with where it came from, if that is a bug."""
    if not isinstance(error, KvtoolError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    except Exception as other:  # whatever it is that keeps it from travelling
        return RuntimeError(f"{type(error).__name__}: {error} ({other})")
    return error


def can_fork() -> bool:
    """Return whether a copy of this process would work: it has one thread only, and none of the libraries that make others."""
    return sys.platform == "linux" and threading.active_count() == 1 and "torch" not in sys.modules


def cores() -> int:
    """Return how many of the machine's cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def second_process(jobs: int | None, *, pays: bool) -> bool:
    """Return whether there is to be one: as `jobs` says or, where it says nothing, if it pays; never where a copy would not
    work."""
    return can_fork() and (pays and cores() > 1 if jobs is None else jobs > 1)


class Child:
    """A forked process and the pipe that it writes into. To be closed, whether it has ended or not."""

    def __init__(self, work: Work) -> None:
        """OSError where the system has no room for another process."""
        read, write = os.pipe()
        self.stream = os.fdopen(read, "rb", _BUFFER)
        try:
            with block_signals() as before, quiet_tokenizers():
                self._process: int | None = _fork()
                if not self._process:
                    self.stream.close()  # so that writing fails when the parent is gone
                    _live(work, write, before)
        except OSError:
            self.stream.close()
            raise
        finally:
            os.close(write)
        _widen(read)

    def close(self) -> None:
        """End it, if it has not ended."""
        if self._process is not None:
            os.kill(self._process, signal.SIGKILL)  # one that has ended by itself is there until it is waited for
            self.wait()

    def wait(self) -> int:
        """Return the exit code of one that has closed its side of the pipe; a negative one where a signal has ended it."""
        assert self._process is not None
        process, self._process = self._process, None
        self.stream.close()
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _fork() -> int:
    with warnings.catch_warnings():
        # From Python 3.12 on it warns of every thread of the process; those of numpy stop for a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _live(work: Work, write: int, before: set[signal.Signals | int]) -> NoReturn:
    """Return the child's life. Nothing of the parent's is cleaned up at its end: neither temporary files nor the terminal."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the parent, too, which ends this one
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        gc.freeze()  # what was there is not looked at again: it need not be copied
        with os.fdopen(write, "wb", _BUFFER) as stream:
            work(stream)
        code = 0
    except BrokenPipeError:  # the parent wants no more, or is gone
        pass
    finally:
        os._exit(code)


@contextmanager
def block_signals() -> Iterator[set[signal.Signals | int]]:
    """Hold the signals that end a program; yields the mask from before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def quiet_tokenizers() -> Iterator[None]:
    """Keep the library `tokenizers` quiet: it uses no threads in a copy of the process, and reports that on the terminal."""
    before = os.environ.get(_QUIET)
    os.environ[_QUIET] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_QUIET]
        else:
            os.environ[_QUIET] = before


def _widen(pipe: int) -> None:
    """Let more wait in a pipe, where the system allows it."""
    import fcntl

    if hasattr(fcntl, "F_SETPIPE_SZ"):
        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)
        except OSError:
            return
