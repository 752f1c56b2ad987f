"""The models that calls name, and the clients that get the address of a server."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from kvtool.lint.python.syntax import last_names

_BASE_URLS = ("base_url", "baseURL", "api_base")
_CLIENTS = ("openai", "anthropic", "genai", "litellm", "completion")
"""In the lower-case name of what takes a base URL where that is the address of a model's API, and not of some other service."""


def model_of(call: ast.Call, constants: dict[str, str]) -> str:
    """Return the model that a call names, itself, by a constant of its file or in a call (`openai("gpt-4.1")`); else nothing."""
    node = next((word.value for word in call.keywords if word.arg == "model"), None)
    if isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    if isinstance(node, ast.Name):
        return constants.get(node.id, "")
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def text_constants(tree: ast.Module) -> dict[str, str]:
    """Return the names at the top of a file that are one text."""
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def base_url_of(call: ast.Call, constants: dict[str, str]) -> str | None:
    """Return the address that a call gives a client of models, empty where it is not known; None where it gives none."""
    owner = ".".join(last_names(call.func)).lower()
    node = next((word.value for word in call.keywords if word.arg in _BASE_URLS), None)
    if node is None or not any(name in owner for name in _CLIENTS):
        return None
    if isinstance(node, ast.Name):
        return constants.get(node.id, "")
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def client_names(nodes: Iterable[ast.AST]) -> dict[ast.expr, str]:
    """Return by the expressions that are assigned to it the name of a variable or an attribute."""
    return {
        node.value: (last_names(target) or [""])[-1]
        for node in nodes
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }


def client_of(call: ast.Call, owners: int) -> str:
    """Return the name of the client that a call sends with, before so many `owners` of its method, or of what makes its model."""
    node = next((word.value for word in call.keywords if word.arg == "model"), None)
    if isinstance(node, ast.Call):
        return last_names(node.func)[0] if last_names(node.func) else ""
    parts = last_names(call.func)
    return parts[-owners - 2] if len(parts) > owners + 1 else ""
