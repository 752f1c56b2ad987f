"""Functions, classes and assignments of TypeScript and JavaScript as those of Python."""

from __future__ import annotations

import ast
from abc import abstractmethod

from tree_sitter import Node

from kvtool.lint.typescript.declarations import SELF, bases_of, kept_parameters, parts_of_parameter
from kvtool.lint.typescript.javascript_expressions import CALLBACK, JavaScriptExpressions
from kvtool.lint.typescript.translated_nodes import (
    FUNCTIONS,
    at,
    constant,
    field,
    first_named,
    key_of,
    name,
    named,
    text,
)

_TYPES = {"number": "int", "string": "str", "boolean": "bool"}
_ASSIGNED = frozenset(("identifier", "subscript_expression", "member_expression"))


class TranslatedDefinitions(JavaScriptExpressions):
    """Makes definitions of Python of tree-sitter's nodes."""

    def __init__(self) -> None:
        super().__init__()
        self._before: list[ast.stmt] = []
        """Functions that expressions of the statement that is read define."""

    @abstractmethod
    def block(self, node: Node | None) -> list[ast.stmt]:
        """Return the statements of a block, or the one that is there in its place."""

    def _assigned(self, target: Node, value: ast.expr, node: Node) -> list[ast.stmt]:
        """Return the assignments that a pattern makes."""
        if target.type == "object_pattern":
            result: list[ast.stmt] = []
            for key, local, default in self._pattern(target):
                part: ast.expr = at(ast.Attribute(value, key, ast.Load()), local)
                if default is not None:
                    part = at(ast.BoolOp(ast.Or(), [part, default]), local)
                result += self._assigned(local, part, local)
            return result
        if target.type == "array_pattern":
            names = [self._target(one) for one in named(target) if one.type in _ASSIGNED]
            if not names:
                return []
            return [at(ast.Assign([at(ast.Tuple(names, ast.Store()), target)], value), node)]
        return [at(ast.Assign([self._target(target)], value), node)]

    def _target(self, node: Node) -> ast.expr:
        if node.type in ("identifier", "shorthand_property_identifier_pattern"):
            return at(ast.Name(text(node), ast.Store()), node)
        return self.expression(node)

    def _pattern(self, node: Node) -> list[tuple[str, Node, ast.expr | None]]:
        """Return key, local name and default of each part that an object pattern takes."""
        found: list[tuple[str, Node, ast.expr | None]] = []
        for one in named(node):
            key, local, default = "", one, None
            if one.type == "pair_pattern":
                key = key_of(one.child_by_field_name("key"))
                value = field(one, "value")
                local = value if value is not None else one
            elif one.type == "rest_pattern":
                continue
            if local.type in ("object_assignment_pattern", "assignment_pattern"):
                default = self.expression(field(local, "right"))
                inside = field(local, "left")
                local = inside if inside is not None else local
            found.append((key or text(local), local, default))
        return found

    # Functions and classes

    def function_value(self, node: Node, label: str) -> ast.expr:
        body = field(node, "body")
        if label == CALLBACK and body is not None and body.type != "statement_block":
            arguments, _ = self.arguments_of(node)
            return at(ast.Lambda(arguments, self.expression(body)), node)
        own = f"{label or CALLBACK}_{node.start_point.row + 1}"
        self._before.append(self._defined(node, own))
        return name(own, node)

    def _function_declaration(self, node: Node) -> list[ast.stmt]:
        return [self._defined(node, text(field(node, "name")) or "default")]

    def _defined(self, node: Node, label: str, first: str = "") -> ast.FunctionDef:
        """Return a function under a name; `first` is the parameter for the object of a method."""
        arguments, body = self.arguments_of(node)
        if first:
            arguments.args.insert(0, at(ast.arg(first), node))
        inside = field(node, "body")
        if inside is not None and inside.type != "statement_block":
            outer, self._before = self._before, []
            value = self.expression(inside)
            body += [*self._before, at(ast.Return(value), inside)]
            self._before = outer
        else:
            body += self.block(inside)
        return at(ast.FunctionDef(label, arguments, body or [at(ast.Pass(), node)], []), node)

    def arguments_of(self, node: Node) -> tuple[ast.arguments, list[ast.stmt]]:
        given = node.child_by_field_name("parameters")
        one = node.child_by_field_name("parameter")
        parameters = [*named(given)] if given is not None else [one] if one is not None else []
        arguments = ast.arguments([], [], None, [], [], None, [])
        body: list[ast.stmt] = []
        for number, parameter in enumerate(parameters):
            self._add_parameter(arguments, body, parameter, number)
        return arguments, body

    def _add_parameter(self, arguments: ast.arguments, body: list[ast.stmt], node: Node, number: int) -> None:
        pattern, default, declared = parts_of_parameter(node)
        if pattern.type == "object_pattern":
            for key, local, value in self._pattern(pattern):
                arguments.kwonlyargs.append(at(ast.arg(key), local))
                arguments.kw_defaults.append(value)
                if text(local) != key:
                    body += self._assigned(local, name(key, local), local)
            if arguments.args or number:
                arguments.args.append(at(ast.arg(f"options_{number}"), pattern))
                if arguments.defaults:
                    arguments.defaults.append(constant(None, pattern))
            return
        if pattern.type == "rest_pattern":
            arguments.vararg = at(ast.arg(text(first_named(pattern))), pattern)
            return
        if pattern.type == "this":
            return
        annotation = name(_TYPES.get(declared, declared), node) if declared else None
        label = text(pattern) if pattern.type == "identifier" else f"value_{number}"
        arguments.args.append(at(ast.arg(label, annotation), pattern))
        if default is not None:
            arguments.defaults.append(self.expression(default))
        elif arguments.defaults:
            arguments.defaults.append(constant(None, pattern))

    def class_value(self, node: Node) -> ast.expr:
        label = text(field(node, "name")) or f"Class_{node.start_point.row + 1}"
        self._before += self._class(node, label)
        return name(label, node)

    def _class(self, node: Node, label: str = "") -> list[ast.stmt]:
        body = field(node, "body")
        inside: list[ast.stmt] = []
        for one in named(body) if body is not None else ():
            inside += self._member_of_class(one)
        bases = [self.expression(base) for base in bases_of(node)]
        made = ast.ClassDef(
            label or text(field(node, "name")) or "Default", bases, [], inside or [at(ast.Pass(), node)], []
        )
        return [at(made, node)]

    def _member_of_class(self, node: Node) -> list[ast.stmt]:
        label = key_of(node.child_by_field_name("name")).removeprefix("#")
        kinds = {child.type for child in node.children}
        if node.type == "method_definition" and field(node, "body") is not None:
            is_static = "static" in kinds
            function = self._defined(node, "__init__" if label == "constructor" else label, "" if is_static else SELF)
            if label == "constructor":
                function.body = [*kept_parameters(node), *function.body]
            if is_static or "get" in kinds:
                function.decorator_list = [name("staticmethod" if is_static else "property", node)]
            return [function]
        value = field(node, "value")
        if node.type not in ("public_field_definition", "field_definition") or value is None or not label:
            return []
        if value.type in FUNCTIONS:
            return [self._defined(value, label, SELF)]
        return [at(ast.Assign([at(ast.Name(label, ast.Store()), node)], self.expression(value)), node)]

    def _enum(self, node: Node) -> list[ast.stmt]:
        body = field(node, "body")
        inside: list[ast.stmt] = []
        for one in named(body) if body is not None else ():
            if one.type == "enum_assignment":
                target = at(ast.Name(key_of(field(one, "name")), ast.Store()), one)
                inside.append(at(ast.Assign([target], self.expression(field(one, "value"))), one))
        return [at(ast.ClassDef(text(field(node, "name")), [], [], inside or [at(ast.Pass(), node)], []), node)]
