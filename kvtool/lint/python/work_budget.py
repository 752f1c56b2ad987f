"""What may be spent on one file, so that none takes longer than its length allows."""

from __future__ import annotations


class TooMuchWorkError(Exception):
    """What may be spent on one file is spent."""


class _Work:
    """What is left to be spent on the file that is read: one for each piece that is looked at or copied, and each expression."""

    left = 0


_WORK = _Work()


def allow(steps: int) -> None:
    """From here on so many steps may be spent."""
    _WORK.left = steps


def spend(steps: int = 1) -> None:
    """TooMuchWorkError where nothing is left."""
    _WORK.left -= steps
    if _WORK.left < 0:
        raise TooMuchWorkError


def work_left() -> bool:
    return _WORK.left > 0
