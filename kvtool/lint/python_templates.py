"""Prompts that a Python file builds, found in its syntax tree: nothing is executed or imported.

Each function is read from top to bottom once; a name stands for what was last assigned to it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping

from kvtool.errors import KvtoolError, Place
from kvtool.lint.python_expressions import Expressions
from kvtool.lint.python_source import PythonSource
from kvtool.lint.python_values import MOST_PIECES, Items, Value, dotted, is_message
from kvtool.lint.skeleton import Hole, Node


def python_prompts(path: str, text: str) -> list[list[Node]]:
    """What a Python file builds of strings, each as nodes; KvtoolError, with the place, where it does not parse."""
    source = PythonSource(path, text)
    found: list[list[Node]] = []
    try:
        _Module(source, found.append).read()
    except RecursionError as error:
        raise KvtoolError("nested too deeply to read", place=Place(path)) from error
    return found


class _Module:
    """Reads the module's own statements first, then every function with the names of the module."""

    def __init__(self, source: PythonSource, emit: Callable[[list[Node]], None]) -> None:
        self._source = source
        self._emit = emit

    def read(self) -> None:
        waiting: list[tuple[list[ast.stmt], dict[str, Value], frozenset[str]]] = [
            (self._source.tree.body, {}, frozenset())
        ]
        while waiting:
            body, outer, hidden = waiting.pop()
            scope = _Scope(self._source, self._emit, outer, hidden)
            scope.run(body)
            scope.end()
            names = {**outer, **scope.values}
            waiting += [(function.body, names, _parameters(function)) for function in reversed(scope.functions)]


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return frozenset(argument.arg for argument in every)


class _Scope(Expressions):
    """The statements of one function or module, in the order of the file."""

    def __init__(
        self,
        source: PythonSource,
        emit: Callable[[list[Node]], None],
        outer: Mapping[str, Value],
        hidden: frozenset[str],
    ) -> None:
        super().__init__(source, emit, outer, hidden)
        self.functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        self._unordered: list[Hole] = []

    def run(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def end(self) -> None:
        """Hand on what the names stand for at last."""
        for value in self.values.values():
            self.done(value)

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            self.functions.append(statement)
        elif isinstance(statement, ast.ClassDef):
            self.run(statement.body)
        elif isinstance(statement, ast.Assign):
            value = self.value_of(statement.value)
            for target in statement.targets:
                self._assign(dotted(target), value)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._assign(dotted(statement.target), self.value_of(statement.value))
        elif isinstance(statement, ast.AugAssign):
            name = dotted(statement.target)
            if isinstance(statement.op, ast.Add) and name:
                self._extend(name, self.value_of(statement.value))
        elif isinstance(statement, ast.Expr):
            self._expression(statement.value)
        elif isinstance(statement, ast.Return) and statement.value is not None:
            self.done(self.value_of(statement.value))
        elif isinstance(statement, ast.For | ast.AsyncFor):
            self._loop(statement)
        else:
            self._inner(statement)

    def _inner(self, statement: ast.stmt) -> None:
        """The bodies of any other statement, one after the other: what is added in a branch counts as added."""
        for name in ("body", "orelse", "finalbody"):
            self.run(getattr(statement, name, ()))
        for handler in [*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]:
            self.run(handler.body)

    def _loop(self, statement: ast.For | ast.AsyncFor) -> None:
        hole = self.order_of(statement.iter, dotted(statement.target))
        names = [node.id for node in ast.walk(statement.target) if isinstance(node, ast.Name)]
        self.loop_names += names
        if hole is not None:
            self._unordered.append(hole)
        self.run([*statement.body, *statement.orelse])
        if hole is not None:
            self._unordered.remove(hole)
        del self.loop_names[len(self.loop_names) - len(names) :]

    def _expression(self, node: ast.expr) -> None:
        """A statement that is only a call: a list grows, or its arguments are looked at."""
        if isinstance(node, ast.Constant):
            return
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
            name = dotted(node.func.value)
            if node.func.attr in ("append", "extend", "write") and name in self.values:
                value = self.value_of(node.args[0])
                grown = value if node.func.attr != "append" else (Items((value,), messages=is_message(node.args[0])),)
                self._extend(name, grown)
                return
        self.done(self.value_of(node))

    def _assign(self, name: str, value: Value) -> None:
        if not name:
            self.done(value)
            return
        if name in self.values:
            self.done(self.values[name])
        self.values[name] = value

    def _extend(self, name: str, value: Value) -> None:
        """Add to what a name stands for; in a loop over something without an order, that comes first."""
        before = self.values.get(name, self.outer.get(name, ()))
        for hole in self._unordered:
            if hole not in before:
                before = (*before, hole)
        if before and value and isinstance(before[-1], Items) and isinstance(value[0], Items):
            joined = Items((*before[-1].values, *value[0].values), before[-1].messages or value[0].messages)
            value = (*before[:-1], joined, *value[1:])
        else:
            value = (*before, *value)
        self.values[name] = value if len(value) <= MOST_PIECES else before
