"""Statements of TypeScript and JavaScript as those of Python: functions, classes, imports, branches and loops."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from tree_sitter import Node

from kvtool.lint.typescript.declarations import (
    functions_taking_objects,
    module_name,
    required_module,
)
from kvtool.lint.typescript.definitions import TranslatedDefinitions
from kvtool.lint.typescript.translated_nodes import (
    FUNCTIONS,
    KnownName,
    at,
    bare,
    field,
    first_named,
    method,
    name,
    named,
    string_text,
    text,
)

_ENDS = (ast.Break,)


class Statements(TranslatedDefinitions):
    """Makes Python statements of tree-sitter's nodes."""

    def __init__(self) -> None:
        super().__init__()
        self._statements: dict[str, Callable[[Node], list[ast.stmt]]] = {
            "lexical_declaration": self._declaration,
            "variable_declaration": self._declaration,
            "function_declaration": self._function_declaration,
            "generator_function_declaration": self._function_declaration,
            "class_declaration": self._class,
            "abstract_class_declaration": self._class,
            "enum_declaration": self._enum,
            "import_statement": self._import,
            "export_statement": self._export,
            "expression_statement": self._expression_statement,
            "return_statement": lambda node: [at(ast.Return(self._returned(node)), node)],
            "throw_statement": lambda node: [at(ast.Raise(None, None), node)],
            "break_statement": lambda node: [at(ast.Break(), node)],
            "continue_statement": lambda node: [at(ast.Continue(), node)],
            "if_statement": self._if,
            "else_clause": self._inside,
            "statement_block": self._inside,
            "class_static_block": self._inside,
            "internal_module": self._inside,
            "module": self._inside,
            "labeled_statement": lambda node: self.block(field(node, "body")),
            "for_statement": self._for,
            "for_in_statement": self._for_each,
            "while_statement": self._while,
            "do_statement": self._while,
            "try_statement": self._try,
            "switch_statement": self._switch,
        }

    def program(self, root: Node) -> list[ast.stmt]:
        """Return the statements of a file."""
        self.taking_objects = functions_taking_objects(root)
        return self._all(named(root))

    def _all(self, nodes: Iterable[Node]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for node in nodes:
            outer, self._before = self._before, []
            own = self.statement(node)
            result += self._before
            result += own
            self._before = outer
        return result

    def block(self, node: Node | None) -> list[ast.stmt]:
        """Return the statements of a block, or the one that is there in its place."""
        if node is None:
            return []
        return self._inside(node) if node.type == "statement_block" else self._all([node])

    def statement(self, node: Node) -> list[ast.stmt]:
        """Return the statements for one; none for types and what else does nothing when the program runs."""
        reader = self._statements.get(node.type)
        return reader(node) if reader is not None else []

    def _inside(self, node: Node) -> list[ast.stmt]:
        body = node.child_by_field_name("body")
        return self._all(named(body if body is not None else node))

    def _returned(self, node: Node) -> ast.expr | None:
        value = first_named(node)
        return None if value is None else self.expression(value)

    # Names

    def _declaration(self, node: Node) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for one in named(node):
            if one.type == "variable_declarator":
                result += self._declared(one)
        return result

    def _declared(self, node: Node) -> list[ast.stmt]:
        target, value = field(node, "name"), field(node, "value")
        if target is None or value is None:
            return []
        if target.type == "identifier" and value.type in FUNCTIONS:
            return [self._defined(value, text(target))]
        if target.type == "identifier" and value.type == "class":
            return self._class(value, text(target))
        if (module := required_module(value)) is not None:
            return self._imported(target, module, node)
        return self._assigned(target, self.expression(value), node)

    # Imports

    def _import(self, node: Node) -> list[ast.stmt]:
        source = field(node, "source")
        clause = next((one for one in named(node) if one.type == "import_clause"), None)
        if source is None or clause is None:
            return []
        module = module_name(string_text(source))
        result: list[ast.stmt] = []
        for one in named(clause):
            if one.type == "named_imports":
                aliases = [
                    ast.alias(text(field(each, "name")), text(field(each, "alias")) or None)
                    for each in named(one)
                    if each.type == "import_specifier"
                ]
                result += [at(ast.ImportFrom(module, aliases, 0), node)] if aliases else []
            elif one.type in ("identifier", "namespace_import"):
                local = text(one if one.type == "identifier" else first_named(one))
                result.append(at(ast.Import([ast.alias(module, local)]), node))
        return result

    def _imported(self, target: Node, module: str, node: Node) -> list[ast.stmt]:
        """`const { a, b: c } = require("module")`."""
        if target.type == "identifier":
            return [at(ast.Import([ast.alias(module_name(module), text(target))]), node)]
        aliases = [ast.alias(key, text(local)) for key, local, _ in self._pattern(target)]
        return [at(ast.ImportFrom(module_name(module), aliases, 0), node)] if aliases else []

    def _export(self, node: Node) -> list[ast.stmt]:
        declared = node.child_by_field_name("declaration")
        if declared is not None:
            label = field(declared, "name")
            default = label is not None and any(child.type == "default" for child in node.children)
            alias = [self._bound("default", name(text(label), node), node)] if default else []
            return [*self.statement(declared), *alias]
        value, source = field(node, "value"), field(node, "source")
        if value is not None:
            return [
                self._defined(value, "default")
                if value.type in FUNCTIONS
                else self._bound("default", self.expression(value), node)
            ]
        pairs = [
            (text(field(one, "name")), text(field(one, "alias")))
            for clause in named(node)
            if clause.type == "export_clause"
            for one in named(clause)
        ]
        if source is None:
            return [self._bound(alias, name(own, node), node) for own, alias in pairs if alias]
        aliases = [ast.alias(own, alias or None) for own, alias in pairs] or [ast.alias("*")]
        return [at(ast.ImportFrom(module_name(string_text(source)), aliases, 0), node)]

    @staticmethod
    def _bound(label: str, value: ast.expr, node: Node) -> ast.stmt:
        return at(ast.Assign([at(ast.Name(label, ast.Store()), node)], value), node)

    # What is done

    def _expression_statement(self, node: Node) -> list[ast.stmt]:
        one = first_named(node)
        if one is None:
            return []
        one = bare(one)
        if one.type == "assignment_expression":
            return self._assignment_statement(one, node)
        if one.type == "augmented_assignment_expression":
            return self._augmented(one, node)
        if one.type == "unary_expression":
            return []
        if one.type == "string":
            return []  # "use client"
        value = self.expression(one)
        if isinstance(value, ast.Call) and isinstance(value.func, KnownName) and value.func.written == "sort":
            return [at(ast.Assign([value.args[0]], value), node)]  # it sorts the list in place
        return [at(ast.Expr(value), node)]

    def _assignment_statement(self, one: Node, node: Node) -> list[ast.stmt]:
        target, value = field(one, "left"), field(one, "right")
        if target is None or value is None:
            return []
        if value.type in FUNCTIONS:
            label = text(field(target, "property")) if target.type == "member_expression" else text(target)
            return self._assigned(target, self.function_value(value, label), node)
        return self._assigned(target, self.expression(value), node)

    def _augmented(self, one: Node, node: Node) -> list[ast.stmt]:
        target, value = self.expression(field(one, "left")), self.expression(field(one, "right"))
        operator = text(one.child_by_field_name("operator"))
        if operator in ("??=", "||=", "&&="):
            return [at(ast.Assign([target], at(ast.BoolOp(ast.Or(), [target, value]), node)), node)]
        if not isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
            return []
        return [at(ast.AugAssign(target, ast.Add() if operator == "+=" else ast.Sub(), value), node)]

    def _if(self, node: Node) -> list[ast.stmt]:
        body, other = self.block(field(node, "consequence")), field(node, "alternative")
        test = self.expression(field(node, "condition"))
        return [at(ast.If(test, body, self.block(other)), node)]

    def _for(self, node: Node) -> list[ast.stmt]:
        start = field(node, "initializer")
        return [*(self.statement(start) if start is not None else ()), *self._while(node)]

    def _while(self, node: Node) -> list[ast.stmt]:
        test = self.expression(field(node, "condition"))
        return [at(ast.While(test, self.block(field(node, "body")), []), node)]

    def _for_each(self, node: Node) -> list[ast.stmt]:
        left = field(node, "left")
        over = self.expression(field(node, "right"))
        if left is None:
            return []
        target: ast.expr
        body: list[ast.stmt] = []
        if left.type == "object_pattern":
            target = at(ast.Name("item", ast.Store()), left)
            body = self._assigned(left, name("item", left), left)
        elif left.type == "array_pattern":
            names = [self._target(one) for one in named(left) if one.type == "identifier"]
            target = at(ast.Tuple(names, ast.Store()), left)
        else:
            target = at(ast.Name(text(left), ast.Store()), left)
        if text(node.child_by_field_name("operator")) == "in":
            over = method(over, "keys", [], node)
        return [at(ast.For(target, over, [*body, *self.block(field(node, "body"))], []), node)]

    def _try(self, node: Node) -> list[ast.stmt]:
        caught, last = field(node, "handler"), field(node, "finalizer")
        handlers = []
        if caught is not None:
            handlers.append(at(ast.ExceptHandler(None, None, self.block(field(caught, "body"))), caught))
        ended = self.block(field(last, "body")) if last is not None else []
        return [at(ast.Try(self.block(field(node, "body")), handlers, [], ended), node)]

    def _switch(self, node: Node) -> list[ast.stmt]:
        """Cases as the branches of one condition."""
        body = field(node, "body")
        subject = self.expression(field(node, "value"))
        rest: list[ast.stmt] = []
        for case in reversed([*named(body)] if body is not None else []):
            inside = self._all(one for one in case.children_by_field_name("body"))
            while inside and isinstance(inside[-1], _ENDS):
                inside.pop()
            if case.type == "switch_default":
                rest = inside
            elif inside:
                test = at(ast.Compare(subject, [ast.Eq()], [self.expression(field(case, "value"))]), case)
                rest = [at(ast.If(test, inside, rest), case)]
        return rest
