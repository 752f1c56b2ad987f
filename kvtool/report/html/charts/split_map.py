"""Prefill and decode apart: a cell for each pair of pools, or a line where there is one fleet that is cut in every way."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from markupsafe import Markup

from kvtool.report.html.charts.drawing import drawing, label, rectangle, sample
from kvtool.report.html.charts.fleet_lines import (
    GOODPUT,
    TTFT_P99,
    WITHIN,
    Along,
    Measure,
    SectionWords,
    chart,
    fleet_section,
)
from kvtool.report.html.charts.scales import whole_count
from kvtool.report.html.markup import element
from kvtool.report.html.page_parts import Drawing, Key
from kvtool.report.views.section import Section
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.numbers import plural

_TALL = 34.0
_STEPS = 5
_MOST_SIDE = 12
_NARROW_SIDE = 6
"""Columns whose figures have room on a small phone."""


def split_section(_document: WhatIfDocument, rows: Sequence[SweepRow]) -> Section:
    """Replicas that compute prompts only against those that answer only; beside them the fleet that is not cut."""
    words = SectionWords(
        "pd",
        "Prefill/decode split",
        "Some replicas compute prompts and send the KV cache over a link to the replicas that decode.",
    )
    cut = [row for row in rows if row.prefill_replicas and row.decode_replicas]
    mixed = [row for row in rows if not row.prefill_replicas]
    measure = next((each for each in (WITHIN, GOODPUT, TTFT_P99) if each.known(cut)), None)
    drawings: list[Drawing] = []
    keys: list[Key] = []
    totals = {(row.prefill_replicas or 0) + (row.decode_replicas or 0) for row in cut}
    if measure is not None and len(totals) > 1:
        drawings, keys = _map(f"{words.identity}-map", cut, measure)
    elif measure is not None and len(cut) > 1:
        along = Along(
            lambda row: float(row.prefill_replicas or 0),
            whole_count,
            "for prefill",
            lambda _row: "cut",
        )
        bound = ("mixed", mixed[0]) if mixed else None
        drawn = [each for each in (measure, TTFT_P99) if each.known(cut)]
        made = [
            chart(f"{words.identity}-{number}", cut, along, each, bound)
            for number, each in enumerate(dict.fromkeys(drawn))
        ]
        drawings, keys = [one for one, _ in made], made[0][1]
    told = [
        f"{plural(row.replicas or 0, 'replica')} {measure.write(value)}"
        for row in mixed
        if measure is not None and (value := measure.of(row)) is not None
    ]
    notes = (f"Mixed fleets: {', '.join(told)}.",) if told and len(totals) > 1 else ()
    return fleet_section(words, rows, drawings, keys, notes)


def _map(identity: str, rows: Sequence[SweepRow], measure: Measure) -> tuple[list[Drawing], list[Key]]:
    """Darker is better, and each cell has its figure."""
    across = sorted({row.decode_replicas or 0 for row in rows})[:_MOST_SIDE]
    down = sorted({row.prefill_replicas or 0 for row in rows})[:_MOST_SIDE]
    found = {(row.prefill_replicas or 0, row.decode_replicas or 0): row for row in rows if measure.of(row) is not None}
    values = [measure.of(row) or 0.0 for row in found.values()]
    less_is_better = measure is TTFT_P99
    best = min(values) if less_is_better else max(values)
    width = 1 / len(across)
    shapes: list[Markup] = []
    for place, prefill in enumerate(down):
        y = _TALL * place
        shapes.append(label(0, y + _TALL / 2 + 4, f"{prefill:,}", "tick", shift=-18))
        for column, decode in enumerate(across):
            row = found.get((prefill, decode))
            if row is None:
                continue
            value = measure.of(row) or 0.0
            tip = f"{prefill} for prefill, {decode} for decode: {measure.name} {measure.write(value)}"
            step = _step(value, min(values), max(values), less_is_better=less_is_better)
            class_ = f"heat heat{step}{' chosen' if value == best else ''}"
            shapes.append(rectangle(column * width + 0.004, y + 2, width - 0.008, _TALL - 4, class_, tip=tip))
            narrow = "" if len(across) <= _NARROW_SIDE else " wide"
            middle = (column + 0.5) * width
            strong = "strong" if value == best else "figure"
            text = f"{strong}{narrow}"
            shapes.append(label(middle, y + _TALL / 2 + 4, measure.write(value), text, anchor="middle"))
    bottom = _TALL * len(down)
    shapes += [
        label((column + 0.5) * width, bottom + 14, f"{decode:,}", "tick", anchor="middle")
        for column, decode in enumerate(across)
    ]
    shapes.append(label(0, bottom + 30, "down: replicas for prefill; across: for decode", "tick"))
    told = "; ".join(
        f"{prefill} and {decode}: {measure.write(measure.of(row) or 0.0)}"
        for (prefill, decode), row in sorted(found.items())
    )
    svg = drawing(
        identity,
        f"{measure.name} by replicas for prefill and for decode",
        f"{told}.",
        bottom + 36,
        shapes,
        class_="drawing pools",
    )
    swatches = [
        Key(_swatch("heat heat4"), "better"),
        Key(_swatch("heat heat0"), "worse"),
        Key(_swatch("heat heat4 chosen"), "best"),
    ]
    return [Drawing(svg, measure.name, wide=True)], swatches


def _step(value: float, low: float, high: float, *, less_is_better: bool) -> int:
    """From 0, the worst, to the best."""
    if high <= low:
        return _STEPS - 1
    if less_is_better and low > 0:  # the slowest are many times slower
        part = 1 - log(value / low) / log(high / low)
    else:
        part = (value - low) / (high - low)
        part = 1 - part if less_is_better else part
    return min(int(part * _STEPS), _STEPS - 1)


def _swatch(class_: str) -> Markup:
    shape = element("rect", x=1.5, y=1.5, width=15, height=9, class_=class_)
    return sample(shape)
