"""The models that calls name, and the clients that get the address of a server."""

from __future__ import annotations

import ast

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


def takes_base_url(call: ast.Call) -> bool:
    """Return whether a call gives a client of models the address of a server."""
    owner = ".".join(last_names(call.func)).lower()
    return any(word.arg in _BASE_URLS for word in call.keywords) and any(name in owner for name in _CLIENTS)
