"""Signals that end a process from outside: it cleans up first. Imported by every start, so it imports next to nothing."""

from __future__ import annotations

import signal
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class EndedError(SystemExit):
    """Somebody ended the process (SIGTERM, SIGHUP); its code is 128 and the signal's number."""


def end_on_signals() -> None:
    """From now on SIGTERM and SIGHUP raise EndedError in the main thread, so that nothing is left half written.

    One that does something else already stays as it is: under `nohup` a closed terminal ends nothing.
    """
    for number in _ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    for each in _ENDING:  # another one would tear the cleaning up
        signal.signal(each, signal.SIG_IGN)
    raise EndedError(128 + number)


def raise_swallowed(error: Exception) -> None:
    """Raise again what a signal raised while pydantic built a model: all that it keeps of another exception are its words."""
    if type(error).__name__ != "SchemaError":
        return
    name, _, code = str(error).rsplit("\n", 1)[-1].strip().partition(":")
    if name == KeyboardInterrupt.__name__:
        raise KeyboardInterrupt from error
    if name == EndedError.__name__:
        raise EndedError(int(code)) from error
