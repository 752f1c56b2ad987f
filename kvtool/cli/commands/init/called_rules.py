"""Which cache rules a service is rated by: the provider's of the models that its code calls, or vLLM's."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.accounting.caches.dated_rules import find_rule
from kvtool.accounting.caches.providers import PROVIDERS
from kvtool.lint.python.prompt_calls import PromptCall

_MOST = 4
"""Models named of one provider."""
_VLLM = "cache rules of vLLM"
_SET = "For a hosted API, set `provider` in kvtool.toml."


def rules_of_calls(calls: Iterable[PromptCall]) -> tuple[str, str]:
    """Return the provider whose rules all calls follow (empty: none, or not one), and a sentence on the rules that are used."""
    calls = list(calls)
    server = next((call for call in calls if call.own_server), None)
    if server is not None:
        return "", f"{_VLLM}: {server.path}:{server.line} sets the address of a server. {_SET}"
    sending = [call for call in calls if call.sends]
    named_by = {call.name for call in sending if call.model}
    unread = next((call for call in sending if not call.model and call.name not in named_by), None)
    if unread is not None:
        return "", f"{_VLLM}: kvtool cannot read which model {unread} calls. {_SET}"
    models: dict[str, list[str]] = {}
    for model in dict.fromkeys(call.model for call in sending if call.model):
        rule = find_rule(model, None, None)
        named = "" if rule is None else rule.rules.name.partition("-")[0]
        same = (each for each in PROVIDERS if each.name.partition("-")[0] == named)
        fitting = [
            each.name for each in same if rule and (each.minimum, each.keeps) == (rule.rules.minimum, rule.rules.keeps)
        ]
        models.setdefault(next(iter(fitting), ""), []).append(model)
    if not models:
        return "", ""
    if "" in models:
        return "", f"{_VLLM}: kvtool knows no provider's rules for {', '.join(models[''][:_MOST])}. {_SET}"
    if len(models) > 1:
        known = ", ".join(f"{name} ({', '.join(which[:_MOST])})" for name, which in models.items())
        least = min(each.minimum for each in PROVIDERS if each.name in models)
        return "", f"{_VLLM}: the code calls {known}. They cache from {least:,} tokens. {_SET}"
    (provider,) = models
    own = "For your own server: kvtool init --force --block-size 16."
    return provider, f"cache rules of {provider}: the code calls {', '.join(models[provider][:_MOST])}. {own}"
