"""A plan of `cache_control` breakpoints for the chat requests of a workload, and its cost against other ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from kvtool.accounting.caches.cache_rules import CacheRules
from kvtool.accounting.caches.mark_plan import MarkPlace, MarkSet, PlacedMark
from kvtool.accounting.caches.provider_cache import ProviderCache
from kvtool.accounting.caches.providers import find_provider
from kvtool.accounting.prices.mark_compiler import MarkCosts
from kvtool.accounting.prices.price_row import MILLION, Rates
from kvtool.profiler.reported.cheapest_marks import place_name
from kvtool.results.documents.optimize import Costs, GroupBreakpoints, Placement, Prices
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.jobs import JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn

_READ, _WRITE = Decimal("0.1"), Decimal("1.25")
"""Prices of a token that is read from the cache and of one that is written to it, where one outside it costs 1."""
_RULES = replace(find_provider("anthropic"), tiers=())
PRICES = Prices(read=float(_READ), write=float(_WRITE), outside=1.0)
MINIMUM = _RULES.minimum
"""Tokens below which a prefix is not stored."""
MOST = _RULES.most
_RATES = Rates(input=MILLION, output=MILLION, cache_read=MILLION * _READ, cache_write_5m=MILLION * _WRITE)
"""Prices in tokens at the full price."""
_LAST = PlacedMark(MarkPlace("message"))
_LEAD = PlacedMark(MarkPlace("lead"))


def plan_breakpoints(group: str, turns: Sequence[Turn], tokenizer: Tokenizer, most: int) -> GroupBreakpoints | None:
    """Return the cheapest breakpoints (at most `most`) by Anthropic's rules; None where no request has messages.

    They are compared with none, and with one after the last system block (where several are allowed) and the last message.
    """
    rules = replace(_RULES, most=most)
    chats = [turn for turn in turns if turn.messages]
    cache = ProviderCache(CacheRules(provider=rules, ttl=rules.ttl), lays_out=len(chats))
    maker = JobMaker(Renderer(lambda: tokenizer, ChatTemplate.hosted), seed=0)
    for turn in sorted(chats, key=lambda turn: turn.arrival or 0.0):
        cache.request(maker.make(turn), turn.arrival or 0.0, 0)
    if not cache.layouts:
        return None
    costs = MarkCosts(cache.layouts, [_RATES] * len(cache.layouts))
    every = range(len(cache.layouts))
    longest = max(cache.layouts, key=lambda layout: len(layout.keys))

    def placed(marks: MarkSet) -> Placement:
        fixed = [
            at for place, _ in marks if place.kind in ("lead", "block") for at in [_number(place)] if at is not None
        ]
        where = [f"after {place_name(mark, longest)}" for mark in marks]
        return Placement(after_blocks=sorted(at + 1 for at in fixed), last_message=_LAST in marks, where=where)

    def _number(place: MarkPlace) -> int | None:
        return place.of(longest.lead, longest.messages, len(longest.keys))

    def cost(marks: MarkSet) -> float:
        return float(costs.cost(every, [marks] * len(every)))

    naive = (_LEAD, _LAST) if most > 1 else (_LAST,)
    best = costs.cheapest(every)
    return GroupBreakpoints(
        name=group,
        requests=len(cache.layouts),
        cost=Costs(no_caching=sum(layout.prompt for layout in cache.layouts), naive=cost(naive), best=cost(best)),
        best=placed(best),
        naive=placed(naive),
    )
