"""Sweeps on a clock that are lines: how many replicas there are, and what lies below the GPU's cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvtool.report.html.charts.line_chart import ChartLine, ChartPoint, LineChart, MarkLine
from kvtool.report.html.charts.scales import (
    AxisScale,
    amount_scale,
    rate_top,
    scale_of,
    short_count,
    ticks_with_room,
    whole_count,
)
from kvtool.report.html.page_parts import Drawing, DrawnSection, Key
from kvtool.report.views.plans.what_if_rows import level_moment, rows_table
from kvtool.report.views.section import Section
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import in_words, per_second, percent, plural

_MOST_LINES = 8
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of rows that is drawn: `of` is None where a row has none; `write` gives it in a table's words."""

    name: str
    of: Callable[[SweepRow], float | None]
    write: Callable[[float], str]
    rate: bool = False

    def scale(self, rows: Sequence[SweepRow]) -> AxisScale:
        """Return an axis for the figures of these rows."""
        values = [value for row in rows if (value := self.of(row)) is not None]
        return AxisScale(0.0, rate_top(max(values))) if self.rate else amount_scale(values)

    def known(self, rows: Sequence[SweepRow]) -> bool:
        """Return whether any row has the figure."""
        return any(self.of(row) is not None for row in rows)


COUNTS = 32.0
"""Ratio of the most to the fewest replicas from which an axis goes in factors."""
TTFT_P99 = Measure("TTFT p99", lambda row: row.ttft_p99, level_moment)
WITHIN = Measure(
    "Requests within the objectives", lambda row: row.within_slo, lambda value: f"{100 * value:.3g}%", rate=True
)
GOODPUT = Measure("Goodput, requests per second", lambda row: row.goodput, lambda value: f"{value:,.3g}")
REUSED = Measure(
    "Hit or loaded",
    lambda row: min(row.hit_rate + (row.loaded_rate or 0.0), 1.0),
    lambda value: f"{100 * value:.3g}%",
    rate=True,
)


@dataclass(frozen=True, slots=True)
class Along:
    """The axis across: its setting, the text of ticks, and the name of a row's line."""

    of: Callable[[SweepRow], float | None]
    write: Callable[[float], str]
    unit: str
    line_of: Callable[[SweepRow], str]
    wide: float = 4.0
    """Ratio of the last to the first value from which the axis goes in factors."""


def chart(
    identity: str, rows: Sequence[SweepRow], along: Along, measure: Measure, bound: tuple[str, SweepRow] | None = None
) -> tuple[Drawing, list[Key]]:
    """Lines over a setting with two values or more, with their legend; the `bound` is a row and what its line across is called."""
    drawn = [row for row in rows if along.of(row) is not None and measure.of(row) is not None]
    values = sorted({along.of(row) or 0.0 for row in drawn})
    names = list(dict.fromkeys(along.line_of(row) for row in drawn))[:_MOST_LINES]
    scale = scale_of(values, wide=along.wide)
    marks = []
    if bound is not None and (level := measure.of(bound[1])) is not None:
        marks.append(MarkLine(level, bound[0], "actual", down=False))
    ticks = ticks_with_room(values, scale, lambda value: (along.write(value),), (along.unit,))
    made = LineChart(
        lines=[
            ChartLine(name, _points([row for row in drawn if along.line_of(row) == name], along, measure), look)
            for look, name in enumerate(names)
        ],
        x=scale,
        y=measure.scale([*drawn, *([bound[1]] if bound else [])]),
        x_ticks=[tick for tick in ticks if not tick.wide],  # drawings of a pair are narrow on wide screens, too
        write_y=measure.write,
        marks=marks,
    )
    told = "; ".join(
        f"{each.name}: {', '.join(f'{along.write(point.x)} {measure.write(point.y)}' for point in each.points)}"
        for each in made.lines
    )
    return Drawing(made.draw(identity, measure.name, f"{told}."), measure.name), made.keys()


class SectionWords(NamedTuple):
    """Anchor, title and first sentence of a section."""

    identity: str
    title: str
    lead: str


def fleet_section(
    words: SectionWords, rows: Sequence[SweepRow], drawings: list[Drawing], keys: list[Key], notes: Sequence[str]
) -> Section:
    """Return drawings side by side, and all rows as a table below."""
    return DrawnSection(
        words.identity,
        words.title,
        (words.lead,),
        drawings=drawings,
        layout="pair",
        keys=keys,
        tables=[rows_table(words.title, rows)],
        notes=tuple(notes),
    )


def replicas_section(_document: WhatIfDocument, rows: Sequence[SweepRow]) -> Section:
    """Return a section: TTFT p99, and requests within the objectives, by the number of replicas."""
    words = SectionWords(
        "replicas", "Replicas", "The same requests at the same times with different numbers of replicas."
    )
    along = Along(lambda row: float(row.replicas) if row.replicas else None, whole_count, "replicas", _router, COUNTS)
    drawings: list[Drawing] = []
    keys: list[Key] = []
    if len({row.replicas for row in rows if row.replicas}) > 1:
        measures = [TTFT_P99, WITHIN if WITHIN.known(rows) else GOODPUT]
        made = [
            chart(f"{words.identity}-{number}", rows, along, measure)
            for number, measure in enumerate(measures)
            if measure.known(rows)
        ]
        drawings, keys = [drawing for drawing, _ in made], made[0][1] if made else []
    notes = [
        f"{name}: {plural(gpus, 'GPU')} for the objectives."
        for name, gpus in dict.fromkeys((_router(row), row.gpus) for row in rows if row.gpus)
    ]
    return fleet_section(words, rows, drawings, keys, notes)


def tier_section(_document: WhatIfDocument, rows: Sequence[SweepRow]) -> Section:
    """Each tier against none, and from which length on a prefix is loaded in less time than it is computed."""
    words = SectionWords(
        "tier",
        "Tiers below the GPU",
        "Blocks evicted from the GPU go to host memory or disk. Loading them back can be faster than computing them.",
    )
    none = next((row for row in rows if not row.host_blocks and not row.disk_blocks), None)
    tiers = [row for row in rows if row.host_blocks or row.disk_blocks]
    bandwidths = {row.bandwidth for row in tiers if row.bandwidth}
    fast = Along(lambda row: row.bandwidth, per_second, "", _room)
    large = Along(
        lambda row: float((row.host_blocks or 0) + (row.disk_blocks or 0)),
        short_count,
        "blocks below",
        lambda row: per_second(row.bandwidth) if row.bandwidth else "each tier",
    )
    along = fast if len(bandwidths) > 1 else large
    drawings: list[Drawing] = []
    keys: list[Key] = []
    if len({along.of(row) for row in tiers}) > 1:
        measure = TTFT_P99 if TTFT_P99.known(tiers) else REUSED
        bound = None if none is None else ("no tier", none)
        drawing, keys = chart(f"{words.identity}-chart", tiers, along, measure, bound)
        drawings.append(drawing)
    if len({row.bandwidth for row in tiers if row.break_even_tokens and row.bandwidth}) > 1:
        one_line = Along(fast.of, fast.write, "", lambda _row: "break-even")
        first = {row.bandwidth: row for row in reversed(tiers) if row.break_even_tokens}
        drawings.append(chart(f"{words.identity}-even", list(first.values()), one_line, _BREAK_EVEN)[0])
    return fleet_section(words, rows, drawings, keys, _lengths(tiers))


_BREAK_EVEN = Measure(
    "Break-even, in tokens: load longer prefixes, compute shorter ones",
    lambda row: None if row.break_even_tokens is None else float(row.break_even_tokens),
    lambda value: f"{short_count(value)}",
)


def _lengths(rows: Sequence[SweepRow]) -> tuple[str, ...]:
    """From which length on loading is sooner, once for each bandwidth."""
    found: dict[str, None] = {}
    for row in rows:
        if row.bandwidth is None:
            continue
        if row.break_even_tokens is None:
            found[f"At {per_second(row.bandwidth)}, computing is always faster than loading."] = None
        else:
            tokens = plural(row.break_even_tokens, "token")
            found[f"At {per_second(row.bandwidth)}, loading is faster than computing from {tokens} on."] = None
    return tuple(found)[:_MOST_LINES]


def _points(rows: Sequence[SweepRow], along: Along, measure: Measure) -> list[ChartPoint]:
    found = []
    for row in sorted(rows, key=lambda row: along.of(row) or 0.0):
        x, y = along.of(row) or 0.0, measure.of(row) or 0.0
        unit = f" {along.unit}" if along.unit else ""
        found.append(ChartPoint(x, y, f"{along.write(x)}{unit}: {measure.write(y)}, hit rate {percent(row.hit_rate)}"))
    return found


def _router(row: SweepRow) -> str:
    name = sanitize(row.routing or "all requests")
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"


def _room(row: SweepRow) -> str:
    parts = [
        f"{short_count(blocks)} blocks {where}"
        for blocks, where in ((row.host_blocks, "in host memory"), (row.disk_blocks, "on disk"))
        if blocks
    ]
    return in_words(parts)
