"""Expressions of templates: the shape of each, and what it says about the variables in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from jinja2 import nodes

from kvtool.text.templates.filter_uses import (
    Argument,
    apply_test,
    compare_equal,
    compare_order,
    compare_within,
    constant,
    filtered,
    method_called,
    printf,
)
from kvtool.text.templates.shapes import ValueShape, unify

_BUILT_IN = frozenset(("range", "dict", "cycler", "joiner", "namespace"))
LEAST_ITEMS = 10
"""Items of a list that is asked for an item by a number that no constant says: more than any such number."""
_ORDERS = frozenset(("lt", "lteq", "gt", "gteq"))


@dataclass(slots=True)
class Macro:
    """A macro: its parameters, and the parameters of the block that calls it."""

    parameters: dict[str, ValueShape]
    caller: list[ValueShape] = field(default_factory=list)


@dataclass(slots=True)
class ImportedNames:
    """An imported template."""

    names: dict[str, Local]


@dataclass(slots=True)
class Loop:
    """The `loop` of a `for`."""

    over: ValueShape


@dataclass(slots=True)
class Caller:
    macro: Macro


Local = ValueShape | Macro | ImportedNames | Loop | Caller
Scope = dict[str, Local]


class ExpressionReader:
    """Reads expressions in the scopes of a template."""

    def __init__(self, variables: dict[str, ValueShape]) -> None:
        self._variables = variables
        self._scopes: list[Scope] = []
        self._free: list[frozenset[str]] = []
        """Of each template that is being read: the names that it may take from outside."""
        self._keyed: list[tuple[ValueShape, ValueShape, ValueShape]] = []
        """Values, keys that are no constants, and what is there."""
        self._differences: list[tuple[ValueShape, ValueShape, ValueShape]] = []
        """Values that are subtracted, and what that gives."""
        self._branches = 0

    def finish(self) -> None:
        """Decide what keys are that no constant says, numbers of items or keys of a mapping, and whether dates are subtracted."""
        for left, right, out in self._differences:
            if out.root.fields:
                left.hint("date")
                right.hint("date")
        for base, key, out in self._keyed:
            if (literal := base.root.literal) is not None:
                key.root.texts[:] = literal or key.root.texts
                unify(out, *base.root.fields.values())
            elif key.kind() == "number" or (key.root.hints & {"maybe number"} and not base.root.fields):
                unify(out, base.element())
                base.root.least = max(base.root.least, LEAST_ITEMS)
            else:
                unify(out, base.hint("keyed").any_value())

    # Names

    @contextmanager
    def _scope(self, names: Scope | None = None) -> Iterator[Scope]:
        self._scopes.append({} if names is None else names)
        try:
            yield self._scopes[-1]
        finally:
            self._scopes.pop()

    def _local(self, name: str) -> Local | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _name(self, name: str) -> ValueShape:
        found = self._local(name)
        if found is not None:
            return found if isinstance(found, ValueShape) else ValueShape()
        if name in _BUILT_IN or name == "self" or name not in self._free[-1]:
            return ValueShape()
        return self._variables.setdefault(name, ValueShape())

    def _set(self, target: nodes.Node, shape: ValueShape) -> None:
        if isinstance(target, nodes.Name):
            scope = self._scopes[-1]
            before = self._local(target.name)
            if target.name in self._free[-1]:
                unify(shape, self._variables.setdefault(target.name, ValueShape()))
            if self._branches and isinstance(before, ValueShape):
                unify(shape, before)
            scope[target.name] = shape
        elif isinstance(target, nodes.Tuple | nodes.List):
            for number, item in enumerate(target.items):
                self._set(item, shape.position(number))
        elif isinstance(target, nodes.NSRef):
            unify(self._name(target.name).field(target.attr), shape)

    # Expressions

    def _truth(self, node: nodes.Node) -> None:
        """Read an expression that is only asked whether it is true."""
        if isinstance(node, nodes.And | nodes.Or):
            self._truth(node.left)
            self._truth(node.right)
        elif isinstance(node, nodes.Not):
            self._truth(node.node)
        else:
            self._value(node).hint("tested")

    def _values(self, parts: Sequence[nodes.Expr]) -> list[Argument]:
        return [(node, self._value(node)) for node in parts]

    def _value(self, node: nodes.Node | None) -> ValueShape:
        """Return the shape of an expression."""
        read = next((self._READERS[kind] for kind in type(node).__mro__ if kind in self._READERS), None)
        return ValueShape() if read is None else read(self, node)

    def _test(self, node: nodes.Test) -> ValueShape:
        apply_test(node.name, self._value(node.node), self._values(node.args or []))
        return ValueShape("bool")

    def _either(self, node: nodes.CondExpr) -> ValueShape:
        self._truth(node.test)
        return unify(ValueShape(), *(self._value(each) for each in (node.expr1, node.expr2) if each is not None))

    def _concat(self, node: nodes.Concat) -> ValueShape:
        self._values(node.nodes)
        return ValueShape("maybe text")

    def _logic(self, node: nodes.And | nodes.Or | nodes.Not) -> ValueShape:
        if isinstance(node, nodes.Not):
            self._truth(node.node)
            return ValueShape("bool")
        if isinstance(node, nodes.And):
            self._truth(node.left)
            return self._value(node.right)
        return unify(self._value(node.left), self._value(node.right))

    def _sequence(self, node: nodes.List | nodes.Tuple) -> ValueShape:
        out = ValueShape("list")
        for number, (_, shape) in enumerate(self._values(node.items)):
            if isinstance(node, nodes.Tuple):
                unify(out.position(number), shape)
            else:
                unify(out.element(), shape)
        return out

    def _dict(self, node: nodes.Dict) -> ValueShape:
        out = ValueShape("object")
        keys: list[str] = []
        for pair in node.items:
            self._value(pair.key)
            value = self._value(pair.value)
            if isinstance(key := constant(pair.key), str):
                keys.append(key)
                unify(out.field(key), value)
        out.literal = keys
        return out

    def _attribute(self, node: nodes.Getattr) -> ValueShape:
        if isinstance(node.node, nodes.Name):
            local = self._local(node.node.name)
            if isinstance(local, Loop):
                if node.attr in ("previtem", "nextitem"):
                    return local.over.element()
                return ValueShape("bool" if node.attr in ("first", "last") else "number")
            if isinstance(local, ImportedNames):
                found = local.names.get(node.attr)
                return found if isinstance(found, ValueShape) else ValueShape()
        return self._value(node.node).field(node.attr)

    def _item(self, node: nodes.Getitem) -> ValueShape:
        base = self._value(node.node)
        if isinstance(node.arg, nodes.Slice):
            for part in (node.arg.start, node.arg.stop, node.arg.step):
                if part is not None:
                    self._value(part).hint("number")
            return base
        key = constant(node.arg)
        if isinstance(key, str):
            return base.field(key)
        shape = self._value(node.arg)
        back = constant(node.arg.node) if isinstance(node.arg, nodes.Neg) else None
        if isinstance(key, int) or isinstance(back, int):
            root = base.root
            root.least = max(root.least, back if isinstance(back, int) else (key if isinstance(key, int) else 0) + 1)
            return root.positions[key] if isinstance(key, int) and key in root.positions else base.element()
        out = ValueShape()
        self._keyed.append((base, shape, out))
        return out

    def _called(self, node: nodes.Expr) -> Local | None:
        """Return what a call calls, where a template says what that is."""
        if isinstance(node, nodes.Name):
            return self._local(node.name)
        if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
            local = self._local(node.node.name)
            if isinstance(local, ImportedNames):
                return local.names.get(node.attr)
            if isinstance(local, Loop):
                return ValueShape()
        return None

    def _call(self, node: nodes.Call) -> ValueShape:
        args = self._values(node.args)
        named = {pair.key: self._value(pair.value) for pair in node.kwargs}
        for rest in (node.dyn_args, node.dyn_kwargs):
            if rest is not None:
                self._value(rest).hint("list" if rest is node.dyn_args else "object")
        function = self._called(node.node)
        match function:
            case Macro():
                for shape, (_, given) in zip(function.parameters.values(), args, strict=False):
                    unify(shape, given)
                for name, given in named.items():
                    if name in function.parameters:
                        unify(function.parameters[name], given)
                return ValueShape("maybe text")
            case Loop():
                for _, given in args[:1]:
                    unify(function.over, given)
                return ValueShape("maybe text")
            case Caller():
                known = function.macro.caller
                known += [ValueShape() for _ in args[len(known) :]]
                for shape, (_, given) in zip(known, args, strict=False):
                    unify(shape, given)
                return ValueShape("maybe text")
            case ValueShape() if isinstance(node.node, nodes.Getattr):
                return ValueShape()
            case _:
                return self._call_outside(node, args, named)

    def _call_outside(self, node: nodes.Call, args: list[Argument], named: dict[str, ValueShape]) -> ValueShape:
        """Return what a method, a function of Jinja or of the application gives."""
        if isinstance(node.node, nodes.Getattr):
            base = self._value(node.node.node)
            return method_called(node.node.attr, base, args, node.node.node)
        name = node.node.name if isinstance(node.node, nodes.Name) else ""
        if name in _BUILT_IN and self._local(name) is None:
            if name == "range":
                for _, shape in args:
                    shape.hint("number")
                out = ValueShape("list")
                out.element().hint("number")
                return out
            out = ValueShape("object")
            for key, shape in named.items():
                unify(out.field(key), shape)
            return out if name in ("dict", "namespace") else ValueShape()
        if name in ("super", "caller"):
            return ValueShape("maybe text")
        return self._value(node.node).returned()

    def _filter(self, node: nodes.Filter) -> ValueShape:
        base = ValueShape("maybe text") if node.node is None else self._value(node.node)
        named: dict[str, nodes.Expr] = {str(pair.key): pair.value for pair in node.kwargs or []}
        for value in named.values():
            self._value(value)
        if node.name in ("length", "count") and isinstance(node.node, nodes.Name | nodes.Getattr):
            out = ValueShape("maybe number")
            out.lengths = base.root.lengths
            return out
        return filtered(node.name, base, self._values(node.args or []), named, node.node)

    def _compare(self, node: nodes.Compare) -> ValueShape:
        left: nodes.Expr = node.expr
        shape = self._value(left)
        for operand in node.ops:
            right, other = operand.expr, self._value(operand.expr)
            if operand.op in ("eq", "ne"):
                compare_equal(shape, right, other)
                if isinstance(left, nodes.Const):
                    compare_equal(other, left, shape)
            elif operand.op in _ORDERS:
                compare_order(shape, right, other)
                if isinstance(left, nodes.Const):
                    compare_order(other, left, shape)
                if isinstance(value := constant(right), int | float):
                    shape.root.lengths.append(value)
            elif not isinstance(left, nodes.Const):
                compare_within(shape, right, other)
            left, shape = right, other
        return ValueShape("bool")

    def _arithmetic(self, node: nodes.BinExpr) -> ValueShape:
        left, right = self._value(node.left), self._value(node.right)
        if isinstance(node, nodes.Mod) and isinstance(constant(node.left), str):
            parts = node.right.items if isinstance(node.right, nodes.Tuple) else [node.right]
            printf(constant(node.left), [self._value(part) for part in parts])
            return ValueShape("maybe text")
        if isinstance(node, nodes.Mul) and "maybe text" in left.root.hints:
            right.hint("number")
            return ValueShape("maybe text")
        if not isinstance(node, nodes.Add):
            left.hint("number")
            right.hint("number")
            out = ValueShape("number")
            if isinstance(node, nodes.Sub):
                self._differences.append((left, right, out))
            return out
        for one, other in ((left, right), (right, left)):
            if one.root.hints & {"maybe text", "text"}:
                other.hint("text")
            elif one.root.hints & {"maybe number", "number"}:
                other.hint("number")
            elif "list" in one.root.hints:
                other.hint("list")
        return unify(left.hint("added"), right)

    _READERS: ClassVar[dict[type, Callable[[ExpressionReader, Any], ValueShape]]] = {
        nodes.Name: lambda self, node: self._name(node.name),
        nodes.Const: lambda _, node: _constant_shape(node.value),
        nodes.Getattr: _attribute,
        nodes.Getitem: _item,
        nodes.Call: _call,
        nodes.Filter: _filter,
        nodes.Test: _test,
        nodes.Compare: _compare,
        nodes.And: _logic,
        nodes.Or: _logic,
        nodes.Not: _logic,
        nodes.CondExpr: _either,
        nodes.BinExpr: _arithmetic,
        nodes.UnaryExpr: lambda self, node: self._value(node.node).hint("number"),
        nodes.Concat: _concat,
        nodes.List: _sequence,
        nodes.Tuple: _sequence,
        nodes.Dict: _dict,
    }


def _constant_shape(value: object) -> ValueShape:
    if isinstance(value, bool):
        return ValueShape("maybe bool")
    if isinstance(value, int | float):
        return ValueShape("maybe number")
    return ValueShape("maybe text") if isinstance(value, str) else ValueShape()
