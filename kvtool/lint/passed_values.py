"""Values that code passes to template files, and what is known of the variables that get them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.lint.skeleton import Hole, Node, TemplatePlace, with_holes


@dataclass(frozen=True, slots=True)
class PassedValue:
    """A value that surely differs from call to call, by the variable of the template that gets it, and where it is passed."""

    variable: str
    kind: DifferenceKind
    clock: bool
    place: TemplatePlace


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """A template file by the name that code gives it, and what code passes to it."""

    name: str
    values: tuple[PassedValue, ...]


def with_passed(nodes: Iterable[Node], passed: Iterable[PassedValue]) -> list[Node]:
    """Return the nodes of a template with what is known of the values that code passes to it."""
    known = {each.variable: each for each in passed}

    def change(hole: Hole) -> Hole:
        value = known.get(hole.what.strip("`").partition(".")[0])
        if value is None:
            return hole
        return replace(hole, kind=value.kind, certain=True, clock=value.clock, doubt="", minor=False, made=value.place)

    return with_holes(nodes, change)
