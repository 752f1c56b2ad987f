"""Rules of hosted models' prompt caches: data, each figure with its source and the day it was read.

The rules change; a line records its day's rules. Prices are elsewhere: they decide the value of a hit, not whether it is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from kvtool.workload.call import CallSettings

Keeps = Literal["prefix", "breakpoints", "requests"]
"""The prefixes that a request stores: every one, those that end at a breakpoint, or those at the ends of prompt and answer."""

_MINUTE = 60.0
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Provider:
    """The prompt cache of one provider, for one family of models.

    A hit has at least `minimum` tokens and ends on a multiple of `step`. A prefix unused for `ttl` seconds is dropped (None:
    unpublished); `tiers` are longer times on request. An earlier breakpoint is found up to `lookback` content blocks before a
    breakpoint. A request may have `most` breakpoints; `implicit` adds one at its last message.
    """

    name: str
    models: str
    keeps: Keeps
    minimum: int
    step: int
    ttl: float | None
    as_of: str
    source: str
    tiers: tuple[float, ...] = ()
    lookback: int = 0
    most: int = 0
    implicit: bool = False
    note: str = ""
    needs_mark: bool = False
    """True if a request without a mark is not cached."""
    retentions: tuple[tuple[str, float], ...] = ()
    """Times that a request may choose by name, in seconds."""
    usual: float | None = None
    """Seconds after which a prefix is usually dropped, if `ttl` is only the allowed time."""
    named_caches: bool = False
    """True if requests can name a cache that was made before, beside what the provider caches itself."""
    fork_system: tuple[str, ...] = ()
    """Settings of a request (`CallSettings`) that change the cache of everything after the tools."""
    fork_messages: tuple[str, ...] = ()
    """Settings that change the cache of everything after the system text."""
    most_a_minute: int = 0
    """Requests a minute with one prefix and key above which misses are likely; 0: unpublished."""
    is_learned: bool = False
    """True if a prefix was reported as cached that is shorter than the published minimum: `minimum` is half of it."""

    def kept_for(self, settings: CallSettings) -> float | None:
        """Return for how many seconds a request without a mark of its own keeps a prefix: as long as it asks for, else `ttl`."""
        return dict(self.retentions).get(settings.retention or "", self.ttl)


RETENTIONS = (("in_memory", 5 * _MINUTE), ("24h", 24 * _HOUR))
"""Values of `prompt_cache_retention`; of the 5 to 10 minutes in memory the shorter is taken."""

_OPENAI = "developers.openai.com/api/docs/guides/prompt-caching"
_OPENAI_STEP = "github.com/openai/openai-cookbook: examples/Prompt_Caching_201.ipynb"
_CLAUDE = "platform.claude.com/docs/en/build-with-claude/prompt-caching"
_CLAUDE_MINIMUM = "minimum by model: docs.litellm.ai/docs/completion/prompt_caching"
_CLAUDE_OLDER = "minimum by model: docs.truefoundry.com/gateway/chat-completions-prompt-caching"
_GEMINI = "ai.google.dev/gemini-api/docs/caching"
_DEEPSEEK = "api-docs.deepseek.com/guides/kv_cache"
_AZURE = "learn.microsoft.com/azure/foundry/openai/how-to/prompt-caching"


def _claude(name: str, models: str, minimum: int, as_of: str, source: str) -> Provider:
    return Provider(
        name,
        models,
        keeps="breakpoints",
        minimum=minimum,
        step=1,
        ttl=5 * _MINUTE,
        tiers=(_HOUR,),
        lookback=20,
        most=4,
        as_of=as_of,
        source=source,
        note="requests without `cache_control` store nothing. A group of a workload file without it gets automatic caching, "
        "a breakpoint at the last block",
        needs_mark=True,
        fork_system=("speed", "output_schema", "citations"),
        fork_messages=("tool_choice", "images", "thinking", "effort"),
    )


def _gemini(name: str, models: str, minimum: int) -> Provider:
    return Provider(
        name,
        models,
        keeps="prefix",
        minimum=minimum,
        step=1,
        ttl=None,
        as_of="2026-10-13",
        source=_GEMINI,
        note="implicit caching without guarantees: the time to live is not documented",
        named_caches=True,
    )


PROVIDERS: tuple[Provider, ...] = (
    Provider(
        "openai",
        "gpt-4o to gpt-5.5",
        keeps="prefix",
        minimum=1024,
        step=128,
        ttl=5 * _MINUTE,
        tiers=(24 * _HOUR,),
        as_of="2026-03-05",
        source=f"{_OPENAI}; steps of 128: {_OPENAI_STEP}",
        note="evicted after 5 to 10 minutes without use; kvtool assumes 5",
        retentions=RETENTIONS,
        fork_system=("output_schema",),
        most_a_minute=15,
    ),
    Provider(
        "openai-5.6",
        "gpt-5.6 and later",
        keeps="breakpoints",
        minimum=1024,
        step=1,
        ttl=30 * _MINUTE,
        lookback=80,
        most=4,
        implicit=True,
        as_of="2026-10",
        source=f"{_OPENAI}; limits: docs.rs/async-openai/0.42.0, PromptCacheOptionsParam",
        note="time to live at least 30 minutes, or 12 hours in a breakpoint: their write price is unpublished",
        fork_system=("output_schema",),
        most_a_minute=15,
    ),
    Provider(
        "azure",
        "gpt-4o to gpt-5.5",
        keeps="prefix",
        minimum=1024,
        step=128,
        ttl=5 * _MINUTE,
        as_of="2026",
        source=_AZURE,
        note="evicted after 5 to 10 minutes without use; kvtool assumes 5",
        retentions=RETENTIONS,
        fork_system=("output_schema",),
        most_a_minute=15,
    ),
    _claude("anthropic", "Claude Sonnet 4 to 5, Opus 4, 4.1, 4.8", 1024, "2026-10-07", f"{_CLAUDE}; {_CLAUDE_MINIMUM}"),
    _claude("anthropic-512", "Claude Opus 5, Fable 5, Mythos 5", 512, "2026-10-07", f"{_CLAUDE}; {_CLAUDE_MINIMUM}"),
    _claude("anthropic-2048", "Claude Haiku 3, 3.5", 2048, "2026", f"{_CLAUDE}; {_CLAUDE_OLDER}"),
    _claude("anthropic-4096", "Claude Haiku 4.5, Opus 4.5, 4.6", 4096, "2026-10-07", f"{_CLAUDE}; {_CLAUDE_MINIMUM}"),
    _gemini("gemini", "Gemini 3.1 Pro to 3.8 Flash", 4096),
    _gemini("gemini-2.5", "Gemini 2.5 Flash and Pro", 2048),
    Provider(
        "deepseek",
        "DeepSeek API",
        keeps="requests",
        minimum=1,
        step=1,
        ttl=None,
        as_of="2026",
        source=_DEEPSEEK,
        note="cache units inside long texts are left out, because their length is not documented",
    ),
)


def find_provider(name: str) -> Provider:
    """Return the rules of this name; KvtoolError for one that is not known."""
    wanted = name.strip().lower()
    for provider in PROVIDERS:
        if provider.name == wanted:
            return provider
    names = [provider.name for provider in PROVIDERS]
    close = get_close_matches(wanted, names, n=1)
    hint = f"did you mean `{close[0]}`?" if close else f"known providers: {', '.join(names)}"
    raise KvtoolError(f"unknown provider `{name}`", hint=hint)
