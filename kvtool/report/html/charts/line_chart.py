"""Lines over one axis: each told apart by its dashes and the form of its points, not by its colour alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kvtool.report.html.charts.drawing import drawing, label, line, path, plot, sample
from kvtool.report.html.charts.scales import AxisScale, Tick, decades, level_ticks, tick_anchor
from kvtool.report.html.markup import element, joined, share
from kvtool.report.html.page_parts import Key

HEIGHT = 220.0
_LOOKS = 8
_SIZE = 4.5
_TEXT = 14.0
_ROOM = 44.0
"""Pixels to the left of a drawing for the texts of its levels; the style sheet has them, too."""


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """`low` and `high` are the ends of its error, where it has one; `tip` is told to those who point at it."""

    x: float
    y: float
    tip: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class ChartLine:
    """`look` chooses dashes, form and colour; a `bound` is drawn with long dashes and without points."""

    name: str
    points: Sequence[ChartPoint]
    look: int = 0
    bound: bool = False


@dataclass(frozen=True, slots=True)
class MarkLine:
    """A line across or down at a value: `gate`, `before` or `actual` of the style sheet."""

    value: float
    name: str
    class_: str
    down: bool = True
    text: str = ""


@dataclass(frozen=True, slots=True)
class LineChart:
    """A chart of lines: `x_ticks` below, levels of `y` written by `write_y`."""

    lines: Sequence[ChartLine]
    x: AxisScale
    y: AxisScale
    x_ticks: Sequence[Tick]
    write_y: Callable[[float], str]
    marks: Sequence[MarkLine] = ()
    filled: bool = False
    """Shade the area below the first line."""

    def draw(self, identity: str, title: str, told: str) -> Markup:
        """Return the image, with a name and a description for those who do not see it."""
        levels = y_levels(self.y)
        rows = max((len(tick.texts) for tick in self.x_ticks), default=0)
        inside = [line(0, self._y(level), 1, self._y(level), "grid") for level in levels]
        inside += [line(tick.at, 0, tick.at, HEIGHT, _wide("grid", tick)) for tick in self.x_ticks]
        inside.append(plot(HEIGHT, self._lines()))
        inside += [self._mark(mark) for mark in self.marks]
        for each in self.lines:
            inside += [self._point(each, point) for point in each.points if not each.bound]
        inside += [
            label(tick.at, HEIGHT + 15 + _TEXT * row, text, _wide("tick", tick), anchor=tick_anchor(tick.at))
            for tick in self.x_ticks
            for row, text in enumerate(tick.texts)
        ]
        inside += level_texts(levels, self._y, self.write_y)
        return drawing(identity, title, told, HEIGHT + 6 + _TEXT * rows, [joined(inside)], class_="drawing levels")

    def keys(self) -> list[Key]:
        """Return the legend: a key for each line and mark."""
        found = [Key(_line_swatch(each), each.name) for each in self.lines if each.name]
        if any(point.low is not None for each in self.lines for point in each.points):
            band = element("rect", x=0.5, y=0.5, width=17, height=11, class_="band")
            found.append(Key(sample(band), "mean ± 2 standard errors"))
        return [*found, *(Key(_mark_swatch(mark), mark.name, mark.text) for mark in self.marks if mark.name)]

    def _y(self, value: float) -> float:
        return 1 + (1 - self.y(value)) * (HEIGHT - 2)

    def _place(self, point: ChartPoint) -> tuple[float, float]:
        return 1000 * self.x(point.x), self._y(point.y)

    def _lines(self) -> list[Markup]:
        shapes: list[Markup] = []
        if self.filled and len(self.lines[0].points) > 1:
            first = [self._place(point) for point in self.lines[0].points]
            shapes.append(_polygon([(first[0][0], HEIGHT - 1), *first, (first[-1][0], HEIGHT - 1)], "under"))
        for each in self.lines:
            told = [point for point in each.points if point.low is not None and point.high is not None]
            if len(told) > 1:
                above = [(1000 * self.x(point.x), self._y(point.high or 0.0)) for point in told]
                below = [(1000 * self.x(point.x), self._y(point.low or 0.0)) for point in told]
                shapes.append(_polygon([*above, *reversed(below)], "band"))
            if len(each.points) > 1:
                shapes.append(path([self._place(point) for point in each.points], f"series {_look(each)}"))
        return shapes

    def _mark(self, mark: MarkLine) -> Markup:
        if mark.down:
            return line(self.x(mark.value), 0, self.x(mark.value), HEIGHT, mark.class_)
        return line(0, self._y(mark.value), 1, self._y(mark.value), mark.class_)

    def _point(self, owner: ChartLine, point: ChartPoint) -> Markup:
        x, y = self.x(point.x), self._y(point.y)
        shapes = [form(x, y, owner.look, point.tip, f"form {_look(owner)}")]
        if point.low is not None and point.high is not None:
            shapes.insert(0, line(x, self._y(point.low), x, self._y(point.high), "whisker"))
        return joined(shapes)


def level_texts(levels: Sequence[float], y: Callable[[float], float], write: Callable[[float], str]) -> list[Markup]:
    """Return the values of lines across, left of a drawing of the class `levels`, which has room there."""
    return [label(0, max(y(level) + 4, 10), write(level), "tick", shift=-_ROOM) for level in levels]


def y_levels(scale: AxisScale) -> list[float]:
    """Return the values of lines across: round numbers from 0, or powers of ten."""
    if not scale.log:
        return [level for level in level_ticks(scale.high) if level >= scale.low]
    return decades(scale)


def form(x: float, y: float, look: int, tip: str, class_: str) -> Markup:
    """Return a point: circle, square, triangle or diamond, then these without filling."""
    inside = (element("title", tip),) if tip else ()
    kind = look % 4
    hollow = f"{class_} hollow" if look >= 4 else class_
    if kind == 0:
        return element("circle", *inside, cx=share(x), cy=y, r=_SIZE, class_=hollow)
    if kind == 1:
        shape = element("rect", *inside, x=-4.0, y=-4.0, width=8, height=8, class_=hollow)
    else:
        corners = "-5.2,4 5.2,4 0,-5.2" if kind == 2 else "-5.5,0 0,-5.5 5.5,0 0,5.5"
        shape = element("polygon", *inside, points=corners, class_=hollow)
    return element("svg", shape, x=share(x), y=y, class_="at")


def _look(each: ChartLine) -> str:
    return "bound" if each.bound else f"look{each.look % _LOOKS}"


def _wide(class_: str, tick: Tick) -> str:
    return f"{class_} wide" if tick.wide else class_


def _polygon(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    return element("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=class_)


def _line_swatch(each: ChartLine) -> Markup:
    stroke = element("line", x1=0, x2=30, y1=7, y2=7, class_=f"series {_look(each)}")
    if each.bound:
        return sample(stroke, width=30, height=14)
    point = form(0.5, 7, each.look, "", f"form {_look(each)}")
    return sample(stroke, point, width=30, height=14)


def _mark_swatch(mark: MarkLine) -> Markup:
    if mark.down:
        return sample(element("line", x1=9, x2=9, y1=0, y2=12, class_=mark.class_))
    return sample(element("line", x1=0, x2=18, y1=6, y2=6, class_=mark.class_))
