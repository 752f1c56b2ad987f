"""Sentences on times to live, and on compactions of conversations."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from kvtool.accounting.misses.advised_change import cheaper_ttl
from kvtool.accounting.prices.bill import shown_money
from kvtool.results.misses import Compaction, TtlCosts
from kvtool.text.terminal.numbers import plural


def ttl_sentence(ttl: TtlCosts | None, currency: str = "USD") -> str:
    """Say what the requests cost with each time to live, and which one is cheaper; empty where no request could choose."""
    if ttl is None:
        return ""
    paid, minutes, hour = Decimal(ttl.paid), Decimal(ttl.five_minutes), Decimal(ttl.one_hour)
    text = (
        f"Requests that can choose a time to live cost {shown_money(paid, currency)}. With the same gaps, 5-minute caching "
        f"costs {shown_money(minutes, currency)} and 1-hour caching {shown_money(hour, currency)}."
    )
    found = cheaper_ttl(ttl)
    return text if found is None else f"{text} Caching for {found[0]} saves {shown_money(found[1], currency)}."


def compaction_sentence(compactions: Sequence[Compaction], currency: str = "USD") -> str:
    """Say what the compactions cost and saved; empty where there is none, or no price."""
    priced = [each for each in compactions if each.cost is not None and each.saved is not None]
    if not priced:
        return ""
    cost = sum((Decimal(each.cost or 0) for each in priced), Decimal(0))
    net = sum((Decimal(each.saved or 0) for each in priced), Decimal(0))
    turns = sorted(each.break_even or 0 for each in priced)
    verb = (
        f"saved {shown_money(net, currency)} more than that"
        if net >= 0
        else f"lost {shown_money(-net, currency)} so far"
    )
    most = plural(turns[-1], "request")
    many = most if turns[0] == turns[-1] else f"{turns[0]:,} to {most}"
    return (
        f"{plural(len(priced), 'compaction')} cost {shown_money(cost, currency)} and {verb}. "
        f"{'It pays' if len(priced) == 1 else 'They pay'} after {many}. The log does not have the price of the summary."
    )
