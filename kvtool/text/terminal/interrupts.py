"""Ctrl-C that waits: state that must stay whole is not torn by a signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class Shield:
    """Many short blocks that Ctrl-C does not end in the middle, for the price of one signal handler.

    `with shield.installed():` goes around the work, `with shield:` around each block in it; it is raised when that is over.
    """

    __slots__ = ("_caught", "_previous", "_up")

    def __init__(self) -> None:
        self._up = False
        self._caught: FrameType | None = None
        self._previous: Callable[[int, FrameType | None], object] | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Does nothing outside the main thread, or where Ctrl-C is ignored already."""
        previous = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(previous):
            yield
            return
        self._previous = previous
        signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._up:
            self._caught = frame
        elif self._previous is not None:
            self._previous(number, frame)

    def __enter__(self) -> None:
        self._up = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._up = False
        if self._caught is not None and self._previous is not None:
            frame, self._caught = self._caught, None
            self._previous(signal.SIGINT, frame)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """One block that Ctrl-C does not end in the middle; it is raised when the block is over."""
    shield = Shield()
    with shield.installed(), shield:
        yield
