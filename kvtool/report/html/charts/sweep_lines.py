"""Sweeps that are lines: capacity, policies, times to live, block sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvtool.accounting.caches.cache_rules import lifetime
from kvtool.report.html.charts.drawing import drawing, rectangle
from kvtool.report.html.charts.line_chart import ChartLine, ChartPoint, LineChart, MarkLine
from kvtool.report.html.charts.scales import (
    AxisScale,
    Tick,
    decades,
    rate_top,
    scale_of,
    short_count,
    ticks_with_room,
    whole_count,
)
from kvtool.report.html.page_parts import Drawing, DrawnSection
from kvtool.report.views.plans.what_if import enough_row
from kvtool.report.views.plans.what_if_rows import POLICIES, basis_of, rows_table
from kvtool.report.views.section import Section
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.numbers import percent, plural, size

_FEW_TICKS = 9


def capacity_section(document: WhatIfDocument, rows: Sequence[SweepRow]) -> Section:
    """The hit rate at each capacity, with its error where blocks were sampled, and the capacities that matter."""
    identity, title = "capacity", "Hit rate by capacity"
    lead = "The same requests with different cache sizes and LRU eviction."
    if document.sampled < 1:
        lead += f" Sample: {percent(document.sampled)} of the blocks."
    drawn = [row for row in rows if row.capacity]
    if len({row.capacity for row in drawn}) < 2:
        return Section(identity, title, (lead,), tables=[rows_table(title, rows)])
    ends = [float(row.capacity or 0) for row in drawn] + ([float(document.capacity)] if document.capacity else [])
    scale = scale_of(ends, wide=2)
    enough = enough_row(document)
    marks = [MarkLine(document.reachable_hit_rate, "unlimited", "actual", False, percent(document.reachable_hit_rate))]
    if document.capacity:
        marks.append(MarkLine(document.capacity, "today", "gate", text=_held(document, document.capacity)))
    if enough is not None and enough.capacity:
        text = _held(document, enough.capacity)
        marks.append(MarkLine(enough.capacity, "95% of the maximum", "before", text=text))
    chart = LineChart(
        lines=[ChartLine("hit rate", _points(drawn, lambda row: float(row.capacity or 0)))],
        x=scale,
        y=AxisScale(0.0, _top(document, drawn)),
        x_ticks=_block_ticks(document, scale, ends),
        write_y=_points_of_hundred,
        marks=marks,
        filled=True,
    )
    first, last = min(drawn, key=lambda row: row.capacity or 0), max(drawn, key=lambda row: row.capacity or 0)
    told = (
        f"From {percent(first.hit_rate)} with {first.capacity:,} blocks to {percent(last.hit_rate)} with {last.capacity:,}; "
        f"unlimited {percent(document.reachable_hit_rate)}."
    )
    svg = chart.draw(f"{identity}-chart", title, told)
    tables = [rows_table(title, rows)]
    return DrawnSection(identity, title, (lead,), drawings=[Drawing(svg)], keys=chart.keys(), tables=tables)


def policy_section(document: WhatIfDocument, rows: Sequence[SweepRow]) -> Section:
    """A line for each policy, below that of the bound."""
    identity, title = "policy", "Policies"
    lead = "Eviction policies of a full cache. OPT knows future requests, so it is an upper bound."
    drawn = [row for row in rows if row.capacity]
    capacities = sorted({float(row.capacity or 0) for row in drawn})
    tables = [rows_table(title, rows)]
    if len(capacities) < 2:
        return DrawnSection(identity, title, (lead,), drawings=_bars(identity, rows), layout="multiples", tables=tables)
    names = [name for name in POLICIES if any(row.policy == name for row in drawn)]
    scale = scale_of(capacities, wide=2)
    chart = LineChart(
        lines=[
            ChartLine(
                f"{POLICIES[name]} (upper bound)" if name == "opt" else POLICIES[name],
                _points([row for row in drawn if row.policy == name], lambda row: float(row.capacity or 0)),
                look=place,
                bound=name == "opt",
            )
            for place, name in enumerate(names)
        ],
        x=scale,
        y=AxisScale(0.0, _top(document, drawn)),
        x_ticks=_block_ticks(document, scale, capacities),
        write_y=_points_of_hundred,
        marks=[MarkLine(document.capacity, "today", "gate", text=_held(document, document.capacity))]
        if document.capacity and capacities[0] <= document.capacity <= capacities[-1]
        else [],
    )
    told = "; ".join(
        f"{line.name}: {', '.join(f'{percent(point.y)} with {point.x:,.0f}' for point in line.points)}"
        for line in chart.lines
    )
    svg = chart.draw(f"{identity}-chart", "Hit rate of policies by capacity", f"Blocks and hit rates: {told}.")
    return DrawnSection(identity, title, (lead,), drawings=[Drawing(svg)], keys=chart.keys(), tables=tables)


def ttl_section(document: WhatIfDocument, rows: Sequence[SweepRow]) -> Section:
    """The hit rate by the time for which a block that nobody uses is kept."""
    return _rates(
        document,
        rows,
        ("ttl", "Time to live", "Unlimited cache. A block unused for longer than the time to live is evicted."),
        lambda row: row.ttl_seconds,
        lifetime,
    )


def block_size_section(document: WhatIfDocument, rows: Sequence[SweepRow]) -> Section:
    """The part of the prompts' tokens that is hit with blocks of each size."""
    return _rates(
        document,
        rows,
        (
            "block-size",
            "Block size",
            "Hit rate: share of the prompt tokens.",
        ),
        lambda row: None if row.block_size is None else float(row.block_size),
        whole_count,
        "tokens",
    )


def _rates(
    document: WhatIfDocument,
    rows: Sequence[SweepRow],
    words: tuple[str, str, str],
    x_of: Callable[[SweepRow], float | None],
    write: Callable[[float], str],
    unit: str = "",
) -> Section:
    """Hit rates over one setting, a line for each capacity; `words` are the section's id, its title and what it says."""
    identity, title, lead = words
    tables = [rows_table(title, rows)]
    drawn = [row for row in rows if x_of(row)]
    values = sorted({x_of(row) or 0.0 for row in drawn})
    if len(values) < 2:
        return Section(identity, title, (lead,), tables=tables)
    capacities = list(dict.fromkeys(_tokens(document, row) for row in drawn))
    scale = scale_of(values, wide=2)
    chart = LineChart(
        lines=[
            ChartLine(
                "hit rate"
                if len(capacities) == 1
                else "unlimited"
                if held is None
                else f"cache of {short_count(held)} tokens",
                _points([row for row in drawn if _tokens(document, row) == held], lambda row: x_of(row) or 0.0),
                look=place,
            )
            for place, held in enumerate(capacities)
        ],
        x=scale,
        y=AxisScale(0.0, _top(document, drawn)),
        x_ticks=ticks_with_room(values, scale, lambda value: (write(value),), (unit,)),
        write_y=_points_of_hundred,
        filled=len(capacities) == 1,
    )
    told = "; ".join(f"{write(x_of(row) or 0.0)}: {percent(row.hit_rate)}" for row in drawn[:40])
    svg = chart.draw(f"{identity}-chart", f"Hit rate by {title.lower()}", f"{told}.")
    return DrawnSection(identity, title, (lead,), drawings=[Drawing(svg)], keys=chart.keys(), tables=tables)


def _tokens(document: WhatIfDocument, row: SweepRow) -> int | None:
    """The room of a row, in the steps of the largest block."""
    if row.capacity is None:
        return None
    return row.capacity * (row.block_size or document.block_size)


def _points(rows: Sequence[SweepRow], x_of: Callable[[SweepRow], float]) -> list[ChartPoint]:
    found = []
    for row in sorted(rows, key=x_of):
        low = high = None
        if row.error is not None:
            low, high = max(row.hit_rate - row.error, 0.0), min(row.hit_rate + row.error, 1.0)
        tip = f"{x_of(row):,.6g}: {percent(row.hit_rate)}, {basis_of(row)}"
        found.append(ChartPoint(x_of(row), row.hit_rate, tip, low, high))
    return found


def _top(document: WhatIfDocument, rows: Sequence[SweepRow]) -> float:
    """The end of the axis of rates: above all of them, with their errors, and above what can be hit."""
    most = max((row.hit_rate + (row.error or 0.0) for row in rows), default=0.0)
    return rate_top(min(max(most, document.reachable_hit_rate if rows[0].axis == "capacity" else 0.0), 1.0))


def _block_ticks(document: WhatIfDocument, scale: AxisScale, values: Sequence[float]) -> list[Tick]:
    """At the values where these are few, else at round numbers; each in blocks, tokens, and memory where that is known."""
    found = sorted(set(values))

    def write(blocks: float) -> tuple[str, ...]:
        texts = (short_count(blocks), short_count(blocks * document.block_size))
        memory = document.bytes_per_block
        return (*texts, size(blocks * memory)) if memory else texts

    ticks = found if len(found) <= _FEW_TICKS or not scale.log else decades(scale)
    units = ("blocks", "tokens", "") if document.bytes_per_block else ("blocks", "tokens")
    return ticks_with_room(ticks, scale, write, units)


def _held(document: WhatIfDocument, blocks: int) -> str:
    told = f"{plural(blocks, 'block')}, {short_count(blocks * document.block_size)} tokens"
    return f"{told}, {size(blocks * document.bytes_per_block)}" if document.bytes_per_block else told


def _points_of_hundred(rate: float) -> str:
    return f"{100 * rate:.3g}%"


def _bars(identity: str, rows: Sequence[SweepRow]) -> list[Drawing]:
    """One bar for each policy, where there is one capacity."""
    found = []
    for place, row in enumerate(sorted(rows, key=lambda row: -row.hit_rate)):
        name = POLICIES[row.policy] if row.policy else "policy"
        shapes = [
            rectangle(0, 1, 1, 12, "track"),
            rectangle(0, 1, row.hit_rate, 12, "outline hit" if row.sure == "bound" else "bar", fill=None),
        ]
        svg = drawing(f"{identity}-{place}", f"Hit rate of {name}", percent(row.hit_rate), 14, shapes)
        found.append(Drawing(svg, name, (percent(row.hit_rate), *(("upper bound",) if row.sure == "bound" else ()))))
    return found
