"""Inference of the variables of templates: what each must be, by how the templates use it. Nothing is rendered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

from jinja2 import Environment, nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import do, loopcontrols

from kvtool.errors import KvtoolError
from kvtool.text.templates.application import Find, keep_value
from kvtool.text.templates.expression_uses import Caller, ExpressionReader, ImportedNames, Loop, Macro, Scope
from kvtool.text.templates.filter_uses import constant
from kvtool.text.templates.shapes import ValueShape, unify
from kvtool.text.templates.template import undeclared_names

_MOST_NODES = 200_000
_DEEPEST = 20


@dataclass(slots=True)
class VariableUses:
    """Shapes of the variables of templates, names of filters and tests that Jinja does not have, and the included files."""

    variables: dict[str, ValueShape] = field(default_factory=dict)
    filters: set[str] = field(default_factory=set)
    tests: set[str] = field(default_factory=set)
    included: set[str] = field(default_factory=set)

    def read(self, source: str, find: Find) -> None:
        """Take in a template and those that it includes; of one that does not parse, nothing."""
        reader = _Reader(self, find)
        with suppress(TemplateError, RecursionError, ValueError, MemoryError, OverflowError):
            reader.read(source, None, {})
        reader.finish()


class _Reader(ExpressionReader):
    """Reads one template, with those that it includes."""

    def __init__(self, uses: VariableUses, find: Find) -> None:
        super().__init__(uses.variables)
        self._uses = uses
        self._find = find
        self._environment = Environment(extensions=[do, loopcontrols], autoescape=False)  # noqa: S701 - nothing is rendered
        self._path: list[str | None] = []
        self._left = _MOST_NODES

    def read(self, source: str, path: str | None, names: Scope) -> Scope:
        """Read a template whose names begin with these; returns them with those that it sets."""
        tree = self._environment.parse(source)
        for kind, known, unknown in (
            (nodes.Filter, self._environment.filters, self._uses.filters),
            (nodes.Test, self._environment.tests, self._uses.tests),
        ):
            for node in tree.find_all(kind):
                if node.name not in known:
                    unknown.add(node.name)
                    known[node.name] = keep_value
        self._path.append(path)
        self._free.append(undeclared_names(tree, self._environment))
        scopes, self._scopes = self._scopes, [names]
        try:
            self._body(tree.body)
            for extends in tree.find_all(nodes.Extends):
                self._included(extends.template, names)
        finally:
            self._scopes = scopes
            self._free.pop()
            self._path.pop()
        return names

    # Statements

    def _body(self, statements: Sequence[nodes.Node]) -> None:
        for statement in statements:
            self._left -= 1
            if self._left < 0:
                raise MemoryError
            self._statement(statement)

    def _statement(self, node: nodes.Node) -> None:
        read = self._STATEMENTS.get(type(node))
        if read is not None:
            read(self, node)

    def _expression(self, node: nodes.ExprStmt) -> None:
        self._value(node.node)

    def _output(self, node: nodes.Output) -> None:
        for child in node.nodes:
            if not isinstance(child, nodes.TemplateData):
                self._value(child).hint("shown")

    def _assign_block(self, node: nodes.AssignBlock) -> None:
        self._block_body(node.body, node.filter)
        self._set(node.target, ValueShape("maybe text"))

    def _with(self, node: nodes.With) -> None:
        values = [self._value(value) for value in node.values]
        with self._scope():
            for target, value in zip(node.targets, values, strict=True):
                self._set(target, value)
            self._body(node.body)

    def _import(self, node: nodes.Import) -> None:
        self._scopes[-1][node.target] = ImportedNames(self._included(node.template, {}))

    def _import_names(self, node: nodes.FromImport) -> None:
        found = self._included(node.template, {})
        for imported in node.names:
            source, target = imported if isinstance(imported, tuple) else (imported, imported)
            self._scopes[-1][target] = found.get(source, ValueShape())

    def _include(self, node: nodes.Include) -> None:
        outer: Scope = {name: value for scope in self._scopes for name, value in scope.items()}
        self._included(node.template, outer if node.with_context else {})

    def _block(self, node: nodes.Block | nodes.Scope | nodes.ScopedEvalContextModifier) -> None:
        with self._scope():
            self._body(node.body)

    def _if(self, node: nodes.If) -> None:
        self._truth(node.test)
        self._branches += 1
        self._body(node.body)
        for branch in node.elif_:
            self._truth(branch.test)
            self._body(branch.body)
        self._body(node.else_)
        self._branches -= 1

    def _for(self, node: nodes.For) -> None:
        over = self._value(node.iter)
        item = over.element()
        with self._scope({"loop": Loop(over)}):
            self._set(node.target, item)
            if node.test is not None:
                self._truth(node.test)
            self._body(node.body)
        self._body(node.else_)

    def _block_body(self, body: Sequence[nodes.Node], filters: nodes.Filter | None) -> None:
        with self._scope():
            self._body(body)
            if filters is not None:
                self._value(filters)

    def _macro(self, node: nodes.Macro) -> None:
        macro = Macro({argument.name: ValueShape() for argument in node.args})
        self._scopes[-1][node.name] = macro
        for argument, default in zip(reversed(node.args), reversed(node.defaults), strict=False):
            unify(macro.parameters[argument.name], self._value(default))
        own: Scope = {**macro.parameters, "caller": Caller(macro), "varargs": ValueShape(), "kwargs": ValueShape()}
        with self._scope(own):
            self._body(node.body)

    def _call_block(self, node: nodes.CallBlock) -> None:
        names: Scope = {argument.name: ValueShape() for argument in node.args}
        macro = self._called(node.call.node)
        self._value(node.call)
        if isinstance(macro, Macro):
            for given, name in zip(macro.caller, names.values(), strict=False):
                if isinstance(name, ValueShape):
                    unify(given, name)
        with self._scope(names):
            self._body(node.body)

    def _included(self, template: nodes.Expr, names: Scope) -> Scope:
        """Read the template of a tag, if its name is a constant; of several the first that exists."""
        self._value(template)
        wanted = [template] if isinstance(template, nodes.Const) else getattr(template, "items", [])
        for one in wanted:
            name = constant(one)
            found = None
            if isinstance(name, str) and len(self._path) < _DEEPEST:
                with suppress(KvtoolError):
                    found = self._find(name, self._path[-1])
            if found is not None:
                self._uses.included.add(found.name)
                if found.name not in self._path:
                    with suppress(TemplateError):
                        self.read(str.__str__(found.source), found.name, names)
                break
        return names

    _STATEMENTS: ClassVar[dict[type, Callable[[_Reader, Any], None]]] = {
        nodes.Output: _output,
        nodes.If: _if,
        nodes.For: _for,
        nodes.Assign: lambda self, node: self._set(node.target, self._value(node.node)),
        nodes.AssignBlock: _assign_block,
        nodes.FilterBlock: lambda self, node: self._block_body(node.body, node.filter),
        nodes.With: _with,
        nodes.Macro: _macro,
        nodes.CallBlock: _call_block,
        nodes.Include: _include,
        nodes.Import: _import,
        nodes.FromImport: _import_names,
        nodes.ExprStmt: _expression,
        nodes.Block: _block,
        nodes.Scope: _block,
        nodes.ScopedEvalContextModifier: _block,
    }
