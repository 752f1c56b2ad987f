"""The end of the shared beginning of a prompt: a value after it costs nothing more.

A value that differs per request ends it for good. One that differs per day, person or process, or by its name, ends it for some:
later calls and names are reported, too, and values that vary by their use with it. An unknown value ends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kvtool.diagnose.codes.values.kv102 import KV102
from kvtool.lint.evidence.value_precision import DATE
from kvtool.lint.skeleton import Choice, Hole, Node, Repeat, TemplatePlace

EACH_REQUEST = 3
_NAMED = 2
_SOMETIMES = 1


@dataclass
class HolesBefore:
    """The values met on the way from the start of a prompt to a place in it."""

    most: int = 0
    before: HolesBefore | None = None
    """What was met before the choice that this is one branch of."""
    seen: set[tuple[str, str]] = field(default_factory=set)

    def add(self, hole: Hole) -> None:
        self.most = max(self.most, often(hole))
        self.seen.add(_name(hole))

    def covers(self, hole: Hole) -> bool:
        """Return whether a hole costs nothing more after what was met."""
        if hole.leads or hole.elsewhere:
            return False
        if self.most == EACH_REQUEST or self._has(_name(hole)):
            return True
        return bool(hole.doubt) and self.most >= _SOMETIMES

    def _has(self, name: tuple[str, str]) -> bool:
        met: HolesBefore | None = self
        while met is not None and name not in met.seen:
            met = met.before
        return met is not None

    def branch(self) -> HolesBefore:
        """To go on with into a branch."""
        return HolesBefore(self.most, self)

    def join(self, others: Iterable[HolesBefore]) -> None:
        """Go on after a choice: what one of its branches holds may have been met."""
        for other in others:
            self.most = max(self.most, other.most)
            self.seen |= other.seen


def often(hole: Hole) -> int:
    """Rate how surely and how often a value differs."""
    if hole.doubt:
        return EACH_REQUEST if hole.doubt == "use" else 0
    if not hole.certain:
        return _NAMED
    if hole.minor:
        return 0
    if hole.order or hole.kind is DATE:
        return _SOMETIMES
    return EACH_REQUEST if hole.clock or hole.kind.code == KV102.code else _SOMETIMES


def _name(hole: Hole) -> tuple[str, str]:
    """Return the key under which later holes are the same loss: the same value, every date, one kind by its name, all sets."""
    if hole.kind is DATE or not (hole.certain or hole.doubt):
        return hole.kind.key, ""
    if hole.order:
        return "order", hole.what
    return hole.kind.key, str(hole.made) if hole.certain and hole.made is not None else hole.what


def with_hidden(nodes: Iterable[Node], met: HolesBefore | None = None) -> list[Node]:
    """The nodes, where what costs nothing more than what is before it is marked as hidden."""
    met = HolesBefore() if met is None else met
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Hole):
            hidden = node.hidden or met.covers(node)
            if not node.unseen or node.doubt == "use":
                met.add(node)
            result.append(replace(node, hidden=True) if hidden else node)
        elif isinstance(node, Choice):
            ways = [met.branch() for _ in node.branches]
            branches = zip(node.branches, ways, strict=True)
            result.append(Choice(tuple(tuple(with_hidden(branch, way)) for branch, way in branches)))
            met.join(ways)
        elif isinstance(node, Repeat):
            result.append(replace(node, body=tuple(with_hidden(node.body, met))))
        else:
            result.append(node)
    return result


class SharedLosses:
    """Groups of places that are one loss: those of one value in one prompt, whatever other prompts the value goes into."""

    def __init__(self) -> None:
        self._same: dict[tuple[object, TemplatePlace], TemplatePlace] = {}
        """Of a value and a place, another place of the same loss, or the place itself."""

    def add(self, nodes: Iterable[Node]) -> None:
        """A prompt: all places of a value in it are one loss; those in two branches are not, unless others are around them."""
        self._walk(nodes, {})

    def _walk(self, nodes: Iterable[Node], last: dict[object, tuple[TemplatePlace, ...]]) -> None:
        """`last` is where each value stood last on the ways that lead here."""
        for node in nodes:
            if isinstance(node, Choice):
                ways = [dict(last) for _ in node.branches]
                for branch, way in zip(node.branches, ways, strict=True):
                    self._walk(branch, way)
                for value in {value for way in ways for value in way}:
                    last[value] = tuple(dict.fromkeys(spot for way in ways for spot in way.get(value, ())))
            elif isinstance(node, Repeat):
                self._walk(node.body, last)
            elif isinstance(node, Hole) and (value := _value(node)) is not None:
                spot = self._first(value, node.spot)
                for other in last.get(value, ()):
                    first = self._first(value, other)
                    self._same[value, spot] = first
                    spot = first
                last[value] = (spot,)

    def key(self, hole: Hole) -> tuple[object, ...]:
        """Return the identity of a loss, wherever it is reported: one value in one prompt; in a line, the same words."""
        value = _value(hole)
        if value is not None:
            return value, self._first(value, hole.spot)
        return hole.kind.code, hole.what, hole.spot.line

    def _first(self, value: object, spot: TemplatePlace) -> TemplatePlace:
        while (other := self._same.setdefault((value, spot), spot)) != spot:
            spot = other
        return spot


def _value(hole: Hole) -> tuple[object, ...] | None:
    """Return the identity of a value, wherever it is put; None where the code that makes it is not seen."""
    if not hole.certain or hole.doubt or hole.made is None:
        return None
    return hole.kind.code, hole.what, hole.made
