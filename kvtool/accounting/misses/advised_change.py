"""What to change about the misses of a log with reported usage: the costliest cause that requests can mend, or a time to live."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from kvtool.results.misses import CacheMisses, Compaction, MissCause, TtlCosts
from kvtool.text.terminal.numbers import plural

WORTH = Decimal("0.01")
"""Part of what was paid that a change must save to be named."""
UNMENDABLE: frozenset[MissCause] = frozenset(("first_use", "answer_not_kept"))
"""Causes that neither requests nor settings avoid."""
_LONGEST_TTL = 3600.0
"""Seconds: the longest time to live that a mark can ask for (Anthropic, Bedrock)."""
_CHANGES: dict[MissCause, str] = {
    "prompt_changed": "Send the same text each time, or put what changes after what is shared",
    "tools_changed": "Send the same tools in the same order in all requests of a session",
    "system_changed": "Send system messages that come after the first with role user, so that they stay at their place",
    "history_edited": "Append to the history instead of editing it",
    "compaction": "Compact less often: each time, the new history is computed",
    "resumed": "Send the same messages after a resume as before it",
    "wire_form": "Send each message in the form in which it was sent first",
    "model_changed": "Keep one model for a session, or start a new session with the other model",
    "key_changed": "Use one cache key and one account for all prompts that share a prefix",
    "host_changed": "Send a session to one host (OpenRouter: provider.order)",
    "host_uncached": "Send no request to a host that does not cache (OpenRouter: provider.ignore)",
    "below_minimum": "Put more stable text at the front, until it is long enough to be cached",
    "lookback": "Set a mark at most 20 blocks after the one before",
    "marks_limit": "Set at most 4 marks",
    "not_marked": "Mark the end of the shared text with cache_control",
    "reasoning_dropped": "Keep earlier reasoning in the prompt (chat_template_kwargs of the model), or send it again",
    "replicas": "Send what shares a prefix to one replica",
}
"""What to change, by cause; without an entry nothing in the requests is to blame."""
_NOTICEABLE = 0.0005
"""A part of the prompt tokens that shows in the one decimal of a rate."""


def is_noticeable(misses: CacheMisses) -> bool:
    """Return whether the misses show in the reported rate."""
    return misses.promised - misses.read >= _NOTICEABLE * misses.prompt_tokens


def keeps_no_answers(misses: CacheMisses) -> bool:
    """Return whether a cache that does not keep answers explains all misses that have a cause."""
    return "answer_not_kept" in misses.by_cause and UNMENDABLE.issuperset(misses.by_cause)


def first_change(misses: CacheMisses, currency: str = "USD", *, hosted: bool = True) -> str:
    """Return what `profile`, `what-if` and `optimize` name first, where no edit of prompts is proven; else an empty text."""
    if field_to_compare(misses):
        return ""
    found = advised_change(misses, currency, hosted=hosted) if is_noticeable(misses) else ""
    return found or cheaper_life(misses, currency)


def field_to_compare(misses: CacheMisses) -> str:
    """Return the field that separates the misses without a known cause, where these cost most; else an empty text."""
    first = next(iter(misses.by_cause), None)
    return misses.separation.field if misses.separation is not None and first in ("provider", "unknown") else ""


def cheaper_life(misses: CacheMisses, currency: str = "USD", *, least: Decimal = WORTH) -> str:
    """Say which time to live costs less, and how much; empty where none saves `least` of what was paid."""
    found = None if misses.ttl is None else cheaper_ttl(misses.ttl)
    if misses.ttl is None or found is None or found[1] < least * Decimal(misses.ttl.paid):
        return ""
    from kvtool.accounting.prices.bill import shown_money

    name, saved = found
    field = '"ttl": "1h"' if name == "1 hour" else "no ttl"
    return f"Cache for {name} (Anthropic: {field} in cache_control): saves {shown_money(saved, currency)} with the same gaps"


def advised_change(misses: CacheMisses, currency: str = "USD", *, hosted: bool = True) -> str:
    """Return what to change about the costliest cause that requests can mend."""
    for cause in misses.by_cause:
        event = max((each for each in misses.events if each.cause == cause), key=lambda each: each.tokens, default=None)
        if cause == "expired":
            if found := cheaper_life(misses, currency, least=Decimal(0)):
                return found
            if event is not None and event.retention is not None:
                return f'Set "prompt_cache_retention": "{event.retention}", or send the next request sooner'
            if misses.ttl is not None:
                continue  # what was lost costs less than a longer time to live
            if event is not None and event.gap is not None and event.gap <= _LONGEST_TTL:
                return 'Cache for an hour (Anthropic: "ttl": "1h" in cache_control), or send the next request sooner'
            return "Send the next request sooner: no time to live covers the gap"
        if cause == "compaction" and _has_paid(misses.compactions):
            continue
        if cause == "setting_changed" and event is not None:
            return f"Keep {event.detail.removeprefix('changed: ')} the same in all requests of a session"
        if cause == "key_changed" and not hosted:
            return "Send one `cache_salt` per tenant"
        if cause in _CHANGES:
            place = None if event is None else event.place
            is_text = cause == "system_changed" and event is not None and not event.is_moved_to_front
            change = _CHANGES["prompt_changed" if is_text else cause]
            return change if place is None else f"{change}. The largest case: {place}"
    return ""


def pauses_cost_less(misses: CacheMisses, currency: str = "USD") -> str:
    """Say that pauses lost less than a longer time to live costs; empty where that is not so."""
    lost = misses.by_cause.get("expired")
    if lost is None or misses.ttl is None or cheaper_ttl(misses.ttl) is not None:
        return ""
    from kvtool.accounting.prices.bill import shown_money

    cost = "" if lost.cost is None else f", {shown_money(Decimal(lost.cost), currency)}"
    hour, paid = (shown_money(Decimal(each), currency) for each in (misses.ttl.one_hour, misses.ttl.paid))
    return (
        f"{lost.events:,} of {plural(misses.requests, 'request')} came after the prefix expired{cost}. "
        f"1-hour caching would cost {hour} instead of {paid}"
    )


def beside_pauses(change: str, misses: CacheMisses, currency: str = "USD") -> str:
    """Return a change and, where pauses lost more than what it mends, why they are left alone."""
    kept = pauses_cost_less(misses, currency) if next(iter(misses.by_cause), None) == "expired" else ""
    return f"{change}. The largest loss stays: {kept}" if change and kept else change


def _has_paid(compactions: Sequence[Compaction]) -> bool:
    """Return whether the compactions saved what they cost."""
    saved = [Decimal(each.saved) for each in compactions if each.saved is not None]
    return bool(saved) and sum(saved) >= 0


def cheaper_ttl(ttl: TtlCosts) -> tuple[str, Decimal] | None:
    """Return the time to live that costs less than was paid, in words, and what it saves; None where neither does."""
    saved = {
        "5 minutes": Decimal(ttl.paid) - Decimal(ttl.five_minutes),
        "1 hour": Decimal(ttl.paid) - Decimal(ttl.one_hour),
    }
    name = max(saved, key=lambda each: saved[each])
    return (name, saved[name]) if saved[name] > 0 else None
