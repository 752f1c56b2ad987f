"""Drawings of sections and their legend, which only pages show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kvtool.report.views.section import Section, StatusWord


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend: a swatch, its name, and a figure or a sentence that goes with it."""

    swatch: Markup
    name: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG image. `caption` and `figures` are above it as text that wraps; `name` says what it shows, in a word or two."""

    svg: Markup
    caption: str = ""
    figures: tuple[str, ...] = ()
    status: StatusWord | None = None
    wide: bool = False
    """Whether it takes the whole width where others are side by side."""


@dataclass(frozen=True, slots=True)
class DrawnSection(Section):
    """A section with drawings; `layout` is a class of the style sheet: how they are arranged."""

    drawings: Sequence[Drawing] = ()
    layout: str = "single"
    keys: Sequence[Key] = ()
