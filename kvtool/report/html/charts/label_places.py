"""Where labels of points stand so that none runs into another, into a point or out of the drawing, however wide it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WIDTHS = (270.0, 330.0, 420.0, 540.0, 700.0, 900.0, 1110.0, 1300.0)
"""Pixels of drawings between a small phone and a wide screen."""
_LETTER = 7.6
_TALL = 13.0
_POINT = 6.0
_STEPS = (0, *(sign * 14 * step for step in range(1, 10) for sign in (-1, 1)))
_SIDES = ((11.0, "start"), (-11.0, "end"))


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
    """A place for each of those that are `named`, by their numbers, in that order; None where there is none."""
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
