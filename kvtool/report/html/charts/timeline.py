"""Hit rate in the course of the run."""

from __future__ import annotations

from markupsafe import Markup

from kvtool.report.html.charts.drawing import area, drawing, label, line, path, plot
from kvtool.report.html.page_parts import Drawing, DrawnSection
from kvtool.report.views.section import Cell, Section, Table, TableColumn
from kvtool.results.report import Report
from kvtool.results.views import TimeBin, Timeline
from kvtool.text.terminal.numbers import percent, plural

_MOST_GROUPS = 12
_MOST_ROWS = 240
_ALL_HEIGHT = 150.0
_GROUP_HEIGHT = 70.0
_LEAST_SEEN = 0.02
_TITLE = "Hit rate over time"


def timeline_section(report: Report, prefix: str) -> Section | None:
    """Return all requests, then each group, in the order in which requests were settled; None where no hit rate ever moves."""
    identity = f"{prefix}-time"
    lines = [] if report.views is None else [one for one in report.views.timelines if any(_counts(one))]
    lines.sort(key=lambda one: one.group is not None)
    if len(lines) == 2 and lines[0].group is None:
        del lines[1]  # the only group is all there is
    moving = [one for one in lines if _moves(one)]
    if not moving:
        return None
    axis = _Axis(lines)
    drawings = [_drawing(f"{identity}-{number}", one, axis) for number, one in enumerate(moving[: _MOST_GROUPS + 1])]
    more, still = len(moving) - len(drawings), len(lines) - len(moving)
    notes = []
    if more:
        notes.append(f"Not drawn: {more:,} more groups.")
    if still:
        notes.append(f"Not drawn: {plural(still, 'group')} with an almost constant hit rate.")
    return DrawnSection(
        identity,
        _TITLE,
        ("Requests in order of completion. Each step shows the hit rate of its requests.",),
        drawings=drawings,
        layout="multiples",
        tables=[_table(lines)],
        notes=tuple(notes),
    )


def _moves(timeline: Timeline) -> bool:
    """Return whether a hit rate changes."""
    rates = [_rate(one) for one in timeline.bins if one.prompt_tokens]
    return max(rates) - min(rates) >= _LEAST_SEEN


def _counts(timeline: Timeline) -> list[int]:
    return [one.prompt_tokens for one in timeline.bins]


class _Axis:
    """Windows of requests are those of all together: a group's own requests are somewhere in its window."""

    def __init__(self, lines: list[Timeline]) -> None:
        firsts = {one.first for line in lines for one in line.bins}
        self.last = max(line.bins[-1].first + line.bins[-1].requests for line in lines)
        ordered = sorted(firsts)
        self._stops = dict(zip(ordered, [*ordered[1:], self.last], strict=True))

    def steps(self, bins: list[TimeBin], height: float) -> list[list[tuple[float, float]]]:
        """Lines of a plot, one for each stretch without a window that is empty."""
        found: list[list[tuple[float, float]]] = []
        for one in bins:
            if not one.prompt_tokens:
                continue
            y, x, stop = _y(_rate(one), height), 1000 * one.first / self.last, 1000 * self._stops[one.first] / self.last
            if not found or found[-1][-1][0] != x:
                found.append([])
            found[-1] += [(x, y), (stop, y)]
        return found


def _drawing(identity: str, timeline: Timeline, axis: _Axis) -> Drawing:
    name = timeline.group if timeline.group is not None else "all requests"
    last, height = axis.last, _ALL_HEIGHT if timeline.group is None else _GROUP_HEIGHT
    steps = axis.steps(timeline.bins, height)
    shapes: list[Markup] = []
    for rate in (0.0, 0.5, 1.0) if height > 100 else (0.0, 1.0):
        y = _y(rate, height)
        shapes.append(line(0, y, 1, y, "grid"))
    shapes.append(
        plot(height, [shape for run in steps for shape in (area(run, height - 1, "under"), path(run, "curve"))])
    )
    rates_told = (0.5, 1.0) if height > 100 else (1.0,)
    shapes += [label(0, _y(rate, height) + 12, f"{rate:.0%}", "tick halo") for rate in rates_told]
    if timeline.group is None:
        shapes += [
            label(0, height + 15, "request 1", "tick"),
            label(1, height + 15, f"request {last:,}", "tick"),
        ]
    rates = [_rate(one) for one in timeline.bins if one.prompt_tokens]
    total, hits = sum(_counts(timeline)), sum(one.hit_tokens for one in timeline.bins)
    told = (
        f"Hit rate of {name} in {len(rates)} steps: {percent(rates[0])} first, {percent(rates[-1])} last, "
        f"between {percent(min(rates))} and {percent(max(rates))}"
    )
    figures = [percent(hits / total)]
    if timeline.group is None:
        figures.append(f"first {percent(rates[0])}, last {percent(rates[-1])}")
    svg = drawing(
        identity, f"Hit rate over time of {name}", told, height + (20 if timeline.group is None else 2), shapes
    )
    return Drawing(svg, name, tuple(figures), wide=timeline.group is None)


def _rate(one: TimeBin) -> float:
    return one.hit_tokens / one.prompt_tokens if one.prompt_tokens else 0.0


def _y(rate: float, height: float) -> float:
    return 1 + (1 - rate) * (height - 2)


def _table(lines: list[Timeline]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            timeline.group if timeline.group is not None else "all requests",
            f"{one.first + 1:,}",
            f"{one.requests:,}",
            f"{one.prompt_tokens:,}",
            f"{one.hit_tokens:,}",
            percent(_rate(one)),
        )
        for timeline in lines[: _MOST_GROUPS + 1]
        for one in timeline.bins
        if one.prompt_tokens
    ]
    columns = (
        TableColumn("Group"),
        TableColumn("From request", "number"),
        TableColumn("Requests", "number"),
        TableColumn("Tokens", "number"),
        TableColumn("Hits", "number"),
        TableColumn("Hit rate", "number"),
    )
    return Table(_TITLE, columns, rows[:_MOST_ROWS], more=max(len(rows) - _MOST_ROWS, 0), folded=True)
