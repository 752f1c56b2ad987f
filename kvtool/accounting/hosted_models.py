"""Find a model's API and its names there, from any name in a log: with prefixes of routers, regions, dates, fine-tunes."""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from kvtool.workload.call import Call

_TABLE = tomllib.loads(files(__package__).joinpath("hosted_providers.toml").read_text(encoding="utf-8"))
_OURS = {name: ours for ours, names in _TABLE["names"].items() for name in (ours, *names)}
_OURS |= {name: name for name in _TABLE["others"]["names"]}
"""kvtool's names of providers by those that logs write."""

_OWN_NAMES = (
    ("openai", re.compile(r"(?:chatgpt-|codex-mini|gpt-(?:3\.5|4|5|6|7)|o[134](?:-|$))")),
    ("anthropic", re.compile(r"claude-")),
    ("gemini", re.compile(r"gemini-")),
    ("deepseek", re.compile(r"deepseek-(?:chat|coder|reasoner|(?:v\d+(?:\.\d+)?-)?(?:flash|pro))(?:-|$)")),
    ("xai", re.compile(r"grok-(?:\d|code|build|beta)")),
    ("mistral", re.compile(r"(?:mistral|codestral|magistral|devstral|ministral|pixtral)-[a-z0-9-]*latest$")),
    ("moonshot", re.compile(r"kimi-(?:k[23]|latest|for-coding)")),
    ("qwen", re.compile(r"(?:qwen[\d.]*|qwq|qvq)-(?:(?:vl|omni|coder|math|mt)-)?(?:max|plus|turbo|flash|long)(?:-|$)")),
    ("zai", re.compile(r"glm-\d")),
    ("minimax", re.compile(r"minimax-(?:m|text-)\d")),
)
"""Beginnings of names that a provider gives to models of its own API. Names of open weights have no provider."""
_WEIGHTS = ("deepseek-ai/", "zai-org/", "MiniMaxAI/", "THUDM/")
"""Makers' names before their open weights, which may run anywhere."""
_WEIGHTS_IN_CAPITALS = re.compile(r"(?:Qwen|moonshotai|mistralai)/[A-Z]")
"""The same for makers whose API has models of that prefix, too, in small letters."""

_BEDROCK = re.compile(
    r"((?:[a-z]{2,8}(?:-gov)?\.)*)"
    r"(?:ai21|amazon|anthropic|arcee|cohere|deepseek|google|meta|minimax|mistral|moonshot|moonshotai|nvidia|openai|qwen|writer|xai|zai)"
    r"\.(?=[a-z])"
)
_AREA = re.compile(
    r"(?:us|eu|apac|global|global-standard|datazone|claude_platform|(?:us-gov|[a-z]{2})-[a-z]+(?:-\d)?)$"
)
"""A region that is a part of a path of names."""
_RELEASE = re.compile(
    r"(?:-v\d+:\d+|(?<=20\d{6})-v\d+|@\d{8}|@default|-20\d{6}|-20\d\d-\d\d-\d\d|-00\d|:(?!free$)[a-z-]+|\[\w+\])$"
)
"""Revisions, dates, the variants of OpenRouter, and the context window that Claude Code writes in brackets."""
_AMAZON_REVISION = re.compile(r"-v\d+$")
"""A revision on Amazon's APIs; elsewhere `-v3` is a part of a model's name."""
_CLAUDE = re.compile(r"claude-([4-9](?:-\d)?)-(opus|sonnet|haiku|fable|mythos)(?=-|$)")
_OWN_WEIGHTS = re.compile(
    r":(?:latest$|\d+(?:\.\d+)?[bm](?:-|$)|.*-q\d_)|[-.]gguf(?:$|[/:@])|[-.]q\d_[\w]+$|[-_]mlx\b|\bmlx-"
)
_DEPLOYED = re.compile(r"(?:.*?[-_.])?((?:gpt-?\d|chatgpt-|o[134](?:-|$)).*)")


class HostedModel(NamedTuple):
    """A model of an API. `name` has no date of a release; `provider` is "" if unknown."""

    provider: str
    name: str


class SoldModel(NamedTuple):
    """A model of an API by the names under which it may have a price. A region or a fine-tune is part of each."""

    provider: str
    dated: str
    """The name with the date of its release, if there is one."""
    bare: str
    deployed: tuple[str, ...] = ()
    """Models that an Azure deployment may be named after, the longest name first."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names, the one that says most first."""
        return tuple(dict.fromkeys((self.dated, self.bare, self.bare.removesuffix("-latest"), *self.deployed)))


@lru_cache(maxsize=4096)
def hosted_model(model: str, provider: str | None = None) -> HostedModel:
    """Return the model of a request. `provider` comes from the log; else the model's prefix or name decides."""
    found, _, name = _parsed(model, provider)
    return HostedModel(found, _unreleased(name, found))


def is_hosted(call: Call) -> bool:
    """Return whether the model's name or the log names an API that answered; rules or a price of it may be unknown."""
    return call.model is not None and hosted_model(call.model, call.provider).provider != ""


@lru_cache(maxsize=4096)
def sold_model(model: str, provider: str | None = None) -> SoldModel:
    """Return a model's names in tables of prices."""
    found, variant, name = _parsed(model, provider)
    bare = _unreleased(name, found)
    deployed: list[str] = []
    if found == "azure":
        deployed = _shortened(_deployed_model(bare))
    return SoldModel(found, variant + name, variant + bare, tuple(variant + each for each in deployed))


def maker_of(name: str) -> str:
    """Return the provider that gives models of its own API this name; "" for names of open weights."""
    return next((ours for ours, names in _OWN_NAMES if names.match(name)), "")


def makers_names(model: str, provider: str | None = None) -> tuple[str, ...]:
    """Return the names that a model may have at its maker: without what a reseller or a deployment puts before it."""
    name = hosted_model(model, provider).name
    own = _deployed_model(name) if hosted_model(model, provider).provider == "azure" else name
    return tuple(dict.fromkeys((name, re.sub(r"^(?:databricks|openai)-", "", name), own)))


def is_deployment(name: str) -> bool:
    """Return whether a deployment on Azure may have this name: it has the name of a model of OpenAI in it."""
    return _DEPLOYED.fullmatch(name.strip().lower()) is not None


def is_own_name(model: str) -> bool:
    """Return whether a name is that of weights on an own server: a tag of Ollama, or a file of quantized weights."""
    return _OWN_WEIGHTS.search(model.strip().lower()) is not None


def _deployed_model(name: str) -> str:
    """Return the part of a deployment's name that begins with a model's, as OpenAI writes it: `shop-gpt4o` is `gpt-4o`."""
    found = _DEPLOYED.fullmatch(name)
    return name if found is None else re.sub(r"^gpt-?(\d)(\d(?!\d))?", _with_version, found[1])


def _with_version(found: re.Match[str]) -> str:
    """Write `gpt41`, as deployments are named, like the model: `gpt-4.1`."""
    return f"gpt-{found[1]}" + (f".{found[2]}" if found[2] else "")


def _parsed(model: str, provider: str | None) -> tuple[str, str, str]:
    """Return the provider, the region or "ft:" that changes a price, and the name there."""
    said = provider_named(provider or "")
    name = model.strip().lower().removeprefix("models/")
    route, variant = "", ""
    while "/" in name:
        before, rest = name.split("/", 1)
        if _AREA.match(before):
            variant = f"{before}."
        else:
            route = route or provider_named(before)
        name = rest.rsplit("/", 1)[-1] if before in ("publishers", "accounts", "projects") else rest
    if (sold := _BEDROCK.match(name)) is not None:
        route, name = route or "bedrock", name[sold.end() :]
        variant = sold[1] or variant
    if name.startswith("ft:"):
        variant, name = "ft:", name.split(":")[1]
    if "claude-" in name:
        name = _CLAUDE.sub(r"claude-\2-\1", re.sub(r"(?<=\d)\.(?=\d)", "-", name))
    own = maker_of(name)
    if model.startswith(_WEIGHTS) or _WEIGHTS_IN_CAPITALS.match(model):
        own = route = ""
    if said in ("", "openai") and route == "" and own and "/" in model:
        route = own
    found = said or route or own
    if found == "openai" and own not in ("", "openai"):
        found = own  # a client of OpenAI's form with another provider
    if found == "openai" and own == "":
        found = ""  # open weights under their maker's name, or on a server of the same form
    return found, variant, name


def provider_named(text: str) -> str:
    """Return kvtool's name of a provider from a name in a log; "" for one that is not known."""
    plain = re.sub(r"[\s-]+", "_", text.strip().lower())
    return "vertex" if plain.startswith("vertex_ai") else _OURS.get(plain, "")


def _unreleased(name: str, provider: str) -> str:
    while (shorter := _RELEASE.sub("", name)) != name and shorter:
        name = shorter
    return _AMAZON_REVISION.sub("", name) if provider in ("bedrock", "amazon_nova") else name


def _shortened(name: str) -> list[str]:
    """Return a deployment's name and the names of models at its front, longest first."""
    parts = re.split(r"(?=[-_])", name)
    fronts = ("".join(parts[:count]) for count in range(len(parts), 0, -1))
    return [front for front in fronts if maker_of(front)]
