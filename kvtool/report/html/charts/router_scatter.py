"""Routers as points: what they hit against how long the slowest wait, the best by the clock marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kvtool.report.html.charts.drawing import drawing, label, line, sample
from kvtool.report.html.charts.line_chart import form, level_texts, y_levels
from kvtool.report.html.charts.scales import AxisScale, Tick, amount_scale, rate_scale, tick_anchor, ticks_with_room
from kvtool.report.html.markup import element, share
from kvtool.report.html.page_parts import Drawing, DrawnSection, Key
from kvtool.report.views.plans.what_if_rows import level_moment, moment, rows_table
from kvtool.report.views.section import Section
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import percent, plural

WIDTHS = (270.0, 330.0, 420.0, 540.0, 700.0, 900.0, 1110.0, 1300.0)
"""Pixels of drawings between a small phone and a wide screen."""
_LETTER = 7.6
_TALL = 13.0
_POINT = 6.0
_STEPS = (0, *(sign * 14 * step for step in range(1, 10) for sign in (-1, 1)))
_SIDES = ((11.0, "start"), (-11.0, "end"))
_HEIGHT = 320.0
_MOST_LABELS = 24
_LONGEST = 22
"""Letters of a label; the table has the whole name."""


@dataclass(frozen=True, slots=True)
class LabelledPoint:
    """`x` from 0 to 1, `y` in pixels down."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class LabelPlace:
    """Pixels from the point to the label's side and to its middle; `anchor` as SVG has it."""

    across: float
    down: float
    anchor: str


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def label_places(points: Sequence[LabelledPoint], named: Sequence[int], height: float) -> list[LabelPlace | None]:
    """Return a place for each point of `named`, in that order; None where there is no room."""
    markers = [[_marker(point, width) for point in points] for width in WIDTHS]
    taken: list[list[_Box]] = [[] for _ in WIDTHS]
    found: list[LabelPlace | None] = []
    for number in named:
        point = points[number]
        place = next((each for each in _tried(point) if _fits(point, each, height, markers, taken)), None)
        if place is not None:
            for width, boxes in zip(WIDTHS, taken, strict=True):
                boxes.append(_box(point, place, width))
        found.append(place)
    return found


def _tried(point: LabelledPoint) -> Iterator[LabelPlace]:
    sides = _SIDES if point.x <= 0.5 else _SIDES[::-1]
    for down in _STEPS:
        for across, anchor in sides:
            yield LabelPlace(across, float(down), anchor)
        if abs(down) >= 14:
            yield LabelPlace(0.0, float(down), "middle")


def _fits(
    point: LabelledPoint,
    place: LabelPlace,
    height: float,
    markers: Sequence[Sequence[_Box]],
    taken: Sequence[Sequence[_Box]],
) -> bool:
    for width, points, labels in zip(WIDTHS, markers, taken, strict=True):
        box = _box(point, place, width)
        if box.left < -4 or box.right > width + 4 or box.top < 0 or box.bottom > height:
            return False
        if any(box.meets(other) for other in labels) or any(box.meets(other) for other in points):
            return False
    return True


def _marker(point: LabelledPoint, width: float) -> _Box:
    x = point.x * width
    return _Box(x - _POINT, point.y - _POINT, x + _POINT, point.y + _POINT)


def _box(point: LabelledPoint, place: LabelPlace, width: float) -> _Box:
    length = _LETTER * len(point.text)
    x = point.x * width + place.across
    left = x if place.anchor == "start" else x - length if place.anchor == "end" else x - length / 2
    y = point.y + place.down
    return _Box(left, y - _TALL / 2, left + length, y + _TALL / 2)


def routing_section(_document: WhatIfDocument, rows: Sequence[SweepRow]) -> Section:
    """Down is sooner and right is more hits; the highest hit rate is often not the soonest."""
    identity, title = "routing", "Routers"
    lead = (
        "The same requests through the same replicas, simulated over time. Lower and further right is better. The highest hit rate "
        "can still mean a longer queue."
    )
    tables = [rows_table(title, rows)]
    drawn = sorted((row for row in rows if row.ttft_p99 is not None), key=lambda row: row.ttft_p99 or 0.0)
    if len(drawn) < 2:
        return Section(identity, title, (lead,), tables=tables)
    real = [row for row in drawn if row.sure != "bound"]
    counts = sorted({row.replicas or 0 for row in drawn})
    most = max((row.hit_rate for row in rows if row.ttft_p99 is None and row.sure == "bound"), default=None)
    scatter = _Scatter(drawn, best=real[0] if real else None, counts=counts, most=most)
    told = "; ".join(f"{_name(row)}: {percent(row.hit_rate)}, {moment(row.ttft_p99 or 0.0)}" for row in drawn[:40])
    svg = scatter.draw(f"{identity}-chart", f"Hit rate and TTFT p99 of routers: {told}.")
    notes = []
    if len(counts) > 1:
        notes.append("The name of each router is at its point with the shortest wait.")
    if left_out := len(scatter.named) - scatter.labelled:
        notes.append(f"Not labelled: {plural(left_out, 'name')}. The table lists all.")
    caption = "TTFT p99 by hit rate"
    return DrawnSection(
        identity,
        title,
        (lead,),
        drawings=[Drawing(svg, caption)],
        keys=scatter.keys(),
        tables=tables,
        notes=tuple(notes),
    )


class _Scatter:
    """`most` is the hit rate of a bound that has no time: a line down."""

    def __init__(
        self, rows: Sequence[SweepRow], best: SweepRow | None, counts: Sequence[int], most: float | None
    ) -> None:
        self._rows, self._best, self._counts, self._most = rows, best, counts, most
        self._x = rate_scale([*(row.hit_rate for row in rows), *([] if most is None else [most])])
        self._y = amount_scale(row.ttft_p99 or 0.0 for row in rows)
        self._points = [
            LabelledPoint(self._x(row.hit_rate), self._down(row.ttft_p99 or 0.0), _name(row)) for row in rows
        ]
        first = {_name(row): place for place, row in reversed(list(enumerate(rows)))}
        named = list(first.values()) if len(counts) > 1 else list(range(len(rows)))
        self.named = sorted(named)[:_MOST_LABELS]
        self._places = dict(zip(self.named, label_places(self._points, self.named, _HEIGHT), strict=True))

    @property
    def labelled(self) -> int:
        return sum(place is not None for place in self._places.values())

    def draw(self, identity: str, told: str) -> Markup:
        levels = y_levels(self._y)
        shapes = [line(0, self._down(level), 1, self._down(level), "grid") for level in levels]
        shapes += level_texts(levels, self._down, level_moment)
        for tick in self._ticks():
            class_ = " wide" if tick.wide else ""
            shapes.append(line(tick.at, 0, tick.at, _HEIGHT, f"grid{class_}"))
            shapes.append(label(tick.at, _HEIGHT + 15, tick.texts[0], f"tick{class_}", anchor=tick_anchor(tick.at)))
        if self._most is not None:
            shapes.append(line(self._x(self._most), 0, self._x(self._most), _HEIGHT, "actual"))
        # the texts last, as later shapes lie above earlier ones
        for row, point in zip(self._rows, self._points, strict=True):
            shapes.append(self._point(row, point))
        for number, place in self._places.items():
            if place is not None:
                best = self._rows[number] is self._best
                shapes.append(_label(self._points[number], place, "strong halo" if best else "halo"))
        return drawing(identity, "TTFT p99 by hit rate", told, _HEIGHT + 20, shapes, class_="drawing levels")

    def keys(self) -> list[Key]:
        found = []
        if len(self._counts) > 1:
            found += [
                Key(sample(form(0.5, 7, look, "", f"form look{look}"), width=20, height=14), f"{count:,} replicas")
                for look, count in enumerate(self._counts[:8])
            ]
        if self._best is not None:
            ring = element("circle", cx=10, cy=7, r=6, class_="best")
            found.append(Key(sample(ring, width=20, height=14), "shortest wait", _told(self._best)))
        if self._most is not None:
            across = element("line", x1=10, x2=10, y1=0, y2=14, class_="actual")
            found.append(Key(sample(across, width=20, height=14), "maximum of any router", percent(self._most)))
        if any(row.sure == "bound" for row in self._rows):
            found.append(Key(sample(form(0.5, 7, 4, "", "form hollow bound"), width=20, height=14), "upper bound"))
        return found

    def _point(self, row: SweepRow, point: LabelledPoint) -> Markup:
        look = self._counts.index(row.replicas or 0) % 8
        tip = f"{_told(row)}: {percent(row.hit_rate)}, TTFT p99 {moment(row.ttft_p99 or 0.0)}"
        shape = (
            form(point.x, point.y, 4, tip, "form bound")
            if row.sure == "bound"
            else form(point.x, point.y, look, tip, f"form look{look}")
        )
        if row is not self._best:
            return shape
        return element("g", element("circle", cx=share(point.x), cy=point.y, r=9, class_="best"), shape)

    def _down(self, seconds: float) -> float:
        return 10 + (1 - self._y(seconds)) * (_HEIGHT - 20)

    def _ticks(self) -> list[Tick]:
        scale = self._x
        return ticks_with_room(rate_ticks(scale), scale, lambda rate: (f"{100 * rate:.3g}%",), ("hits",))


def rate_ticks(scale: AxisScale) -> list[float]:
    """Return steps of 1, 5 or 10 points from the first to the last."""
    length = scale.high - scale.low
    step = 0.01 if length <= 0.1 else 0.05 if length <= 0.5 else 0.1
    return [scale.low + step * count for count in range(round(length / step) + 1)]


def _name(row: SweepRow) -> str:
    """Return the name without its version, cut where it is long."""
    name = sanitize(row.routing or "router").split(" (")[0]
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _told(row: SweepRow) -> str:
    return _name(row) if row.replicas is None else f"{_name(row)}, {plural(row.replicas, 'replica')}"


def _label(point: LabelledPoint, place: LabelPlace, class_: str) -> Markup:
    """Return the text, with a line to its point where that is further away."""
    parts: list[Markup] = []
    if abs(place.down) > 14:
        down = place.down - 7 if place.down > 0 else place.down + 7
        parts.append(element("line", x1=0, y1=7 if place.down > 0 else -7, x2=place.across, y2=down, class_="link"))
    text_anchor = None if place.anchor == "start" else place.anchor
    parts.append(
        element("text", point.text, x=place.across, y=place.down + 4.5, class_=class_, text_anchor=text_anchor)
    )
    return element("svg", *parts, x=share(point.x), y=point.y, class_="at")
