"""Find a model's API and its name there, from any name in a log: with prefixes of routers, regions, dates."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_PROVIDERS = {
    "openai": ("openai", "open_ai", "openai_responses", "chatgpt"),
    "azure": ("azure", "azure_openai", "azure_ai", "az.ai.openai", "az.ai.inference", "azure.ai.openai"),
    "anthropic": ("anthropic", "claude"),
    "bedrock": ("bedrock", "aws_bedrock", "amazon_bedrock", "aws.bedrock", "bedrock_converse", "converse"),
    "vertex": ("vertex", "vertex_ai", "google_vertex", "gcp.vertex_ai", "vertexai"),
    "gemini": ("gemini", "google", "google_ai_studio", "gcp.gemini", "gcp.gen_ai", "google_genai", "google_gla"),
    "deepseek": ("deepseek",),
    "groq": ("groq",),
    "xai": ("xai", "x_ai", "grok"),
    "mistral": ("mistral", "mistralai", "mistral_ai"),
    "fireworks": ("fireworks", "fireworks_ai"),
    "moonshot": ("moonshot", "moonshotai", "kimi"),
    "openrouter": ("openrouter",),
    "together": ("together", "together_ai"),
}
"""Names of providers as logs write them, in small letters with underlines, by our own."""
_OURS = {name: ours for ours, names in _PROVIDERS.items() for name in names}

_OWN_NAMES = (
    ("openai", re.compile(r"(?:chatgpt-|gpt-(?:3\.5|4|5|6|7)|o[134](?:-|$))")),
    ("anthropic", re.compile(r"claude-")),
    ("gemini", re.compile(r"gemini-")),
    ("deepseek", re.compile(r"deepseek-(?:chat|reasoner|flash|pro)(?:-|$)")),
    ("xai", re.compile(r"grok-\d")),
    ("mistral", re.compile(r"(?:mistral|codestral|magistral|devstral|ministral|pixtral)-[a-z0-9-]*latest$")),
    ("moonshot", re.compile(r"kimi-k3(?:-|$)")),
)
"""Beginnings of names that a provider gives to models of its own API. Names of open weights have no provider."""

_REGION = re.compile(r"^(?:(?:us|eu|apac|jp|au|in|global|regional)(?:-gov)?\.)+")
_RELEASE = re.compile(r"(?:-v\d+(?::\d+)?|@\d{8}|@default|-20\d{6}|-20\d\d-\d\d-\d\d|:[a-z-]+)$")
_BEDROCK = ("anthropic.", "amazon.", "openai.", "deepseek.", "mistral.", "meta.", "moonshot.")


class HostedModel(NamedTuple):
    """A model of an API. `name` has no date of a release; `provider` is "" if unknown."""

    provider: str
    name: str


@lru_cache(maxsize=4096)
def hosted_model(model: str, provider: str | None = None) -> HostedModel:
    """Return the model of a request. `provider` comes from the log; else the model's prefix or name decides."""
    said = _OURS.get(re.sub(r"[\s-]+", "_", (provider or "").strip().lower()), "")
    name = model.strip().lower().removeprefix("models/")
    route = ""
    while "/" in name:
        before, rest = name.split("/", 1)
        route = _OURS.get(before.replace("-", "_"), route) or route
        name = rest.rsplit("/", 1)[-1] if before in ("publishers", "accounts", "projects") else rest
    bare = _REGION.sub("", name)
    if bare.startswith(_BEDROCK):
        route, name = route or "bedrock", bare.split(".", 1)[1]
    while (shorter := _RELEASE.sub("", name)) != name and shorter:
        name = shorter
    if name.startswith("claude-"):
        name = re.sub(r"(?<=\d)\.(?=\d)", "-", name)
    own = next((ours for ours, names in _OWN_NAMES if names.match(name)), "")
    if said in ("", "openai") and route == "" and own and "/" in model:
        route = own
    found = said or route or own
    if found == "openai" and own not in ("", "openai"):
        found = own  # a client of OpenAI's form with another provider
    if found == "openai" and own == "":
        found = ""  # open weights under their maker's name, or on a server of the same form
    return HostedModel(found, name)
