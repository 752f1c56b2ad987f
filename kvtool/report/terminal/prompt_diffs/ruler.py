"""The blocks of the second prompt, drawn on one line: reusable, different, repeated."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from kvtool.diff.prompts import PromptDiff
from kvtool.text.terminal.console import (
    cell_width,
    pack,
    put,
)

if TYPE_CHECKING:
    from rich.console import Console


_CELL_STYLES = {"=": "green", "X": "bold red", "~": "yellow", "#": "magenta"}
_LEGEND = [("=", "reusable"), ("X", "first difference"), ("~", "repeated, not reused"), ("#", "differs")]
_LEGEND_EQUAL = [("=", "reusable"), ("~", "repeated, computed again"), ("#", "in the second prompt only")]


def cells(diff: PromptDiff) -> list[str]:
    """Two characters for each block of the second prompt, one for each half; a half without tokens is blank."""
    size, length = diff.block_size, diff.length_b
    same = np.zeros(length, dtype=bool)
    for run in diff.runs:
        same[run.b_start : run.b_start + run.length] = True
    first = diff.first.token if diff.first is not None else -1

    def half(start: int, stop: int) -> str:
        stop = min(stop, length)
        if start >= stop:
            return " "
        if start <= first < stop:
            return "X"
        return "~" if same[start:stop].all() else "#"

    result = ["=="] * diff.reuse.blocks
    for start in range(diff.reuse.tokens, length, size):
        if size == 1:
            result.append(half(start, start + 1) * 2)
        else:
            middle = start + (size + 1) // 2
            result.append(half(start, middle) + half(middle, start + size))
    return result


def print_ruler(console: Console, diff: PromptDiff, plain: bool) -> None:
    """The ruler, elided around the difference where the width asks for it, and a legend of the marks in it."""
    from rich.text import Text

    drawn = cells(diff)
    at = min(diff.first.block if diff.first is not None else diff.reuse.blocks, len(drawn) - 1)
    groups = _groups(len(drawn), at, (console.width - 8) // 4)
    gap = " ... " if plain else " ··· "
    numbers, row = "  block ", Text(" " * 8)
    for index, group in enumerate(groups):
        if index:
            row.append(gap, "dim")
        for block in group:
            place = cell_width(row.plain) + (1 if len(str(block)) < 4 else 0)
            if place > len(numbers) or (place == len(numbers) and numbers.endswith(" ")):
                numbers = numbers.ljust(place) + f"{block}"
            row.append("[", "dim")
            for mark, marks in groupby(drawn[block]):
                row.append("".join(marks), _CELL_STYLES.get(mark, ""))
            row.append("]", "dim")
    put(console, numbers, "dim")
    put(console, row)
    used = {mark for cell in drawn for mark in cell}
    legend = _LEGEND if diff.first is not None else _LEGEND_EQUAL
    for line in pack((f"{mark} {text}" for mark, text in legend if mark in used), console.width - 8, separator="   "):
        put(console, " " * 8 + line, "dim")


def _groups(count: int, at: int, room: int) -> list[range]:
    """Return the blocks to draw: all, or the first, those around the difference, and the last."""
    if count <= room:
        return [range(count)]
    room = max(room - 3, 3)  # two gaps of five cells each
    tail = 3 if room >= 9 else 1
    head = room - tail
    if at < head - 2:
        return [range(head), range(count - tail, count)]
    first = 2 if room >= 9 else 1
    middle = max(room - first - tail, 1)
    start = max(min(at - middle // 2, count - tail - middle), first)
    if start + middle >= count - tail:
        return [range(first), range(start, count)]
    return [range(first), range(start, start + middle), range(count - tail, count)]
