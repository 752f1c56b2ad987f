"""Expressions of JavaScript as those of Python: template literals are f-strings, objects are mappings or keywords."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable

from tree_sitter import Node

from kvtool.lint.python.expressions import ROLES
from kvtool.lint.python.syntax import dotted
from kvtool.lint.typescript.calls import DEDENTS, argument_nodes, day_of, known_call, known_method, made, tag_of
from kvtool.lint.typescript.translated_nodes import (
    FUNCTIONS,
    at,
    bare,
    call,
    constant,
    field,
    first_named,
    key_of,
    known_name,
    method,
    name,
    named,
    regex_text,
    string_text,
    text,
    unescaped,
)

_BOOLEAN = {"&&": ast.And(), "||": ast.Or(), "??": ast.Or()}
_ARITHMETIC: dict[str, ast.operator] = {
    "-": ast.Sub(),
    "*": ast.Mult(),
    "/": ast.Div(),
    "%": ast.FloorDiv(),
    "**": ast.Pow(),
}
_COMPARED: dict[str, ast.cmpop] = {"<": ast.Lt(), ">": ast.Gt(), "<=": ast.LtE(), ">=": ast.GtE(), "!==": ast.NotEq()}
_CONSTANTS = {"true": True, "false": False, "null": None, "undefined": None}
CALLBACK = "callback"
"""What a function is called that is written where it is handed on; others are called by what they are a value of."""
_TAKE_OBJECTS = ("JSON.", "Object.", "structuredClone")
"""Calls that are given an object, not its parts."""
_OWN = {"this": "self", "super": "super"}


class JavaScriptExpressions(ABC):
    """Makes Python expressions of tree-sitter's nodes; functions with a body become statements before them."""

    def __init__(self) -> None:
        self.fields: dict[ast.JoinedStr, list[Node]] = {}
        """The nodes in the braces of each template literal, for their places."""
        self.taking_objects: set[str] = set()
        """Functions of the file that take an object as it is, not its parts."""
        self._readers: dict[str, Callable[[Node], ast.expr]] = {
            "identifier": self._identifier,
            "shorthand_property_identifier": self._identifier,
            "property_identifier": self._identifier,
            "string": lambda node: constant(string_text(node), node),
            "number": self._number,
            "regex": self._regex,
            "template_string": self._template,
            "binary_expression": self._binary,
            "member_expression": self._member,
            "subscript_expression": self._subscript,
            "call_expression": self._call,
            "new_expression": self._new,
            "object": self._object,
            "array": self._array,
            "ternary_expression": self._ternary,
            "await_expression": self._await,
            "spread_element": self._spread,
            "assignment_expression": self._assignment,
            "sequence_expression": lambda node: self.expression([*named(node)][-1]),
            "unary_expression": self._unary,
            "arrow_function": self._function,
            "function_expression": self._function,
            "generator_function": self._function,
            "yield_expression": self._yield,
            "class": self.class_value,
        }

    @abstractmethod
    def function_value(self, node: Node, label: str) -> ast.expr:
        """Return a function as a value: a lambda, or the name of a function that is defined before it."""

    @abstractmethod
    def class_value(self, node: Node) -> ast.expr:
        """Return a class as a value: the name of one that is defined before it."""

    @abstractmethod
    def arguments_of(self, node: Node) -> tuple[ast.arguments, list[ast.stmt]]:
        """Return the parameters of a function, and the statements that give parts of them their names."""

    def expression(self, node: Node | None) -> ast.expr:
        """Return the Python expression for a node; nothing known for one that holds no text."""
        if node is None:
            return ast.Constant(None, lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
        node = bare(node)
        reader = self._readers.get(node.type)
        if reader is not None:
            return reader(node)
        if node.type in _OWN:
            return name(_OWN[node.type], node)
        return constant(_CONSTANTS.get(node.type), node)

    def _identifier(self, node: Node) -> ast.expr:
        written = text(node)
        return constant(None, node) if written in _CONSTANTS else name(written, node)

    @staticmethod
    def _number(node: Node) -> ast.expr:
        try:
            return constant(int(text(node).replace("_", ""), 0), node)
        except ValueError:
            return constant(0.5, node)  # no whole number: all that counts is that it is one

    @staticmethod
    def _regex(node: Node) -> ast.expr:
        found = regex_text(text(node.child_by_field_name("pattern")))
        return constant(found, node) if found else constant(None, node)

    def _template(self, node: Node) -> ast.expr:
        if not any(child.type == "template_substitution" for child in node.children):
            return constant(string_text(node), node)
        values: list[ast.expr] = []
        fields: list[Node] = []
        for child in node.children:
            if child.type == "template_substitution":
                value = ast.FormattedValue(self.expression(first_named(child)), -1, None)
                values.append(at(value, child))
                fields.append(child)
            elif child.type in ("string_fragment", "escape_sequence"):
                written = text(child) if child.type == "string_fragment" else unescaped(text(child))
                if values and isinstance(values[-1], ast.Constant):
                    values[-1].value = f"{values[-1].value!s}{written}"
                else:
                    values.append(constant(written, child))
        made_of = at(ast.JoinedStr(values), node)
        self.fields[made_of] = fields
        return made_of

    def _binary(self, node: Node) -> ast.expr:
        operator = text(node.child_by_field_name("operator"))
        if operator == "+":
            return self._sum(node)
        left, right = self.expression(field(node, "left")), self.expression(field(node, "right"))
        if operator in _BOOLEAN:
            return at(ast.BoolOp(_BOOLEAN[operator], [left, right]), node)
        if operator in _ARITHMETIC:
            return at(ast.BinOp(left, _ARITHMETIC[operator], right), node)
        return at(ast.Compare(left, [_COMPARED.get(operator, ast.Eq())], [right]), node)

    def _sum(self, node: Node) -> ast.expr:
        """Sums of many terms, without a call for each of them."""
        terms: list[Node] = []
        side: Node | None = node
        while side is not None and side.type == "binary_expression" and text(field(side, "operator")) == "+":
            terms.append(side)
            side = field(side, "left")
        total = self.expression(side)
        for one in reversed(terms):
            total = at(ast.BinOp(total, ast.Add(), self.expression(field(one, "right"))), one)
        return total

    def _member(self, node: Node) -> ast.expr:
        attribute = text(field(node, "property")).removeprefix("#")
        if attribute == "length":
            return call(known_name("len", attribute, node), [self.expression(field(node, "object"))], node)
        return at(ast.Attribute(self.expression(field(node, "object")), attribute, ast.Load()), node)

    def _subscript(self, node: Node) -> ast.expr:
        if (day := day_of(node)) is not None:
            return method(self.expression(day), "date", [], node)
        index = self.expression(field(node, "index"))
        return at(ast.Subscript(self.expression(field(node, "object")), index, ast.Load()), node)

    def _call(self, node: Node) -> ast.expr:
        if (day := day_of(node)) is not None:
            return method(self.expression(day), "date", [], node)
        function = field(node, "function")
        given = argument_nodes(node)
        if node.child_by_field_name("arguments") is not None and not given:
            tagged = node.child_by_field_name("arguments")
            if tagged is not None and tagged.type == "template_string":
                return self._tagged(node, tagged)
        if function is None or function.type == "import":
            return constant(None, node)
        called = self.expression(function)
        written = dotted(called)
        own = written.rpartition(".")[2] in self.taking_objects or written.startswith(_TAKE_OBJECTS)
        objects = [] if own else [one for one in map(bare, given) if one.type == "object"]
        words = self._keywords(objects[0]) if objects else []
        positional = [self._argument(one) for one in given if not objects or bare(one) not in objects]
        if (known := known_call(written, positional, given, node)) is not None:
            return known
        if isinstance(called, ast.Attribute) and not words and not own:
            return known_method(called.value, called.attr, positional, given, node)
        if isinstance(called, ast.Attribute) and called.attr in (
            "toLocaleString",
            "toLocaleDateString",
            "push",
            "unshift",
        ):
            return known_method(called.value, called.attr, [self.expression(one) for one in given], given, node)
        return at(ast.Call(called, positional, words), node)

    def _argument(self, node: Node) -> ast.expr:
        return self.function_value(bare(node), CALLBACK) if bare(node).type in FUNCTIONS else self.expression(node)

    def _tagged(self, node: Node, template: Node) -> ast.expr:
        """A template with a tag: one that changes the white space only is the text."""
        function = self.expression(field(node, "function"))
        value = self._template(template)
        return value if tag_of(function) in DEDENTS else call(function, [value], node)

    def _new(self, node: Node) -> ast.expr:
        constructor = self.expression(field(node, "constructor"))
        written = dotted(constructor)
        given = argument_nodes(node)
        objects = [one for one in map(bare, given) if one.type == "object"]
        words = self._keywords(objects[0]) if objects else []
        positional = [self._argument(one) for one in given if bare(one) not in objects]
        known = made(written, positional, node)
        return known if known is not None else at(ast.Call(constructor, positional, words), node)

    def _keywords(self, node: Node) -> list[ast.keyword]:
        """Return the parts of an object as keywords: that is how both languages give a call what it needs."""
        words: list[ast.keyword] = []
        for child, key, value in self._pairs(node):
            if key != "":
                words.append(at(ast.keyword(key, value), child))
        return words

    def _pairs(self, node: Node) -> list[tuple[Node, str | None, ast.expr]]:
        """Return each part of an object with its key: None for `...others`, empty for one that is computed."""
        result: list[tuple[Node, str | None, ast.expr]] = []
        for child in named(node):
            if child.type == "pair":
                key = key_of(child.child_by_field_name("key"))
                value = field(child, "value")
                function = value is not None and value.type in FUNCTIONS
                result.append(
                    (child, key, self.function_value(value, key) if function and value else self.expression(value))
                )
            elif child.type == "spread_element":
                result.append((child, None, self.expression(first_named(child))))
            elif child.type == "method_definition":
                key = key_of(child.child_by_field_name("name"))
                result.append((child, key, self.function_value(child, key)))
            else:
                result.append((child, text(child), self.expression(child)))
        return result

    def _object(self, node: Node) -> ast.expr:
        keys: list[ast.expr | None] = []
        values: list[ast.expr] = []
        for child, key, value in self._pairs(node):
            keys.append(None if key is None else constant(key or None, child))
            values.append(value)
        return at(ast.Dict(keys, values), node)

    def _array(self, node: Node) -> ast.expr:
        elements = [self._argument(one) for one in named(node)]
        if len(elements) == 2 and isinstance(first := elements[0], ast.Constant) and first.value in ROLES:
            return at(ast.Tuple(elements, ast.Load()), node)  # a message: `["system", text]`
        return at(ast.List(elements, ast.Load()), node)

    def _ternary(self, node: Node) -> ast.expr:
        test = self.expression(field(node, "condition"))
        body, other = self.expression(field(node, "consequence")), self.expression(field(node, "alternative"))
        return at(ast.IfExp(test, body, other), node)

    def _await(self, node: Node) -> ast.expr:
        return at(ast.Await(self.expression(first_named(node))), node)

    def _spread(self, node: Node) -> ast.expr:
        return at(ast.Starred(self.expression(first_named(node)), ast.Load()), node)

    def _assignment(self, node: Node) -> ast.expr:
        target, value = self.expression(field(node, "left")), self.expression(field(node, "right"))
        return at(ast.NamedExpr(target, value), node) if isinstance(target, ast.Name) else value

    def _unary(self, node: Node) -> ast.expr:
        operand = self.expression(field(node, "argument"))
        if text(node.child_by_field_name("operator")) == "-":
            return at(ast.UnaryOp(ast.USub(), operand), node)
        return at(ast.UnaryOp(ast.Not(), operand), node)

    def _yield(self, node: Node) -> ast.expr:
        return at(ast.Yield(self.expression(first_named(node))), node)

    def _function(self, node: Node) -> ast.expr:
        return self.function_value(node, CALLBACK)
