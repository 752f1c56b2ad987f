"""Which cache rules a service is rated by: for each prompt the provider's of the model that gets it, or vLLM's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from kvtool.accounting.caches.dated_rules import find_rule
from kvtool.accounting.caches.providers import PROVIDERS
from kvtool.lint.python.prompt_calls import PromptCall

_MOST = 4
"""Models named of one provider."""
_VLLM = "cache rules of vLLM"
_SET = "For a hosted API, set `provider` in kvtool.toml."
_HOSTS = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
    "aiplatform.googleapis.com": "gemini",
    "api.deepseek.com": "deepseek",
    "openrouter.ai": "",
}
"""Providers by the hosts of their APIs; empty for one that hands requests on to the maker of the model."""


@dataclass(frozen=True, slots=True)
class CalledRules:
    """The provider whose rules all calls follow (empty: none, or not one), a sentence on that, and the provider of each call."""

    provider: str = ""
    sentence: str = ""
    providers: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """By file and line of a call."""
    models: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def of_files(self, files: Iterable[str]) -> str | None:
        """Return the provider that all calls in some files follow; None where there are none, or several providers."""
        wanted = set(files)
        found = {name for (path, _), name in self.providers.items() if path in wanted}
        return found.pop() if len(found) == 1 else None

    def sentence_on(self, workloads: Mapping[str, str]) -> str:
        """Return the sentence on the rules of these workloads, each by the name of its provider."""
        if len(workloads) < 2:
            name = next(iter(workloads), self.provider)
            if name == self.provider:
                return self.sentence
            return f"cache rules of {_with_models(self.models, name)}, which gets all prompts that kvtool found."
        each = [f"{_with_models(self.models, name)} in {file}" for name, file in workloads.items() if name]
        if "" in workloads:
            each.append(f"vLLM in {workloads['']} (kvtool knows no hosted model that gets these prompts)")
        return f"cache rules: {'; '.join(each)}."


def rules_of_calls(calls: Iterable[PromptCall]) -> CalledRules:
    """Return the rules by which the prompts of these calls are cached."""
    calls = list(calls)
    servers = [call for call in calls if call.base_url is not None]
    sending = [call for call in calls if call.sends]
    models: dict[str, list[str]] = {}
    providers: dict[tuple[str, int], str] = {}
    why = ""
    named_by = {call.name: call for call in sending if call.model}
    for call in sending:
        server = _server_of(call, servers, sending)
        model = call.model or (named_by[call.name].model if call.name in named_by else "")
        host = None if server is None else _host_of(server)
        name = ""
        if server is not None and host is None:
            why = why or f"{server.path}:{server.line} sets the address of a server"
        elif model or host:
            name = _provider_of(model, host or None)
            why = why or ("" if name else f"kvtool knows no provider's rules for {model or _address_of(server)}")
        else:
            why = f"kvtool cannot read which model {call} calls"
        providers[call.path, call.line] = name
        if model and model not in models.setdefault(name, []):
            models[name].append(model)
    if not sending:
        own = next((each for each in servers if _host_of(each) is None), None)
        said = f"{_VLLM}: {own.path}:{own.line} sets the address of a server. {_SET}" if own is not None else ""
        return CalledRules(sentence=said)
    names = dict.fromkeys(providers.values())
    if why:
        return CalledRules("", f"{_VLLM}: {why}. {_SET}", providers, models)
    if len(names) > 1:
        known = ", ".join(_with_models(models, name) for name in names)
        least = min(each.minimum for each in PROVIDERS if each.name in names)
        said = f"{_VLLM}: the code calls {known}. They cache from {least:,} tokens. {_SET}"
        return CalledRules("", said, providers, models)
    (provider,) = names
    own_server = "For your own server: kvtool init --force --block-size 16."
    called = ", ".join(models.get(provider, ())[:_MOST]) or "its API"
    return CalledRules(provider, f"cache rules of {provider}: the code calls {called}. {own_server}", providers, models)


def _server_of(call: PromptCall, servers: Sequence[PromptCall], sending: Sequence[PromptCall]) -> PromptCall | None:
    """Return the call that gives the address to which another one sends: itself, its client's, or that of an unknown client."""
    if call.base_url is not None:
        return call
    clients = [each for each in servers if not each.sends]
    alike = [each for each in clients if each.client and each.client == call.client]
    used = {each.client for each in sending}
    unused = [each for each in clients if each.client not in used]
    for found in (alike, unused):
        here = [each for each in found if each.path == call.path]
        if here or found:
            return (here or found)[0]
    return None


def _host_of(server: PromptCall) -> str | None:
    """Return the provider that an address names, empty for one that hands requests on; None for any other server."""
    host = urlsplit(server.base_url or "").hostname or ""
    return next((name for known, name in _HOSTS.items() if f".{host}".endswith(f".{known}")), None)


def _address_of(server: PromptCall | None) -> str:
    """Return the host of an address."""
    return "" if server is None else urlsplit(server.base_url or "").hostname or ""


def _provider_of(model: str, host: str | None) -> str:
    """Return the provider by whose rules a model at a host is cached; empty where none is known."""
    for provider in (host, None) if host else (None,):
        rule = find_rule(model, provider, None)
        named = "" if rule is None else rule.rules.name.partition("-")[0]
        for each in PROVIDERS:
            if (
                rule is not None
                and each.name.partition("-")[0] == named
                and (each.minimum, each.keeps) == (rule.rules.minimum, rule.rules.keeps)
            ):
                return each.name
    bare = model.partition("/")[2]
    return _provider_of(bare, None) if bare else host or ""


def _with_models(models: Mapping[str, Sequence[str]], provider: str) -> str:
    """Return a provider with the models of it that the code calls."""
    return f"{provider} ({', '.join(models.get(provider, ())[:_MOST])})"
