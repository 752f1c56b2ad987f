"""Gemini's explicit caches: which prefixes are cheaper when kept by name than as they were paid, by the published prices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from math import ceil

from kvtool.accounting.caches.request_layout import PromptLayout
from kvtool.accounting.prices.bill import storage_cost
from kvtool.accounting.prices.price_row import MILLION, Rates
from kvtool.text.terminal.numbers import plural

_LEAST_TTL = 60.0
"""The shortest time to live that is tried, in seconds; others are full minutes."""
_MOST_TTLS = 12
"""Times to live that are tried: those that cover a gap between two uses, evenly chosen."""
_MOST = 32
"""Caches of one model that are proposed."""

RatesOf = Callable[[PromptLayout], Rates | None]


@dataclass(frozen=True, slots=True)
class ExplicitCache:
    """Prefixes that are kept by name, `kept` different ones that end at the same place of the body.

    `tokens` are those of the longest. Each use renews the time to live, `ttl`; after a longer gap a cache is made again (`made` in
    all). `paid` is what the prompts of their requests cost, and `cost` what they would, with `storage`.
    """

    model: str
    end: str
    tokens: int
    ttl: float
    made: int
    requests: int
    paid: Decimal
    cost: Decimal
    storage: Decimal
    uses_per_hour: float
    """Uses in an hour from which keeping a cache costs less than sending its tokens uncached."""
    kept: int = 1
    more_read: int = 0
    """Tokens that its requests read beyond those that were reported; negative where they read fewer."""

    def joined(self, other: ExplicitCache) -> ExplicitCache:
        """Return both as one, of one model, end and time to live."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        return replace(self, tokens=max(self.tokens, other.tokens), **sums)


_SUMS = ("made", "requests", "paid", "cost", "storage", "kept", "more_read")


@dataclass(frozen=True, slots=True)
class _Use:
    now: float
    prompt: int
    read: int
    paid: Decimal
    rates: Rates


def cheaper_caches(layouts: Iterable[PromptLayout], rates_of: RatesOf) -> list[ExplicitCache]:
    """Return the caches that cost less than what was paid for the reported reads, those that save most first.

    An explicit cache never costs less than a provider's own cache that reads all it has: it is made at the price of input, and kept
    at a price by the hour. It pays where fewer tokens were read. So a request without reported reads counts as one that pays less.
    """
    scopes: defaultdict[str, list[tuple[PromptLayout, Rates]]] = defaultdict(list)
    for layout in layouts:
        rates = rates_of(layout)
        usage = layout.call.usage
        known = usage is not None and usage.cached is not None and layout.call.settings.cached_content is None
        if known and rates is not None and rates.storage_hour is not None and rates.cache_read is not None:
            scopes[layout.scope].append((layout, rates))
    found: dict[object, ExplicitCache] = {}
    for cache in (cache for members in scopes.values() for cache in _of_scope(members)):
        key = cache.model, cache.end, cache.ttl
        found[key] = found[key].joined(cache) if key in found else cache
    return sorted(found.values(), key=lambda cache: cache.cost - cache.paid)


def _of_scope(members: Sequence[tuple[PromptLayout, Rates]]) -> Iterator[ExplicitCache]:
    """Yield the cache that saves most, then that of the requests that are left, and so on."""
    left = list(members)
    for _ in range(_MOST):
        prefixes: defaultdict[int, list[tuple[PromptLayout, Rates, int]]] = defaultdict(list)
        for layout, rates in left:
            for at in _ends(layout):
                prefixes[layout.keys[at]].append((layout, rates, at))
        kept = {
            key: cache for key, uses in prefixes.items() if len(uses) > 1 and (cache := _cheapest(uses)) is not None
        }
        if not kept:
            return
        key, cache = min(kept.items(), key=lambda each: each[1].cost - each[1].paid)
        yield cache
        used = {id(layout) for layout, _, _ in prefixes[key]}
        left = [each for each in left if id(each[0]) not in used]


def _ends(layout: PromptLayout) -> list[int]:
    """Return the blocks with which a cache can end: the instructions, and each message but the last; they are sent whole."""
    ends = [layout.lead - 1, *layout.messages[:-1]]
    return [at for at in dict.fromkeys(ends) if at >= 0 and layout.ends[at]]


def _end_name(layout: PromptLayout, at: int) -> str:
    if at < layout.lead:
        return "system_instruction" if layout.lead > layout.tools else "tools"
    return f"contents[{layout.messages.index(at)}]"


def _cheapest(found: Sequence[tuple[PromptLayout, Rates, int]]) -> ExplicitCache | None:
    """Return a prefix as it costs least; None where that is not less than what was paid."""
    layout, rates, at = found[0]
    tokens = min(each.ends[end] for each, _, end in found)
    uses = [_use(each, its) for each, its, _ in found]
    paid = sum((use.paid for use in uses), Decimal(0))
    gaps = sorted({later.now - earlier.now for earlier, later in pairwise(uses)})
    step = max(len(gaps) // _MOST_TTLS, 1)
    ttls = {max(_LEAST_TTL, 60.0 * ceil((gap + 1) / 60)) for gap in [0.0, *gaps[::step], *gaps[-1:]]}
    costs = {ttl: _cost(uses, tokens, ttl) for ttl in sorted(ttls)}
    ttl = min(costs, key=lambda ttl: sum(costs[ttl][:2]))
    used, storage, made = costs[ttl]
    if used + storage >= paid:
        return None
    saved = rates.input - (rates.cache_read or 0)
    return ExplicitCache(
        model=layout.call.model or "",
        end=_end_name(layout, at),
        tokens=tokens,
        ttl=ttl,
        made=made,
        requests=len(uses),
        paid=paid,
        cost=used + storage,
        storage=storage,
        uses_per_hour=float((rates.storage_hour or 0) / saved) if saved else 0.0,
        more_read=sum(tokens - use.read for use in uses),
    )


def _use(layout: PromptLayout, rates: Rates) -> _Use:
    read = 0 if layout.call.usage is None else layout.call.usage.cached or 0
    paid = (max(layout.prompt - read, 0) * rates.input + read * (rates.cache_read or rates.input)) / MILLION
    return _Use(layout.use.now, layout.prompt, read, paid, rates)


def _cost(uses: Sequence[_Use], tokens: int, ttl: float) -> tuple[Decimal, Decimal, int]:
    """Return what prompts cost with the prefix cached, what keeping it costs, and how often it is made: after each longer gap."""
    cost, seconds, made, until = Decimal(0), 0.0, 0, float("-inf")
    for use in uses:
        if use.now >= until:
            made += 1
            cost += tokens * use.rates.input / MILLION
            seconds += ttl
        else:
            seconds += use.now + ttl - until
        until = use.now + ttl
        rest = max(use.prompt - tokens, 0)
        cost += (rest * use.rates.input + tokens * (use.rates.cache_read or 0)) / MILLION
    return cost, storage_cost(tokens, seconds, uses[0].rates), made


def shown_ttl(seconds: float) -> str:
    """Return a time to live in words: `5 minutes`, `2 hours`."""
    hours = seconds / 3600
    return plural(int(hours), "hour") if hours == int(hours) else plural(int(seconds / 60), "minute")
