"""A bound on the work for one file, so that none takes longer than its length allows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class TooMuchWorkError(Exception):
    """The budget of one file is used up."""


class _Work:
    """The budget left for a file: one for each piece that is looked at or copied, and each expression."""

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


@contextmanager
def set_apart(steps: int) -> Iterator[None]:
    """Work that has a budget of its own, and takes nothing from that of the file; more than that ends it silently."""
    left, _WORK.left = _WORK.left, steps
    try:
        yield
    except TooMuchWorkError:
        return
    finally:
        _WORK.left = left
