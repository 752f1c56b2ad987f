"""Rows of small bars, one character each: how a figure develops, in the room of a word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from kvtool.results.views import Timeline
from kvtool.text.terminal.console import ascii_only, draws_bars

if TYPE_CHECKING:
    from rich.console import Console

_DRAWN_FROM = 100
"""Columns of a console."""
_CELLS = 12

_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = ".:-=+*%#"


def sparkline(parts: Iterable[tuple[int, int]], *, plain: bool) -> str:
    """Return a character for each part and its whole, from none to all of it; where the whole is nothing, a blank."""
    levels = _ASCII_LEVELS if plain else _LEVELS
    return "".join(levels[min(part * len(levels) // whole, len(levels) - 1)] if whole else " " for part, whole in parts)


def hit_rates(timeline: Timeline, cells: int) -> list[tuple[int, int]]:
    """Sum hit and prompt tokens in at most so many parts of equal length, from the first to the last bin."""
    bins = timeline.bins
    if not bins:
        return []
    starts = [each.first for each in bins]
    step = min((after - before for before, after in pairwise(starts)), default=1)
    span = (starts[-1] - starts[0]) // step + 1
    cells = min(cells, span)
    sums = [(0, 0)] * cells
    for each in bins:
        cell = (each.first - starts[0]) // step * cells // span
        hits, tokens = sums[cell]
        sums[cell] = (hits + each.hit_tokens, tokens + each.prompt_tokens)
    return sums


def hit_rate_lines(console: Console, timelines: Sequence[Timeline]) -> dict[str | None, str]:
    """Return by group how its hit rate went, where there is room for that and where it changed."""
    if not draws_bars(console) or console.width < _DRAWN_FROM:
        return {}
    plain = ascii_only(console)
    drawn = {line.group: sparkline(hit_rates(line, _CELLS), plain=plain) for line in timelines}
    return {group: line for group, line in drawn.items() if len(set(line.replace(" ", ""))) > 1}
