"""Orders and choices that are left to chance: lists that are sorted by random numbers, and elements that these pick."""

from __future__ import annotations

import ast
from dataclasses import replace

from kvtool.lint.evidence.volatile_calls import RANDOM, called, shuffled
from kvtool.lint.python.changed_values import in_order
from kvtool.lint.python.objects import Objects
from kvtool.lint.python.syntax import as_written, dotted
from kvtool.lint.python.text_values import Callee, Items, Mapped, Piece, Value, pieces_of
from kvtool.lint.skeleton import Hole, TemplatePlace


class ChanceOrders(Objects):
    """Tells where a random number decides over the order of a list, or over an element of it."""

    def chance_in(self, node: ast.expr | None, elements: Value = ()) -> Hole | None:
        """Return the random value that a number is made of, or that a function for `elements` looks at; None for any other."""
        if node is None:
            return None
        value = self._given_back(node, elements) if isinstance(node, ast.Lambda) else self.value_of(node)
        pieces = [*self.given_by(value)]
        if isinstance(node, ast.Lambda):
            pieces += self._called_in(node)
        return next((one for one in pieces_of(tuple(pieces)) if isinstance(one, Hole) and _is_random(one)), None)

    def given_by(self, value: Value) -> Value:
        """Return what functions give that are values, beside all else."""
        called = (self.program.summary(one.function, self.depth + 1) for one in value if isinstance(one, Callee))
        return (*(one for one in value if not isinstance(one, Callee)), *(part for one in called for part in one.value))

    def _given_back(self, node: ast.Lambda, elements: Value) -> Value:
        mark = self.values.begin()
        for one in node.args.args:
            self.bind_element(ast.Name(one.arg, ast.Store()), elements, node.body)
        value = self.value_of(node.body)
        self.values.undo(mark)
        return value

    def _called_in(self, node: ast.Lambda) -> list[Piece]:
        """Return the values of calls that only decide what a function gives: `Math.random() > 0.5 ? 1 : -1`."""
        calls = (one for one in ast.walk(node.body) if isinstance(one, ast.Call))
        found = (
            called(self.canonical(dotted(one.func)), self.source.spot_of(one), as_written(one.func)) for one in calls
        )
        return [hole for hole in found if hole is not None]

    def in_new_order(self, node: ast.Call, over: ast.expr, spot: TemplatePlace) -> Value:
        """Return a list as a call sorts it: in a fixed order, or in another each time where a random number decides."""
        value = self.value_of(over)
        key = next((word.value for word in node.keywords if word.arg == "key"), None)
        if self.chance_in(key, value) is None:
            return in_order(value)
        return self.mixed(value, over, spot, as_written(node.func))

    def mixed(self, value: Value, over: ast.expr, spot: TemplatePlace, written: str) -> Value:
        """Return a list in another order each time, by a call or an assignment that is `written` so."""
        elements = [one for piece in value for one in (piece.values if isinstance(piece, Items) else ((piece,),))]
        names = " ".join(getattr(one, "id", getattr(one, "attr", "")) for one in ast.walk(over))
        return (Items(tuple(elements), shuffled(names, spot, written)),)

    def swap(self, target: ast.Subscript) -> None:
        """An element is put at a random place of a list, which is how code shuffles one itself."""
        name = dotted(target.value)
        before = self.variable(target.value, name) if name else ()
        if not before or any(isinstance(piece, Mapped) or getattr(piece, "order", None) for piece in before):
            return
        if (hole := self.chance_in(target.slice)) is not None:
            mixed = self.mixed(before, target.value, self.source.spot_of(target), name)
            self.values[name] = tuple(
                replace(one, order=replace(one.order, what=f"`{name}` shuffled by {hole.what.removeprefix('call ')}"))
                for one in mixed
                if isinstance(one, Items) and one.order is not None
            )


def _is_random(hole: Hole) -> bool:
    return hole.certain and not hole.order and (hole.kind is RANDOM or hole.is_new)
