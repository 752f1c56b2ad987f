"""Hits with a cache of another size, and the distance between uses of a block."""

from __future__ import annotations

from math import log2

from markupsafe import Markup

from kvtool.report.html.charts.drawing import area, drawing, label, line, path, plot, rectangle, sample
from kvtool.report.html.fates import paint, swatch
from kvtool.report.html.markup import element, share
from kvtool.report.html.page_parts import Drawing, DrawnSection, Key
from kvtool.report.views.memory import blocks_and_memory
from kvtool.report.views.section import Cell, Section, Table, TableColumn
from kvtool.results.report import Report
from kvtool.results.views import Reuse, ReuseBin
from kvtool.text.terminal.numbers import percent, plural, size

_CURVE_TITLE = "Hits against capacity"
_BINS_TITLE = "Reuse distance"
_HEIGHT = 190.0
_MOST_LABELS = 5
_LEAST_SLOTS = 8


def capacity_section(report: Report, prefix: str) -> Section | None:
    """Return the hit rate of LRU lists of all sizes, with the configured size and the hit rate that was reached.

    None where the size does not matter.
    """
    reuse = report.views.reuse if report.views is not None else None
    identity = f"{prefix}-capacity"
    if reuse is None or len({point.hit_rate for point in reuse.curve}) < 2:
        return None
    return DrawnSection(
        identity,
        _CURVE_TITLE,
        ("The hit rate that an LRU list of so many blocks would have (Mattson's stack distances).", *_sampled(reuse)),
        drawings=[Drawing(_curve(f"{identity}-curve", report, reuse))],
        keys=_curve_keys(report),
        tables=[_curve_table(report, reuse)],
    )


def distance_section(report: Report, prefix: str) -> Section | None:
    """Return how many other blocks are used between two uses of one; None where it never varies, or no block is used twice."""
    reuse = report.views.reuse if report.views is not None else None
    identity = f"{prefix}-distance"
    if reuse is None or len(reuse.bins) < 2:
        return None
    lead = (
        f"How many distinct other blocks are used between two uses of a block: {plural(reuse.uses, 'use')} again, "
        f"{plural(reuse.first_uses, 'first use')}."
    )
    capacity = capacity_of(report)
    keys = [Key(swatch(None, "bar"), "uses again that the cache holds" if capacity else "uses again")]
    if capacity and any(one.least >= capacity for one in reuse.bins):
        keys.append(
            Key(
                swatch(paint("beyond"), "outline run"),
                f"further apart than the {capacity:,} blocks that are configured",
            )
        )
    return DrawnSection(
        identity,
        _BINS_TITLE,
        (lead, *_sampled(reuse)),
        drawings=[Drawing(_bars(f"{identity}-bars", reuse, capacity))],
        keys=keys,
        tables=[_bins_table(reuse)],
    )


def capacity_of(report: Report) -> int | None:
    """Blocks that are configured; None where the cache is unlimited."""
    blocks = report.config.get("capacity_blocks")
    return blocks if isinstance(blocks, int) and blocks > 0 else None


def _sampled(reuse: Reuse) -> tuple[str, ...]:
    return (f"Of a sample of {percent(reuse.sampled)} of the blocks.",) if reuse.sampled < 1 else ()


class _Scale:
    """Blocks on a logarithmic axis."""

    def __init__(self, least: int, most: int) -> None:
        self.low = log2(max(least, 1))
        self.high = max(log2(max(most, 1)), self.low + 1)

    def __call__(self, blocks: int) -> float:
        return min(max((log2(max(blocks, 1)) - self.low) / (self.high - self.low), 0.0), 1.0)


def _curve(identity: str, report: Report, reuse: Reuse) -> Markup:
    capacity, actual = capacity_of(report), report.totals.hit_rate
    ends = [point.blocks for point in reuse.curve] + ([capacity] if capacity else [])
    scale = _Scale(min(ends), max(ends))
    points = [(1000 * scale(point.blocks), _y(point.hit_rate)) for point in reuse.curve]
    if len(points) == 1 or points[-1][0] < 1000:
        points.append((1000.0, points[-1][1]))
    shapes = [line(0, _y(rate), 1, _y(rate), "grid") for rate in (0.0, 0.25, 0.5, 0.75, 1.0)]
    shapes.append(plot(_HEIGHT, [area(points, _HEIGHT - 1, "under"), path(points, "curve")]))
    shapes.append(line(0, _y(actual), 1, _y(actual), "actual"))
    if capacity:
        shapes.append(line(scale(capacity), 0, scale(capacity), _HEIGHT, "gate"))
        shapes.append(element("circle", cx=share(scale(capacity)), cy=_y(actual), r=4.5, class_="point"))
    shapes += [label(0, _y(rate) + 12, f"{rate:.0%}", "tick halo") for rate in (0.5, 1.0)]
    shapes.append(label(0, _HEIGHT + 15, plural(min(ends), "block"), "tick"))
    if max(ends) > min(ends):
        shapes.append(label(1, _HEIGHT + 15, plural(max(ends), "block"), "tick"))
    best = max(reuse.curve, key=lambda point: (point.hit_rate, -point.blocks))
    told = (
        f"It grows to {percent(best.hit_rate)} with {plural(best.blocks, 'block')}. "
        f"Configured: {f'{capacity:,} blocks' if capacity else 'unlimited'}; actual hit rate: {percent(actual)}."
    )
    return drawing(identity, "Hit rate by capacity", told, _HEIGHT + 20, shapes)


def _y(rate: float) -> float:
    return 1 + (1 - rate) * (_HEIGHT - 2)


def _curve_keys(report: Report) -> list[Key]:
    capacity = capacity_of(report)
    actual = element("line", x1=0, x2=18, y1=6, y2=6, class_="actual")
    curve = element("line", x1=0, x2=18, y1=6, y2=6, class_="curve")
    keys = [
        Key(_mark(curve), "LRU list of this size"),
        Key(_mark(actual), "actual hit rate", percent(report.totals.hit_rate)),
    ]
    if capacity:
        gate = element("line", x1=9, x2=9, y1=0, y2=12, class_="gate")
        held = blocks_and_memory(report, capacity)
        return [*keys, Key(_mark(gate), "configured capacity", held)]
    return [*keys, Key(Markup(""), "configured capacity", "unlimited")]


def _mark(shape: Markup) -> Markup:
    return sample(shape)


def _curve_table(report: Report, reuse: Reuse) -> Table:
    per_block = report.kv_cache.bytes_per_block
    rows: list[tuple[Cell, ...]] = [
        (f"{point.blocks:,}", *([] if per_block is None else [size(point.blocks * per_block)]), percent(point.hit_rate))
        for point in reuse.curve
    ]
    memory = [] if per_block is None else [TableColumn("KV memory", "number")]
    columns = (TableColumn("Blocks", "number"), *memory, TableColumn("Hit rate", "number"))
    return Table(_CURVE_TITLE, columns, rows, folded=True)


def _bars(identity: str, reuse: Reuse, capacity: int | None) -> Markup:
    most, height = max(one.uses for one in reuse.bins) or 1, 150.0
    count = max(len(reuse.bins), _LEAST_SLOTS)
    every = -(-count // _MOST_LABELS)
    shapes = [line(0, height, 1, height, "grid")]
    for place, one in enumerate(reuse.bins):
        tall = one.uses / most * (height - 16)
        beyond = capacity is not None and one.least >= capacity
        look = ("outline run", paint("beyond")) if beyond else ("bar", None)
        tip = f"{_span(one)}: {plural(one.uses, 'use')}"
        x = (place + 0.08) / count
        shapes.append(rectangle(x, height - tall, 0.84 / count, tall, f"least {look[0]}", tip=tip, fill=look[1]))
        middle = (place + 0.5) / count
        if not place % every:
            shapes.append(
                label(
                    middle if place else x, height + 15, f"{one.least:,}", "tick", anchor="middle" if place else "start"
                )
            )
        if one.uses == most:
            anchor = "start" if middle < 0.1 else "end" if middle > 0.9 else "middle"
            at = x if anchor == "start" else x + 0.84 / count if anchor == "end" else middle
            shapes.append(label(at, 11, f"{one.uses:,}", "strong", anchor=anchor))
    told = "; ".join(f"{_span(one)}: {one.uses:,}" for one in reuse.bins)
    return drawing(
        identity,
        "Uses of blocks again by reuse distance",
        f"Other blocks between two uses, and uses: {told}.",
        height + 20,
        shapes,
    )


def _span(one: ReuseBin) -> str:
    return f"{one.least:,}" if one.least == one.most else f"{one.least:,} to {one.most:,}"


def _bins_table(reuse: Reuse) -> Table:
    total, so_far = sum(one.uses for one in reuse.bins), 0
    rows: list[tuple[Cell, ...]] = []
    for one in reuse.bins:
        so_far += one.uses
        rows.append((_span(one), f"{one.uses:,}", percent(so_far / total) if total else "0.0%"))
    columns = (
        TableColumn("Other blocks between", "number"),
        TableColumn("Uses again", "number"),
        TableColumn("So far", "number"),
    )
    return Table(_BINS_TITLE, columns, rows, folded=True)
