"""Replicas, time to live and provider: flags and workload options become `CacheRules`; wrong combinations are errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import get_args

from kvtool.accounting.caches.cache_rules import CacheRules, lifetime
from kvtool.config.asked_run import RunOptions
from kvtool.config.bounds import MOST_REPLICAS
from kvtool.errors import KvtoolError
from kvtool.results.choices import SIZES, Routing
from kvtool.text.quantities import parse_duration
from kvtool.text.terminal.numbers import capitalized
from kvtool.workload.turn import Turn
from kvtool.workload.yaml.schema import EngineOptions

_ROUTINGS: tuple[Routing, ...] = get_args(Routing)


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Options of cache rules; None is "not given". Some are here only to refuse them together with rules."""

    replicas: int | None = None
    routing: str | None = None
    ttl: float | None = None
    provider: str | None = None
    capacity: bool = False
    concurrency: bool = False
    block_size: int | None = None
    audit: bool = False
    events: bool = False


def seconds_of(ttl: str) -> float:
    """Return a time to live as a flag writes it: `5m`, `1h`, seconds."""
    try:
        return parse_duration(ttl)
    except ValueError as error:
        raise KvtoolError(f"--ttl: {error}", hint="write it like 30s, 5m or 1h") from error


def cache_rules(options: RuleOptions) -> CacheRules | None:
    """Return the rules beyond one engine's cache; None where none was asked for. KvtoolError for what does not go together."""
    if options.ttl is not None and options.ttl <= 0:
        raise KvtoolError("a time to live must be more than nothing", hint="write it like 30s, 5m or 1h")
    if options.routing is not None and options.routing not in _ROUTINGS:
        raise KvtoolError(f"unknown routing `{options.routing}`", hint=f"one of {', '.join(_ROUTINGS)}")
    replicas = options.replicas or 1
    if replicas > MOST_REPLICAS:
        raise KvtoolError(f"{replicas:,} replicas are more than the {MOST_REPLICAS:,} that kvtool can follow")
    if options.routing is not None and replicas == 1:
        raise KvtoolError("routing chooses among replicas, and there is one", hint="say how many: --replicas N")
    if replicas == 1 and options.ttl is None and options.provider is None:
        return None
    if options.concurrency:
        raise KvtoolError(
            "replicas, a time to live and a provider's rules account for requests one at a time, in order of arrival",
            hint="leave --concurrency out",
        )
    if options.audit or options.events:
        flag = "--audit" if options.audit else "--events"
        raise KvtoolError(
            f"{flag} looks at an engine; with replicas, a time to live or a provider's rules none runs",
            hint=f"leave {flag} out",
        )
    if options.provider is not None:
        return _provider_rules(options)
    routing = next((routing for routing in _ROUTINGS if routing == options.routing), _ROUTINGS[0])
    return CacheRules(replicas, routing, options.ttl)


def _provider_rules(options: RuleOptions) -> CacheRules:
    from kvtool.accounting.caches.providers import find_provider

    provider = find_provider(options.provider or "")
    if options.capacity or (options.replicas or 1) > 1:
        what = "how large its cache is" if options.capacity else "how many replicas it has"
        flag = "the capacity" if options.capacity else "--replicas"
        raise KvtoolError(f"the rules of {provider.name} do not say {what}", hint=f"leave {flag} out")
    if options.block_size not in (None, provider.step):
        raise KvtoolError(
            f"{provider.name} counts in steps of {provider.step}, not of {options.block_size}",
            hint="leave the block size out",
        )
    ttl = provider.ttl if options.ttl is None else options.ttl
    return CacheRules(ttl=ttl, provider=provider)


def chosen_cache_rules(
    options: RunOptions, asked: EngineOptions, first_turn: Callable[[], Turn | None]
) -> CacheRules | None:
    """Flags over the workload's options. A flag for rules leaves out what the workload says of another way to run it.

    Where the workload's first turn says nothing of its arrival, a provider's own time to live is left out; one that was asked for
    is not.
    """
    caching, serving, measuring = options.caching, options.serving, options.measuring
    flagged = any((caching.replicas, caching.ttl, caching.provider))
    said = EngineOptions() if flagged else asked
    rules = cache_rules(
        RuleOptions(
            replicas=caching.replicas or (None if caching.provider else asked.replicas),
            routing=caching.routing or (None if caching.provider else asked.routing),
            ttl=asked.ttl if caching.ttl is None else seconds_of(caching.ttl),
            provider=caching.provider or asked.provider,
            capacity=any(getattr(each, name) is not None for name in SIZES for each in (serving, said)),
            concurrency=bool(caching.concurrency or said.concurrency),
            block_size=serving.block_size or said.block_size,
            audit=measuring.audit,
            events=measuring.events is not None,
        )
    )
    if rules is None or rules.provider is None or caching.ttl is not None or asked.ttl is not None:
        return rules
    turn = first_turn()
    return rules if turn is None or turn.arrival is not None else replace(rules, ttl=None)  # no clock to go by


def rule_note(rules: CacheRules) -> str:
    """Return the rules in words, for the head of the report."""
    parts = []
    provider = rules.provider
    if provider is not None:
        steps = f", in steps of {provider.step:,}" if provider.step > 1 else ""
        least = f" from {provider.minimum:,} tokens{steps}" if provider.minimum > 1 else ""
        parts.append(f"cache rules of {provider.name} ({provider.models}, as of {provider.as_of}){least}")
        if provider.note:
            parts.append(provider.note)
    if rules.dated:
        parts.append("Cache rules: as published by each model's provider (for your own engine, add --block-size N)")
    if rules.replicas > 1:
        parts.append(f"{rules.replicas:,} replicas, {rules.routing} routing, the cache of each as given")
    if rules.ttl is None and provider is not None and provider.ttl is not None:
        parts.append(f"no arrival times, so nothing expires after its {lifetime(provider.ttl)}")
    if rules.ttl is not None:
        parts.append(f"time to live {lifetime(rules.ttl)}")
    return ". ".join(map(capitalized, [*parts, "one request at a time"]))


def described_rules(rules: CacheRules | None) -> dict[str, str | int | float | bool | None]:
    """Return the same for machines: what the numbers depend on."""
    provider = rules.provider if rules is not None else None
    return {
        "replicas": rules.replicas if rules is not None else 1,
        "routing": rules.routing if rules is not None and rules.replicas > 1 else None,
        "ttl_seconds": rules.ttl if rules is not None else None,
        "provider": provider.name if provider is not None else None,
        **({"rules_by_day": True} if rules is not None and rules.dated else {}),
        "provider_as_of": provider.as_of if provider is not None else None,
        "provider_source": provider.source if provider is not None else None,
    }
