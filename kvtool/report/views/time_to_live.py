"""Sentences on times to live, and on compactions of conversations."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from kvtool.accounting.misses.advised_change import cheaper_ttl
from kvtool.accounting.prices.bill import shown_money
from kvtool.results.misses import Compaction, TtlCosts
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import plural

_LONGEST_NAME = 60


def ttl_sentence(ttl: TtlCosts | None, currency: str = "USD") -> str:
    """Say what the requests cost with each time to live, and which one is cheaper; empty where none could choose or cached."""
    if ttl is None or ttl.paid == ttl.five_minutes == ttl.one_hour:
        return ""
    paid, minutes, hour = (shown_money(Decimal(each), currency) for each in (ttl.paid, ttl.five_minutes, ttl.one_hour))
    models = [sanitize(name, newlines=False)[:_LONGEST_NAME] for name in ttl.models]
    to = "" if not models else f" to {models[0] if len(models) == 1 else plural(len(models), 'model')}"
    text = f"{plural(ttl.requests, 'request')}{to} cost {paid} as sent"
    if ttl.paid == ttl.five_minutes:
        text += f", with 5-minute caching. 1-hour caching would cost {hour}."
    elif ttl.paid == ttl.one_hour:
        text += f", with 1-hour caching. 5-minute caching would cost {minutes}."
    else:
        text += f". 5-minute caching would cost {minutes}, 1-hour caching {hour}."
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
    most = plural(turns[-1], "request")
    many = most if turns[0] == turns[-1] else f"{turns[0]:,} to {most}"
    back = f"paid back after {many}" if net >= 0 else f"to be paid back after {many}"
    return (
        f"{plural(len(priced), 'compaction')}: cost {shown_money(cost, currency)}, saved "
        f"{shown_money(cost + net, currency)}; {back}. The log does not have the price of the summary."
    )
