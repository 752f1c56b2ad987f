"""Ctrl-C that waits: state that must stay whole is not torn by a signal."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Uninterrupted:
    """A block that Ctrl-C does not end in the middle; it is raised when the block is over."""

    __slots__ = ("_caught", "_held", "_previous")

    def __init__(self) -> None:
        self._held = threading.current_thread() is threading.main_thread()
        self._caught: FrameType | None = None

    def __enter__(self) -> None:
        if self._held:
            self._previous = signal.getsignal(signal.SIGINT)
            self._held = callable(self._previous)  # else it is ignored already
        if self._held:
            signal.signal(signal.SIGINT, self._note)

    def _note(self, _number: int, frame: FrameType | None) -> None:
        self._caught = frame

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held:
            signal.signal(signal.SIGINT, self._previous)
            if self._caught is not None and callable(self._previous):
                self._previous(signal.SIGINT, self._caught)
