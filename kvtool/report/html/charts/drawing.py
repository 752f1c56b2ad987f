"""Drawings that keep their text readable at any width: places are parts of the width across, and pixels down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from kvtool.report.html.markup import element, joined, share


def drawing(
    identity: str,
    title: str,
    description: str,
    height: float,
    parts: Iterable[object],
    *,
    class_: str = "drawing",
    **more: object,
) -> Markup:
    """Return an image with a name and a description for those who do not see it; `more` are further attributes."""
    return element(
        "svg",
        element("title", title, id=f"{identity}-t"),
        element("desc", description, id=f"{identity}-d"),
        *parts,
        id=identity,
        class_=class_,
        role="img",
        aria_labelledby=f"{identity}-t {identity}-d",
        width="100%",
        height=height,
        **more,
    )


def rectangle(
    x: float, y: float, width: float, height: float, class_: str, *, tip: str = "", fill: str | None = None
) -> Markup:
    """Return a rectangle, `x` and `width` from 0 to 1; `tip` is shown to those who point at it."""
    inside = (element("title", tip),) if tip else ()
    return element("rect", *inside, x=share(x), y=y, width=share(width), height=height, class_=class_, fill=fill)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a line: across from 0 to 1, down in pixels."""
    return element("line", x1=share(x1), y1=y1, x2=share(x2), y2=y2, class_=class_)


def label(x: float, y: float, text: object, class_: str = "", *, shift: float = 0, anchor: str | None = None) -> Markup:
    """Return text at `x` (from 0 to 1), moved by `shift` pixels; in the right half of the drawing it ends there by default."""
    return element(
        "text",
        text,
        x=share(x),
        y=y,
        class_=class_ or None,
        text_anchor=anchor or ("end" if x > 0.5 else None),
        transform=f"translate({shift:g})" if shift else None,
    )


def axis(height: float, ticks: Sequence[tuple[float, str]], *, top: float = 0) -> Markup:
    """Return lines from top to bottom at ticks, and their labels below them."""
    parts: list[Markup] = []
    for at, text in ticks:
        anchor = "start" if at <= 0 else "end" if at >= 1 else "middle"
        parts += [
            line(at, top, at, height, "grid"),
            label(at, height + 14, text, "tick", anchor=anchor),
        ]
    return joined(parts)


def plot(height: float, shapes: Iterable[object]) -> Markup:
    """Return shapes in coordinates from 0 to 1000 across and `height` down, stretched to the width but for lines."""
    return element(
        "svg",
        *shapes,
        width="100%",
        height=height,
        viewBox=f"0 0 1000 {height:g}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def path(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Return a line through points of a `plot`."""
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("polyline", points=text, class_=class_, vector_effect="non-scaling-stroke")


def area(points: Sequence[tuple[float, float]], height: float, class_: str) -> Markup:
    """Return the area between points of a `plot` and its bottom."""
    first, last = points[0][0], points[-1][0]
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in [(first, height), *points, (last, height)])
    return element("polygon", points=text, class_=class_)


def sample(*shapes: object, width: int = 18, height: int = 12) -> Markup:
    """Return a small image of shapes, for a legend."""
    return element("svg", *shapes, class_="swatch", width=width, height=height, aria_hidden="true")
