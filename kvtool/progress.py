"""Progress on stderr: a bar on a terminal after half a second, elsewhere a line every ten seconds."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import (
    Progress as Bars,
)

_PATIENCE = 0.5
_EVERY = 10.0
_CHECK = 64


class Progress:
    """Counts requests, or other `unit`, of one stage after the other; silent where `quiet`."""

    def __init__(self, console: Console | None, *, quiet: bool = False, unit: str = "requests") -> None:
        self._console = console
        self._quiet = quiet or console is None
        self._has_terminal = console is not None and console.file.isatty() and os.environ.get("TERM") != "dumb"
        self._started = time.monotonic()
        self._last_line = self._started
        self._unit = unit
        self._stage = ""
        self._done = 0
        self._total: int | None = None
        self._bars: Bars | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def stage(self, name: str, total: int | None = None) -> None:
        """Begin to count another thing."""
        self._stage, self._done, self._total = name, 0, total
        if self._bars is not None and self._task is not None:
            self._bars.reset(self._task, total=total, description=name)

    def advance(self, count: int = 1) -> None:
        """So many more are done."""
        self._done += count
        if self._quiet or (self._done % _CHECK and self._total is None):
            return
        now = time.monotonic()
        if now - self._started < _PATIENCE:
            return
        if self._has_terminal and self._console is not None:
            self._draw(self._console)
        elif now - self._last_line >= _EVERY:
            self._last_line = now
            print(f"kvtool: {self._stage}, {self._done:,} {self._unit}, {now - self._started:.0f} s", file=sys.stderr)

    def _draw(self, console: Console) -> None:
        if self._bars is None:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(30),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            live = Console(
                file=console.file,
                force_terminal=True,  # whether it is colored is another matter
                color_system=None if console.no_color else "standard",
                no_color=console.no_color,
            )
            self._bars = Bars(*columns, console=live, transient=True)
            self._task = self._bars.add_task(self._stage, total=self._total)
            self._bars.start()
        assert self._task is not None
        self._bars.update(self._task, completed=self._done)
