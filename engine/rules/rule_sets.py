"""The rule sets by name; each is imported on demand."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import AnyRuleSet, RuleSet

_HOMES = {
    "vllm": ("vllm", "VLLM"),
    "sglang": ("sglang", "SGLANG"),
    "trtllm": ("trtllm", "TRTLLM"),
    "llamacpp": ("llama_cpp_set", "LLAMA_CPP"),
}
"""Modules and the rule set in each, in the order of tables."""


def rule_set_names() -> tuple[str, ...]:
    """Return the names that `--rules` takes."""
    return tuple(_HOMES)


def find_rule_set(name: str) -> AnyRuleSet:
    """Return the rule set of a name; EngineError where there is none."""
    if name not in _HOMES:
        close = get_close_matches(name, _HOMES, n=1)
        hint = f"did you mean {close[0]}?" if close else f"use one of {', '.join(_HOMES)}"
        raise EngineError(f"unknown rules `{name}`", hint=hint)
    module, constant = _HOMES[name]
    found = getattr(import_module(f"{__package__}.{module}"), constant)
    assert isinstance(found, RuleSet), "a rule set"
    assert found.name == name, "under its own name"
    return found
