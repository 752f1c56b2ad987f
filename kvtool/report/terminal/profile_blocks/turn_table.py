"""The terminal view of the turns of conversations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kvtool.results.report import Group
from kvtool.text.terminal.console import bar
from kvtool.text.terminal.numbers import percent
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

_MOST_TURNS = 12


def print_turns(console: Console, groups: Sequence[Group], plain: bool) -> None:
    """Requests, tokens and hit rate of each turn; the later ones in ranges that double."""
    columns = [
        Column("Turn", "<"),
        Column("reqs"),
        Column("tokens/req"),
        Column("hit"),
        Column("", "<", keep=0, drawing=True),
    ]
    rows = [
        (label, f"{requests:,}", f"{tokens / requests:,.0f}", percent(hits / tokens), bar(hits / tokens, 20, plain))
        for label, requests, tokens, hits in _turn_ranges(groups)
    ]
    put_table(console, columns, rows)


def _turn_ranges(groups: Sequence[Group]) -> Iterator[tuple[str, int, int, int]]:
    """First and last turn, requests, prompt tokens and hit tokens of all groups together."""
    sums: dict[int, list[int]] = {}
    for group in groups:
        if len(group.turns) < 2:
            continue
        for turn in group.turns:
            entry = sums.setdefault(turn.turn, [0, 0, 0])
            for place, value in enumerate((turn.requests, turn.prompt_tokens, turn.hit_tokens)):
                entry[place] += value
    last = max(sums)
    first, width = 1, 1
    while first <= last:
        if first > _MOST_TURNS // 2:
            width = first
        stop = min(first + width - 1, last)
        merged = [sum(sums[turn][place] for turn in range(first, stop + 1) if turn in sums) for place in range(3)]
        if merged[0]:
            yield (f"{first}" if first == stop else f"{first}-{stop}"), merged[0], merged[1], merged[2]
        first = stop + 1
