"""Which prompt cache the code of a service meets: the provider's of the models that it calls, or that of an own server."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvtool.lint.python.syntax import last_names

if TYPE_CHECKING:
    from kvtool.lint.python.prompt_calls import PromptCall

_BASE_URLS = ("base_url", "baseURL", "api_base")
_CLIENTS = ("openai", "anthropic", "genai", "litellm", "completion")
"""In the lower-case name of what takes a base URL where that is the address of a model's API, and not of some other service."""
_MOST = 4


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


def rules_of_calls(calls: Iterable[PromptCall]) -> tuple[str, str]:
    """Return the provider whose rules all calls follow (empty: none, or not one), and a sentence on the rules that are used."""
    from kvtool.accounting.caches.dated_rules import find_rule
    from kvtool.accounting.caches.providers import PROVIDERS

    calls = list(calls)
    server = next((call for call in calls if call.own_server), None)
    if server is not None:
        return "", f"{_VLLM}: {server.path}:{server.line} sets the address of a server. {_SET}"
    models: dict[str, list[str]] = {}
    for model in dict.fromkeys(call.model for call in calls if call.sends):
        rule = find_rule(model, None, None) if model else None
        named = "" if rule is None else rule.rules.name.partition("-")[0]
        same = (each for each in PROVIDERS if each.name.partition("-")[0] == named)
        fitting = [
            each.name for each in same if rule and (each.minimum, each.keeps) == (rule.rules.minimum, rule.rules.keeps)
        ]
        models.setdefault(next(iter(fitting), ""), []).append(model)
    if not models:
        return "", ""
    unnamed = [model for model in models.pop("", []) if model]
    if unnamed or not models:
        what = f"of {', '.join(unnamed[:_MOST])}" if unnamed else "of the models that the code calls"
        return "", f"{_VLLM}: kvtool does not know the cache rules {what}. {_SET}"
    if len(models) > 1:
        known = ", ".join(f"{name} ({', '.join(which[:_MOST])})" for name, which in models.items())
        least = min(each.minimum for each in PROVIDERS if each.name in models)
        return "", f"{_VLLM}: the code calls {known}. They cache from {least:,} tokens. {_SET}"
    (provider,) = models
    own = "For your own server: kvtool init --force --block-size 16."
    return provider, f"cache rules of {provider}: the code calls {', '.join(models[provider][:_MOST])}. {own}"


_VLLM = "cache rules of vLLM"
_SET = "For a hosted API, set `provider` in kvtool.toml."
