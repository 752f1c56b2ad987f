"""Hit rates before and after a fix that was tried."""

from __future__ import annotations

from kvtool.report.html.charts.drawing import drawing, line, rectangle
from kvtool.report.html.fates import paint, swatch
from kvtool.report.html.page_parts import Drawing, Key
from kvtool.results.finding import Rerun
from kvtool.text.terminal.numbers import percent

_TOLD_ALONE = 0.005


def before_after(rerun: Rerun, group: str, identity: str, *, several: bool) -> list[Drawing]:
    """One drawing for the group and, where there are `several`, one for all requests."""
    alone = rerun.group_alone
    if alone is not None and abs(alone - rerun.group_after) < _TOLD_ALONE:
        alone = None
    drawings = [_drawing(f"{identity}-group", group or "group", rerun.group_before, rerun.group_after, alone)]
    if several:
        drawings.append(_drawing(f"{identity}-total", "all requests", rerun.total_before, rerun.total_after, None))
    return drawings


def before_after_keys() -> list[Key]:
    """The legend of these drawings."""
    return [Key(swatch(paint("before"), "outline block"), "before"), Key(swatch(None, "bar"), "after")]


def _drawing(identity: str, name: str, before: float, after: float, alone: float | None) -> Drawing:
    shapes = [rectangle(0, 2, 1, 8, "track"), rectangle(0, 13, 1, 12, "track")]
    shapes.append(
        rectangle(0, 2, before, 8, "outline block least", tip=f"before: {percent(before)}", fill=paint("before"))
    )
    shapes.append(rectangle(0, 13, after, 12, "bar least", tip=f"after: {percent(after)}"))
    told = f"{percent(before)} before, {percent(after)} after"
    figures = [f"{percent(before)} → {percent(after)}"]
    if alone is not None:
        shapes += [line(alone, 11, alone, 27, "gate halo"), line(alone, 11, alone, 27, "gate")]
        told += f", {percent(alone)} with this fix alone"
        figures.append(f"this fix alone {percent(alone)} (mark)")
    return Drawing(drawing(identity, f"Hit rate of {name} before and after", told, 28, shapes), name, tuple(figures))
