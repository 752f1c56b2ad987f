"""Parts of declarations: parameters with their types, the classes that a class extends, and names of modules."""

from __future__ import annotations

import ast

from tree_sitter import Node

from kvtool.lint.python.imported_texts import OF_PROJECT
from kvtool.lint.typescript.translated_nodes import (
    FUNCTIONS,
    at,
    field,
    first_named,
    key_of,
    name,
    named,
    string_text,
    text,
)

SELF = "self"


def parts_of_parameter(node: Node) -> tuple[Node, Node | None, str]:
    """Return the pattern of a parameter, its default, and the name of its type."""
    if node.type in ("required_parameter", "optional_parameter"):
        pattern = field(node, "pattern")
        kind = node.child_by_field_name("type")
        declared = first_named(kind) if kind is not None else None
        plain = declared is not None and declared.type in ("predefined_type", "type_identifier")
        return pattern if pattern is not None else node, field(node, "value"), text(declared) if plain else ""
    if node.type == "assignment_pattern":
        left = field(node, "left")
        return left if left is not None else node, field(node, "right"), ""
    return node, None, ""


def bases_of(node: Node) -> list[Node]:
    """Return the classes that a class extends."""
    heritage = next((one for one in node.children if one.type == "class_heritage"), None)
    if heritage is None:
        return []
    clause = first_named(heritage)
    if clause is not None and clause.type == "extends_clause":
        clause = field(clause, "value")
    return [clause] if clause is not None and clause.type in ("identifier", "member_expression") else []


def kept_parameters(node: Node) -> list[ast.stmt]:
    """`constructor(private store: Store)`: the parameter is an attribute at once."""
    given = node.child_by_field_name("parameters")
    result: list[ast.stmt] = []
    for one in named(given) if given is not None else ():
        if not any(child.type in ("accessibility_modifier", "readonly") for child in one.children):
            continue
        label = text(field(one, "pattern"))
        target = at(ast.Attribute(name(SELF, one), label, ast.Store()), one)
        result.append(at(ast.Assign([target], name(label, one)), one))
    return result


def required_module(value: Node) -> str | None:
    """Return the module of `require("module")`; None for anything else."""
    if value.type != "call_expression" or text(field(value, "function")) != "require":
        return None
    given = value.child_by_field_name("arguments")
    one = first_named(given) if given is not None else None
    return string_text(one) if one is not None and one.type == "string" else None


def module_name(source: str) -> str:
    """A module's name, without what a dotted name cannot hold: `@ai-sdk/openai` is `ai-sdk/openai`. Of a file it is the path."""
    if source.startswith(OF_PROJECT):
        return source
    return source.removeprefix("node:").lstrip("@./").replace(".", "_") or "_"


_NAMED_VALUES = {"variable_declarator": "name", "pair": "key", "public_field_definition": "name"}
"""Nodes that give a function a name, and the field of the name."""


def functions_taking_objects(root: Node) -> set[str]:
    """Return the names of functions that take an object as one parameter; those that take its parts are called by keyword."""
    found: set[str] = set()
    parts: set[str] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.named_children
        label = ""
        function = node
        if node.type in ("function_declaration", "method_definition", "generator_function_declaration"):
            label = text(field(node, "name"))
        elif (key := _NAMED_VALUES.get(node.type)) and (value := field(node, "value")) is not None:
            label, function = (key_of(node.child_by_field_name(key)), value) if value.type in FUNCTIONS else ("", node)
        if not label:
            continue
        given = function.child_by_field_name("parameters")
        patterns = [parts_of_parameter(one)[0].type for one in named(given)] if given is not None else []
        (parts if "object_pattern" in patterns else found).add(label)
    return found - parts
