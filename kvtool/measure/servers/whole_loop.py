"""An event loop that no signal tears: what runs in it is cancelled first, and the signal's error raised when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kvtool.text.terminal.ended import EndedError, told_of_ends

T = TypeVar("T")


def run_whole(run: Callable[[Coroutine[Any, Any, T | None]], T | None], work: Coroutine[Any, Any, T]) -> T:
    """What comes of the work, which `run` runs (`asyncio.run`, or a runner's). EndedError where SIGTERM or SIGHUP ended it."""
    came: list[int] = []

    async def watched() -> T | None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def end(number: int) -> None:
            came.append(number)
            loop.call_soon_threadsafe(task.cancel)  # which also wakes a loop that waits

        with told_of_ends(end):
            try:
                return await work
            except asyncio.CancelledError:
                if not came:
                    raise
                return None

    found = run(watched())
    if came:
        raise EndedError(128 + came[0])
    return found  # type: ignore[return-value]  # None only where it was ended, or is what the work gives
