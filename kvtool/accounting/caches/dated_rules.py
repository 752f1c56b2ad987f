"""Cache rules by model and day: rows with dates, each with its source and the day it was checked.

A request takes the row of its model and its day; a model without a row is not predicted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache

from kvtool.accounting.caches.providers import RETENTIONS, Provider, find_provider
from kvtool.accounting.caches.timed_tree import LONG, SHORT
from kvtool.accounting.hosted_models import hosted_model, maker_of, makers_names
from kvtool.accounting.log_clock import day_of
from kvtool.workload.turn import Turn

_HOUR, _DAY = LONG, 24 * LONG
_OPENAI, _LATER, _CLAUDE, _GEMINI = (find_provider(name) for name in ("openai", "openai-5.6", "anthropic", "gemini"))
_DEEPSEEK, _AZURE = find_provider("deepseek"), find_provider("azure")


@dataclass(frozen=True, slots=True)
class DatedRule:
    """The rules of `models` (a pattern of whole names) of a provider from the day `since` to the day before `until`.

    `write` and `read` are the costs of a written or read token, as a multiple of an ordinary one: "list" if models differ.
    """

    provider: str
    models: str
    rules: Provider
    write: str
    read: str
    since: date | None = None
    until: date | None = None
    documented: bool = True
    """False if only a price of cached tokens says that there is a cache."""

    def holds(self, model: str, day: date | None) -> bool:
        """Return whether the row applies to this model on this day; None is a day after all known ones."""
        if re.fullmatch(self.models, model) is None:
            return False
        if day is None:
            return self.until is None
        return (self.since is None or self.since <= day) and (self.until is None or day < self.until)


def _claude(models: str, minimum: int, read: str = "0.1") -> list[DatedRule]:
    """Return rows of Anthropic's own API, and of Claude on Bedrock, which offers an hour since January 2026."""
    rules = replace(_CLAUDE, models=models, minimum=minimum)
    bedrock = replace(
        rules,
        name="bedrock",
        source="aws.amazon.com/about-aws/whats-new/2026/01: prompt caching, 1 hour",
        as_of="2026-01-26",
    )
    hour = date(2026, 1, 26)
    return [
        DatedRule("anthropic", models, rules, "1.25, 1 h 2", read),
        DatedRule("bedrock", models, replace(bedrock, tiers=()), "1.25", read, until=hour),
        DatedRule("bedrock", models, bedrock, "1.25, 1 h 2", read, since=hour),
    ]


def _gemini(models: str, minimum: int, since: date | None = None, until: date | None = None) -> DatedRule:
    rules = replace(_GEMINI, models=models, minimum=minimum, usual=_HOUR)
    return DatedRule("gemini", models, rules, "1", "0.1", since, until)


def _prefix(name: str, models: str, source: str, note: str, *, ttl: float | None = None, minimum: int = 1) -> Provider:
    """Return every prefix is stored."""
    return Provider(
        name, models, "prefix", minimum, 1, ttl, "2026-10-13", source, note=note, usual=None if ttl else _HOUR
    )


_XAI = _prefix(
    "xai",
    "Grok",
    "docs.x.ai/developers/advanced-api-usage/prompt-caching",
    "each server has its own cache; x-grok-conv-id or prompt_cache_key selects it; entries can be evicted at any time",
)
_MISTRAL = _prefix(
    "mistral", "Mistral API", "docs.mistral.ai: prompt caching", "minimum and time to live are not confirmed"
)
_GROQ = _prefix(
    "groq",
    "GPT-OSS and Kimi on Groq",
    "console.groq.com/docs/prompt-caching",
    "the minimum is not confirmed",
    ttl=2 * _HOUR,
)
_FIREWORKS = _prefix(
    "fireworks",
    "Fireworks serverless",
    "docs.fireworks.ai/guides/prompt-caching",
    "each replica has its own cache; x-session-affinity selects it; the time to live is not documented",
)
_QWEN = _prefix(
    "qwen",
    "Qwen on Alibaba Model Studio",
    "alibabacloud.com/help/en/model-studio/context-cache",
    "the implicit cache: hits are not guaranteed, and the time to live is not documented",
    minimum=256,
)
_GLM = _prefix(
    "zai", "GLM", "docs.z.ai/guides/capabilities/cache", "the minimum and the time to live are not documented"
)
_MINIMAX = _prefix(
    "minimax",
    "MiniMax M2 and later",
    "platform.minimax.io/docs/api-reference/text-prompt-caching",
    "the time to live depends on the load",
    minimum=512,
)
_KIMI_2 = _prefix(
    "moonshot",
    "Kimi K2",
    "forum.moonshot.ai/t/216",
    "a prefix must be equal to the byte; the minimum and the time to live are not documented",
)
_KIMI = _prefix(
    "moonshot",
    "Kimi K3",
    "forum.moonshot.ai/t/613",
    "time to live 5 minutes or 1 hour; the minimum is not confirmed",
    ttl=300.0,
)
_TENSORMESH = _prefix(
    "tensormesh",
    "Tensormesh serverless",
    "docs.tensormesh.ai/pricing-overview",
    "a token read from the cache is free; the minimum and the time to live are not documented",
)
_NOVA = Provider(
    *("bedrock", "Amazon Nova", "breakpoints", 1000, 1, 300.0, "2026"),
    *("docs.aws.amazon.com/bedrock: prompt caching", (), 20, 4),
    needs_mark=True,
)

_VERTEX = "docs.cloud.google.com/vertex-ai/generative-ai/docs/context-cache/context-cache-overview"
_MAKERS = ("openai", "anthropic", "gemini", "xai")
"""Makers whose models keep their rules on other APIs: no one else runs their weights."""
_THERE = {
    "vertex": "docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/prompt-caching",
    "bedrock": "docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html",
}
"""Pages that say so."""

_SINCE_56 = r"gpt-5\.[6-9](-.*)?|gpt-[67](\.\d+)?(-.*)?"
_BOTH = r"gpt-4\.1(-.*)?|gpt-5(\.[1-4])?(-.*)?"
_UNCACHED = re.compile(r"gpt-3\.5-.*|gpt-4(-(turbo|vision|32k|\d{4}).*)?")
"""OpenAI's models before gpt-4o, the first with a cache: the guide on prompt caching, and Azure's page on it (see `_AZURE`)."""
_ONE = r"gpt-4o(-.*)?|chatgpt-4o(-.*)?|o[134](-.*)?|gpt-4\.5(-.*)?"
_SOURCE_24H = f"{_OPENAI.source}; default of retention: openai-java 4.39, PromptCacheRetention"
_OPENAI_24H = replace(
    _OPENAI, models="gpt-4.1 to gpt-5.4", ttl=_DAY, tiers=(), usual=_HOUR, source=_SOURCE_24H, as_of="2026-10-13",
    note="time to live at most 24 hours, unless the request or the organization sets another",
)  # fmt: skip
_OPENAI_ONE, _AZURE_ONE = (replace(each, retentions=RETENTIONS[:1], tiers=()) for each in (_OPENAI, _AZURE))
"""Models without a retention of 24 hours: Azure's page (see `_AZURE`) lists those that have it, gpt-4.1 and from gpt-5 on."""
_OPENAI_55 = replace(
    _OPENAI, models="gpt-5.5", minimum=2048, step=2048, ttl=_DAY, tiers=(), usual=_HOUR / 2, retentions=RETENTIONS[1:],
    as_of="2026-09-02", note="every 2,048 tokens; time to live at most 24 hours, usually 30 minutes",
)  # fmt: skip

ROWS: tuple[DatedRule, ...] = (
    DatedRule("openai", _SINCE_56, replace(_LATER, as_of="2026-10-13"), "1.25", "list"),
    DatedRule("openai", r"gpt-5\.5(-.*)?", _OPENAI_55, "1", "list"),
    DatedRule("openai", _BOTH, _OPENAI_24H, "1", "list"),
    DatedRule("openai", _ONE, _OPENAI_ONE, "1", "list"),
    DatedRule("azure", _SINCE_56, replace(_LATER, name="azure", source=_AZURE.source), "1.25", "list"),
    DatedRule("azure", r"gpt-5\.5(-.*)?", replace(_OPENAI_55, name="azure", source=_AZURE.source), "1", "list"),
    DatedRule("azure", _BOTH, _AZURE, "1", "list"),
    DatedRule("azure", _ONE, _AZURE_ONE, "1", "list"),
    *_claude(r"claude-(opus|sonnet|haiku)-5-5(-.*)?|claude-opus-5(-[a-z].*)?|claude-(fable|mythos)-5(-1)?(-[a-z].*)?", 512, "list"),
    *_claude(r"claude-opus-4-8(-.*)?|claude-opus-4(-[01])?(-[a-z].*)?|claude-sonnet-(5|4|4-[0156])(-[a-z].*)?", 1024),
    *_claude(r"claude-3-[57]-sonnet(-.*)?|claude-3-opus(-.*)?", 1024),
    *_claude(r"claude-opus-4-7(-.*)?|claude-3(-5)?-haiku(-.*)?|claude-haiku-3-5(-.*)?", 2048),
    *_claude(r"claude-opus-4-[56](-.*)?|claude-haiku-4-5(-.*)?", 4096),
    DatedRule("bedrock", r"nova-.*", _NOVA, "1", "list"),
    _gemini(r"gemini-2\.5-flash(?!-lite).*", 1024, until=date(2026, 7, 1)),
    _gemini(r"gemini-2\.5-pro.*", 4096, until=date(2026, 7, 1)),
    _gemini(r"gemini-2\.5-(flash|pro).*", 2048, since=date(2026, 7, 1)),
    _gemini(r"gemini-3(\.5)?-flash(?!-lite).*", 1024, until=date(2026, 7, 1)),
    _gemini(r"gemini-(3|4)(\.\d+)?-.*|gemini-(flash|pro)(-lite)?-latest", 4096),
    DatedRule("vertex", r"gemini-2\.5-.*", replace(_GEMINI, name="vertex", minimum=2048, source=_VERTEX, usual=_HOUR), "1", "0.1"),
    DatedRule("vertex", r"gemini-4-argon.*", replace(_GEMINI, name="vertex", minimum=6144, usual=_HOUR), "1", "0.1"),
    DatedRule("vertex", r"gemini-(3|4)(\.\d+)?-(?!argon).*", replace(_GEMINI, name="vertex", usual=_HOUR), "1", "0.1"),
    DatedRule("deepseek", r"deepseek-.*", replace(_DEEPSEEK, usual=_HOUR), "1", "list"),
    DatedRule("groq", r"(gpt-oss-(20b|120b|safeguard-20b)|kimi-k2-.*)", _GROQ, "1", "0.5"),
    DatedRule("xai", r"grok-.*", _XAI, "1", "list"),
    DatedRule("mistral", r".*", _MISTRAL, "1", "0.1"),
    DatedRule("fireworks", r".*", _FIREWORKS, "1", "0.5"),
    DatedRule("moonshot", r"kimi-k3(\.\d+)?(-.*)?", _KIMI, "1, 1 h 2", "0.1"),
    DatedRule("moonshot", r"kimi-(k2|latest|for-coding).*", _KIMI_2, "1", "list"),
    DatedRule("qwen", r"(qwen|qwq|qvq).*", _QWEN, "1", "list"),
    DatedRule("zai", r"glm-.*", _GLM, "1", "list"),
    DatedRule("bigmodel", r"glm-.*", replace(_GLM, name="bigmodel"), "1", "list"),
    DatedRule("minimax", r"minimax-m[2-9].*", _MINIMAX, "1", "list"),
    DatedRule("tensormesh", r".*", _TENSORMESH, "1", "0"),
)  # fmt: skip
"""Every row; the first that applies is taken."""


@lru_cache(maxsize=4096)
def find_rule(model: str, provider: str | None, day: date | None) -> DatedRule | None:
    """Return the row of a request's model on its day; None where there is none, and nothing is predicted.

    The rules of a closed model are its maker's on every API. Of other models a price of cached tokens says that there is a cache.
    """
    hosted = hosted_model(model, provider)
    for name in makers_names(model, provider):
        if (own := _row(hosted.provider, name, day)) is not None:
            return own
        maker = maker_of(name)
        if hosted.provider == "openrouter" or (hosted.provider and maker in _MAKERS):
            row = _row(maker, name, day)
            if row is not None:
                source = _THERE.get(hosted.provider, row.rules.source)
                return replace(
                    row, provider=hosted.provider, rules=replace(row.rules, name=hosted.provider, source=source)
                )
    return _priced_cache(model, provider, hosted.provider, day)


def rule_of(turn: Turn) -> DatedRule | None:
    """Return the rule for the model that a turn of a log names, on its day; None where there is none."""
    call = turn.call
    return None if call.model is None else find_rule(call.model, call.provider, day_of(turn.epoch, turn.arrival or 0.0))


def life_of(turn: Turn) -> float | None:
    """Return for how many seconds its provider surely keeps what a request stored: by the marks that it reports, else by the rules;
    None where neither says so."""
    call, usage = turn.call, turn.call.usage
    if usage is not None and (usage.written_1h or usage.written_5m):
        return LONG if usage.written_1h else SHORT
    row = rule_of(turn)
    if row is None:
        return None
    known = [each for each in (row.rules.kept_for(call.settings), row.rules.usual) if each is not None]
    return min(known, default=None)


def has_no_cache(model: str, provider: str | None) -> bool:
    """Return whether the provider documents that it caches no prompt of this model: each token has the full price."""
    return any(
        maker_of(name) == "openai" and _UNCACHED.fullmatch(name) is not None for name in makers_names(model, provider)
    )


def _row(provider: str, name: str, day: date | None) -> DatedRule | None:
    return next((row for row in ROWS if row.provider == provider and row.holds(name, day)), None)


def _priced_cache(model: str, provider: str | None, name: str, day: date | None) -> DatedRule | None:
    """Return the rule that a cheaper price of cached tokens implies: any prefix may be read. None without such a price."""
    if not name:
        return None
    from kvtool.accounting.prices.price_table import price_table  # a log that names no API loads no prices

    price = price_table().row(model, provider, day)
    if price is None or not 0 < price.rates.read < price.rates.input:
        return None
    note = "cached tokens have a price; the minimum and the time to live are not documented"
    rules = replace(_prefix(name, model, price.source, note), as_of=str(price.checked or day or "2026"))
    return DatedRule(name, re.escape(model), rules, "list", "list", documented=False)
