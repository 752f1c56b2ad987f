"""Branches and loops: a name means one of what branches assign, and what a loop adds is there any number of times."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from kvtool.lint.python.changed_values import made_up
from kvtool.lint.python.expressions import Expressions
from kvtool.lint.python.syntax import dotted, names_in
from kvtool.lint.python.text_values import (
    Either,
    Items,
    Literal,
    Many,
    Mapped,
    Param,
    Piece,
    Value,
    cut,
    either,
    has_param,
    pieces_of,
    text_of,
    varies,
)
from kvtool.lint.python.work_budget import spend
from kvtool.lint.skeleton import Hole

_MOST_REPEATED = 8
"""Known elements for each of which the body of a loop is read."""


class Flow(Expressions):
    """Reads statements that hold others."""

    _in_known = False
    """Whether a loop over known elements is read, once for each."""
    _asked_name: tuple[str, str] | None = None
    """Within `if name == "now"`: what callers give, and what it is there."""

    @abstractmethod
    def _body(self, body: Iterable[ast.stmt]) -> bool:
        """Read statements; whether what is after is still reached."""

    def _do_if(self, statement: ast.If) -> None:
        self.value_of(statement.test) if isinstance(statement.test, ast.NamedExpr) else None
        missing = _missing(statement.test)
        before = self.values.get(missing)
        test = statement.test
        equal = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)
        named = self._name_given(test.left, test.comparators[0]) if isinstance(test, ast.Compare) and equal else None
        self._branches([statement.body, statement.orelse], [named])
        if before is not None and not varies(before) and not has_param(before):
            self.values[missing] = made_up(self.values.get(missing, ()))

    def _name_given(self, subject: ast.expr, wanted: ast.AST) -> tuple[str, str] | None:
        """Return what callers give, and the constant text that it is compared with; None for anything else."""
        value = self.value_of(subject)
        if not isinstance(wanted, ast.Constant) or not isinstance(wanted.value, str) or len(value) != 1:
            return None
        (one,) = value
        return (one.name, wanted.value) if isinstance(one, Param) and not one.name.startswith("self.") else None

    def _as_named(self, value: Value) -> Value:
        """Return a clock or an id that a function gives where it is asked for by its name: only who asks for it has it.

        A template of a user's asks by its placeholders, which are not seen.
        """
        if self._asked_name is None or not value or not all(isinstance(one, Hole) and one.certain for one in value):
            return value
        name, wanted = self._asked_name

        def given(asked_for: Value) -> Value:
            texts = (text_of(one) for one in pieces_of(asked_for) if isinstance(one, str | Literal))
            return value if wanted in texts else ()

        return (Param(name, filled=given),)

    def _do_match(self, statement: ast.Match) -> None:
        wanted = [getattr(case.pattern, "value", case) for case in statement.cases]
        named = [self._name_given(statement.subject, one) for one in wanted]
        self._branches([*(case.body for case in statement.cases), []], named)

    def _branches(self, bodies: list[list[ast.stmt]], named: Sequence[tuple[str, str] | None]) -> None:
        """Read statements of which one list runs; `named`: what callers give where the first ones do."""
        values, outer = self.values, self._asked_name
        ends: list[dict[str, Value | None]] = []
        for body, name in zip_longest(bodies, named):
            mark = values.begin()
            self._asked_name = name or outer
            reached = self._body(body)
            self._asked_name = outer
            end = values.undo(mark)
            if reached:
                ends.append(end)
        if not ends:
            return
        before = {name: values.get(name) for name in ends[0]}
        for name, value in ends[0].items():
            values.put(name, value)
        for other in ends[1:]:
            before |= {name: values.get(name) for name in other if name not in before}
            spend(len(before))
            for name, was in before.items():
                one, two = values.get(name), other.get(name) if name in other else was
                if one is two:
                    continue
                if one is None or two is None:
                    values[name] = one or two or ()
                else:
                    values[name] = either(one, two)

    def _do_try(self, statement: ast.Try) -> None:
        self._body(statement.body)
        self._body(statement.orelse)
        values = self.values
        for handler in statement.handlers:
            mark = values.begin()
            reached = self._body(handler.body)
            end = values.undo(mark)
            for name, value in end.items() if reached else ():
                was = values.get(name)
                if value is not None and was is not value:
                    values[name] = either(was, value) if was else value
        self._body(statement.finalbody)

    def _do_with(self, statement: ast.With | ast.AsyncWith) -> None:
        for item in statement.items:
            value = self.value_of(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, item.context_expr)
        self._body(statement.body)

    _do_asyncwith = _do_with

    def _do_while(self, statement: ast.While) -> None:
        self._repeated([*statement.body, *statement.orelse], None)

    def _do_for(self, statement: ast.For | ast.AsyncFor) -> None:
        over = self.value_of(statement.iter)
        target = statement.target.id if isinstance(statement.target, ast.Name) else ""
        known = () if self._in_known else self.each(over, _MOST_REPEATED)
        if known:
            self._in_known = True  # loops within this one are read once
            for one in known:
                self.bind_element(statement.target, (Items((one,)),), statement.iter)
                self._body([*statement.body, *statement.orelse])
            self._in_known = False
            return
        order = self.order_of(over, statement.iter, target)
        self.bind_element(statement.target, over, statement.iter)
        names = names_in(statement.target)
        if not any(map(self.values.get, names)):
            self.bind_unknown(statement.target, statement.iter)
        before = set(self.turns)
        if self.asks(statement.body):
            self.turns |= names
        self._repeated([*statement.body, *statement.orelse], order)
        self.turns = before

    _do_asyncfor = _do_for

    def _repeated(self, body: list[ast.stmt], order: Hole | None) -> None:
        """Read a loop's body: what it adds repeats any number of times, in the order of the loop."""
        mark = self.values.begin()
        self._body(body)
        values = self.values
        for name, was in values.end(mark).items():
            value = values.get(name)
            if was is None or value is None or was is value:
                continue
            same = 0
            while same < min(len(was), len(value)) and was[same] is value[same]:
                same += 1
            added: Value = value[same:]
            left: Value = was[same:]
            head: list[Piece] = [order] if order is not None else []
            if not left and added and not any(isinstance(piece, Items | Mapped | Many | Either) for piece in added):
                values[name] = cut([*was, *head, Many(added)])
            elif order is not None and added and isinstance(added[0], Items):
                grown = added[0]
                values[name] = (*value[:same], Items(grown.values, grown.order or order), *added[1:])
            elif order is not None and not left:
                values[name] = cut([*was, *head, *added])


def _missing(test: ast.expr) -> str:
    """Return the name of which a condition asks whether it is missing: `not title`, `title is None`; empty for any other."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return dotted(test.operand)
    other = test.comparators[0] if isinstance(test, ast.Compare) else None
    is_none = isinstance(other, ast.Constant) and other.value is None
    return dotted(test.left) if is_none and isinstance(test, ast.Compare) else ""
