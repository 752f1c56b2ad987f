"""Progress on stderr: one line that is drawn again, on a terminal after half a second; elsewhere a line every ten seconds."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from math import ceil
from types import TracebackType
from typing import TYPE_CHECKING

from kvtool.text.terminal.console import ascii_only, bar, cell_width, find_width, sanitize, shorten

if TYPE_CHECKING:
    from rich.console import Console

_PATIENCE = 0.5
LINE_EVERY = 10.0
"""Seconds between two lines of progress where it is no terminal that is drawn on again."""
_REDRAW = 0.1
_SETTLED = 1.0
"""Seconds of steady work from which on its rate says something."""
_FORESEEN = 0.05
_LONG = 3.0
"""A stage says the time left when that part of it is done, or after so many seconds of steady work."""
_BAR = 20
_ROUNDING = 1e-6
_CLEAR = "\r\x1b[2K"
_GREEN, _PLAIN = "\x1b[32m", "\x1b[0m"

Share = Callable[[], float | None]
"""How much of a stage is done, from 0 to 1; None where nobody knows."""


class Progress:
    """Counts requests, or other `unit`, of one stage after the other; silent where `quiet`."""

    def __init__(self, console: Console | None, *, quiet: bool = False, unit: str = "requests") -> None:
        self._console = console
        self._quiet = quiet or console is None
        self._has_terminal = console is not None and console.file.isatty() and os.environ.get("TERM") != "dumb"
        self._started = self._last_line = time.monotonic()
        self._last_drawn = float("-inf")
        self._unit = unit
        self._stage = ""
        self._done = 0
        self._total: int | None = None
        self._share: Share | None = None
        self._until: float | None = None
        self._first: tuple[float, int] | None = None
        self._found: Callable[[], str] | None = None
        self._runs: dict[str, int] = {}

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()

    def hide(self) -> None:
        """Take the line away, until it is drawn again: something else is about to be printed."""
        if self._last_drawn > 0:
            self._write(_CLEAR)

    @property
    def done(self) -> int:
        """The count of this stage."""
        return self._done

    def stage(self, name: str, total: int | None = None, share: Share | None = None) -> None:
        """Begin to count another thing: `total` of them; where that is not known, `share` may tell how much is done.

        A name that comes again is another run of that stage: it is numbered and has no bar, as a bar would go backwards.
        """
        self._runs[name] = self._runs.get(name, 0) + 1
        self._stage, self._done, self._total, self._share = name, 0, total, share
        self._until = self._first = self._found = None

    def ends_by(self, moment: float) -> None:
        """The stage ends at that moment of the monotonic clock, if it has not ended before."""
        self._until = moment

    def tells(self, found: Callable[[], str]) -> None:
        """Show what this stage has found so far with its count; `found` is called when that is shown."""
        self._found = found

    def advance(self, count: int = 1) -> None:
        """So many more are done; 0 shows a stage that has begun."""
        self._done += count
        if self._quiet:
            return
        now = time.monotonic()
        if self._first is None and count:
            self._first = now, self._done
        if now - self._started < _PATIENCE:
            return
        if self._has_terminal and self._console is not None:
            if now - self._last_drawn >= _REDRAW:
                self._last_drawn = now
                self._draw(self._console, now)
        elif now - self._last_line >= LINE_EVERY:
            self._last_line = now
            print(f"kvtool: {', '.join(self._told(now))}, {now - self._started:.0f} s", file=sys.stderr)

    def _draw(self, console: Console, now: float) -> None:
        plain = ascii_only(console)
        share = self._share_done() if self._runs.get(self._stage, 1) == 1 else None
        drawn = "" if share is None else bar(share, _BAR, plain, track=True)
        line = progress_line(self._told(now), drawn, find_width(console.file, os.environ) - 1, ascii_only=plain)
        if not console.no_color:
            stage, gap, rest = line.partition("  ")
            line = f"{_GREEN}{stage}{_PLAIN}{gap}{rest}"
        self._write(_CLEAR + line)

    def _told(self, now: float) -> list[str]:
        """Return the count, the pace, the time left and the finds of a stage, as far as they are known.

        The first one is not timed: what has to be loaded is loaded for it.
        """
        known = self._total is not None and self._done <= self._total
        of = f" of {self._total:,}" if known else ""
        run = self._runs.get(self._stage, 1)
        stage = self._stage if run == 1 else f"{self._stage}, run {run:,}"
        parts = [sanitize(stage), f"{self._done:,}{of} {self._unit}"]
        since, before = self._first or (now, self._done)
        taken, done = now - since, self._done - before
        if taken >= _SETTLED and done:
            parts.append(f"{_rate(done / taken)}/s")
            left = self._seconds_left(now, taken, done)
            if left is not None:
                parts.append(f"{clock_time(left)} left")
        if self._found is not None and self._done:
            parts.append(sanitize(self._found()))
        return parts

    def _seconds_left(self, now: float, taken: float, done: int) -> float | None:
        """Estimate the seconds left of this stage at the pace of the `done` ones; None where that cannot be known yet."""
        share = self._share_done()
        if share is None or not 0 < share < 1 or (share < _FORESEEN and taken < _LONG):
            return None
        left = taken * (self._total - self._done) / done if self._total else taken * (1 - share) / share
        return left if self._until is None else min(left, max(self._until - now, 0.0))

    def _share_done(self) -> float | None:
        """Return the share of this stage that is done, from 0 to 1."""
        if self._total:
            return self._done / self._total if self._done <= self._total else None
        return None if self._share is None else self._share()

    def _write(self, text: str) -> None:
        """To the terminal; one that has gone away is no reason to stop."""
        assert self._console is not None
        try:
            self._console.file.write(text)
            self._console.file.flush()
        except (OSError, ValueError):
            self._quiet = True


def progress_line(parts: list[str], drawn: str, width: int, *, ascii_only: bool = False) -> str:
    """As much as fits `width` cells: the stage, the bar, what is done, then the rest; the last parts go first."""
    stage, *rest = parts
    line = shorten(stage, max(width, 0), ascii_only=ascii_only)
    if drawn and cell_width(line) + 2 + cell_width(drawn) + sum(2 + len(part) for part in rest[:1]) <= width:
        line = f"{line}  {drawn}"
    for part in rest:
        if cell_width(line) + 2 + len(part) > width:
            break
        line += f"  {part}"
    return line


def clock_time(seconds: float) -> str:
    """`0:41`, `12:05`, `3:00:10`; rounded up, so that it is never 0:00 while there is something to do."""
    whole = max(ceil(seconds - _ROUNDING), 1)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _rate(each: float) -> str:
    return f"{each:,.0f}" if each >= 9.95 else f"{each:.1f}"
