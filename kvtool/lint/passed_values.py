"""Values that code passes to template files, and what is known of the variables that get them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.codes.values.kv102 import REQUEST_ID
from kvtool.diagnose.codes.values.kv105 import COUNTER
from kvtool.diagnose.codes.values.kv106 import ENVIRONMENT
from kvtool.lint.skeleton import Hole, Node, TemplatePlace, with_holes

_DATE = "date"
_MOST_CONSTANTS = 20
Orders = Literal["fixed", "process", "request"]
"""When a list gets another order: never, in each process, or in each request."""
Constant = str | int | float | bool
ValueKind = Literal["clock", "date", "id", "counter", "constant", "order"]
"""What code says of a value that differs from call to call, or never."""


@dataclass(frozen=True, slots=True)
class PassedValue:
    """A value that surely differs from call to call, by the variable of the template that gets it, and where it is passed."""

    variable: str
    kind: DifferenceKind
    clock: bool
    place: TemplatePlace


@dataclass(frozen=True, slots=True)
class PassedList:
    """A list that code passes: its elements as JSON, empty where not all are known, and how often it gets another order."""

    elements: tuple[str, ...] = ()
    order: Orders = "fixed"


@dataclass(frozen=True, slots=True)
class SentTools:
    """The tools that a call sends: what is known of each as JSON, how often they get another order, and where they are sent.

    `partly`: the code does not say all of them.
    """

    schemas: tuple[str, ...]
    order: Orders
    place: TemplatePlace
    partly: bool = False


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """A template file by the name that code gives it, and what code passes to it in one call."""

    name: str
    values: tuple[PassedValue, ...]
    settled: tuple[str, ...] = ()
    """Variables that get what a process is set up with."""
    constants: tuple[tuple[str, Constant | None], ...] = ()
    """By the path of a value (`agent.name`) the constant that is passed, None for anything else."""
    roles: tuple[str, ...] = ()
    """Roles of messages that have the text in them."""
    lists: tuple[tuple[str, PassedList], ...] = ()
    """By the path of a value what is known of a list that is passed."""
    source: str = ""
    """The file of the code."""


@dataclass(slots=True)
class TemplateCalls:
    """What the calls say that render one template.

    `constants`: by the path of a value (`agent.name`) all constants that are passed, None where a call passes something else.
    `roles`: of the messages that have the text in them. `kinds`: of values of which code says it, by path.
    """

    constants: dict[str, list[Constant] | None] = field(default_factory=dict)
    roles: set[str] = field(default_factory=set)
    kinds: dict[str, ValueKind] = field(default_factory=dict)
    lists: dict[str, PassedList] = field(default_factory=dict)
    """Lists by path: the first call that shuffles one, else the first call."""
    files: set[str] = field(default_factory=set)
    """The files of the code that renders it."""

    def add(self, call: RenderedFile) -> None:
        """Add what one call says."""
        self.roles |= set(call.roles)
        self.files |= {call.source} - {""}
        for path, constant in call.constants:
            known = self.constants.setdefault(path, [])
            if constant is None or known is None or len(known) >= _MOST_CONSTANTS:
                self.constants[path] = None
            elif constant not in known:
                known.append(constant)
        for path, passed in call.lists:
            if path not in self.lists or self.lists[path].order == "fixed":
                self.lists[path] = passed if passed.order != "fixed" else self.lists.get(path, passed)
        for variable in call.settled:
            self.kinds.setdefault(variable, "constant")
        for value in call.values:
            if (kind := value_kind(value.kind)) is not None:
                self.kinds[value.variable] = kind


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
