"""How Python code renders template files: the constants that it passes, and the role of the message that it makes of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

_LOADS = ("get_template", "render_template", "select_template")
"""Calls whose first argument is the name of a template file (Jinja, Flask)."""
_RENDERS = ("render", "render_async", "render_template")
_MOST_CONSTANTS = 20
Constant = str | int | float | bool
ValueKind = Literal["clock", "date", "id", "counter", "constant"]
"""What code says of a value that differs from call to call, or never."""


@dataclass(slots=True)
class TemplateCalls:
    """What the calls say that render one template.

    `constants`: by the path of a value (`agent.name`) all constants that are passed, None where a call passes something else.
    `roles`: of the messages that have the text in them.
    """

    constants: dict[str, list[Constant] | None] = field(default_factory=dict)
    roles: set[str] = field(default_factory=set)
    kinds: dict[str, ValueKind] = field(default_factory=dict)
    """Kinds of values of which code says it, by path."""

    def add(self, constants: Mapping[str, Constant | None], role: str | None) -> None:
        """Add what one call says."""
        if role is not None:
            self.roles.add(role)
        for path, constant in constants.items():
            known = self.constants.setdefault(path, [])
            if constant is None or known is None or len(known) >= _MOST_CONSTANTS:
                self.constants[path] = None
            elif constant not in known:
                known.append(constant)


def template_calls(text: str, found: dict[str, TemplateCalls]) -> None:
    """Add the calls in a Python file to `found`, by the name of the template. A file that does not parse has none."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    loaded = dict(_loaded(ast.walk(tree)))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    seen: set[int] = set()
    for scope in (*reversed(functions), tree):  # inner functions before those around them
        nodes = [node for node in ast.walk(scope) if id(node) not in seen]
        seen.update(map(id, nodes))
        _add_calls(nodes, loaded, found)


def _add_calls(nodes: Sequence[ast.AST], loaded: Mapping[str, str], found: dict[str, TemplateCalls]) -> None:
    """Add the calls of one function, or of the code outside of functions."""
    of_calls: dict[int, str] = {}
    of_names: dict[str, set[str]] = {}
    for role, content in _messages(nodes):
        for part in ast.walk(content):
            if isinstance(part, ast.Call):
                of_calls[id(part)] = role
            elif isinstance(part, ast.Name):
                of_names.setdefault(part.id, set()).add(role)
    assigned = {id(node.value): node.targets[0] for node in nodes if isinstance(node, ast.Assign)}
    for node in nodes:
        name = _template_of(node, loaded)
        if name is None or not isinstance(node, ast.Call):
            continue
        target = assigned.get(id(node))
        roles = of_names.get(target.id, set()) if isinstance(target, ast.Name) else set()
        given = of_calls.get(id(node)) or (next(iter(roles)) if len(roles) == 1 else None)
        constants = {path: one for word in node.keywords if word.arg for path, one in _constants(word.arg, word.value)}
        found.setdefault(name, TemplateCalls()).add(constants, given)


def _loaded(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield variables that a template is assigned to, and its name."""
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = _name_loaded(node.value)
            if name is not None:
                yield node.targets[0].id, name


def _name_loaded(node: ast.AST) -> str | None:
    if isinstance(node, ast.Await):
        node = node.value
    if not (isinstance(node, ast.Call) and _called(node) in _LOADS and node.args):
        return None
    first = node.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _template_of(node: ast.AST, loaded: Mapping[str, str]) -> str | None:
    """Return the name of the template that a call renders; None for all else."""
    if not (isinstance(node, ast.Call) and _called(node) in _RENDERS):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr != "render_template":
        base = node.func.value
        return loaded.get(base.id) if isinstance(base, ast.Name) else _name_loaded(base)
    return _name_loaded(node)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _messages(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the role and the content of each message that is written as a mapping."""
    for node in nodes:
        if not isinstance(node, ast.Dict):
            continue
        pairs = {
            key.value: value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)
        }
        role, content = pairs.get("role"), pairs.get("content")
        if isinstance(role, ast.Constant) and isinstance(role.value, str) and content is not None:
            yield role.value, content


def _constants(path: str, node: ast.expr) -> Iterator[tuple[str, Constant | None]]:
    """Yield the paths below a value, each with its constant; None where it is something else."""
    keys = [getattr(key, "value", None) for key in node.keys] if isinstance(node, ast.Dict) else []
    if isinstance(node, ast.Dict) and all(isinstance(key, str) for key in keys):
        for key, value in zip(keys, node.values, strict=True):
            yield from _constants(f"{path}.{key}", value)
    else:
        constant = node.value if isinstance(node, ast.Constant) else None
        yield path, constant if isinstance(constant, str | int | float) else None
