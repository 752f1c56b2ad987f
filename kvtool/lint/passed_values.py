"""Values that code passes to template files, and what is known of the variables that get them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.codes.values.kv102 import REQUEST_ID
from kvtool.diagnose.codes.values.kv105 import COUNTER
from kvtool.diagnose.codes.values.kv106 import ENVIRONMENT
from kvtool.lint.python.template_calls import ValueKind
from kvtool.lint.skeleton import Hole, Node, TemplatePlace, with_holes

_DATE = "date"


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
    settled: tuple[str, ...] = ()
    """Variables that get what a process is set up with."""


def value_kind(kind: DifferenceKind) -> ValueKind | None:
    """Return how a value of this kind is made up; None where that is not known."""
    if kind.code == TIME.code:
        return "date" if kind.key == _DATE else "clock"
    if kind.code == REQUEST_ID.code:
        return "id"
    return "counter" if kind.code == COUNTER.code else "constant" if kind.code == ENVIRONMENT.code else None


def with_passed(nodes: Iterable[Node], passed: Iterable[PassedValue]) -> list[Node]:
    """Return the nodes of a template with what is known of the values that code passes to it."""
    known = {each.variable: each for each in passed}

    def change(hole: Hole) -> Hole:
        value = known.get(hole.what.strip("`").partition(".")[0])
        if value is None:
            return hole
        return replace(hole, kind=value.kind, certain=True, clock=value.clock, doubt="", minor=False, made=value.place)

    return with_holes(nodes, change)
