"""What to change about the misses of a log with reported usage: the costliest cause that requests can mend, or a time to live."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal

from kvtool.results.misses import HOUR, CacheMisses, Compaction, MissCause, ServerCache, TtlCosts
from kvtool.text.terminal.numbers import percent, plural

WORTH = Decimal("0.01")
"""Part of what was paid that a change must save to be named."""
UNMENDABLE: frozenset[MissCause] = frozenset(("first_use", "answer_not_kept", "partial_block"))
"""Causes that neither requests nor settings avoid."""
TEXT_CAUSES: frozenset[MissCause] = frozenset(
    ("prompt_changed", "tools_changed", "system_changed", "history_edited", "wire_form")
)
"""Causes that a comparison of two requests shows."""
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
    "lookback": "Set a cache breakpoint at most 20 blocks after the one before",
    "marks_limit": "Set at most 4 cache breakpoints",
    "not_marked": "Set cache_control (Bedrock: cachePoint) on the last block that the requests share",
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


@dataclass(frozen=True, slots=True)
class AdvisedChange:
    """A change in words. It saves at most `tokens`, at a price of `saved` (None: not known), which `cause` made requests lose."""

    cause: MissCause
    text: str
    saved: Decimal | None
    tokens: int = 0
    cache: ServerCache | None = None
    """The cache of an own server that the change makes larger."""

    @property
    def worth(self) -> tuple[Decimal, int]:
        return self.saved or Decimal(0), self.tokens


def first_change(misses: CacheMisses, currency: str = "USD", *, hosted: bool = True) -> str:
    """Return what `profile`, `what-if` and `optimize` name first, where no edit of prompts is proven; else an empty text."""
    found = costliest_change(misses, currency, hosted=hosted)
    return "" if found is None else found.text


def costliest_change(
    misses: CacheMisses, currency: str = "USD", *, hosted: bool = True, mended: Collection[MissCause] = ()
) -> AdvisedChange | None:
    """Return the change of requests or settings that saves most: by price, else by tokens; `mended` causes need none."""
    if field_to_compare(misses):
        return None
    causes = [cause for cause in misses.by_cause if cause not in mended] if is_noticeable(misses) else []
    found = [_change_of(cause, misses, currency, hosted=hosted) for cause in causes]
    best = max((each for each in found if each is not None), key=lambda each: each.worth, default=None)
    if best is None and (life := cheaper_life(misses, currency)):
        return AdvisedChange("expired", life, _saved_by_life(misses))
    return best


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


def _saved_by_life(misses: CacheMisses) -> Decimal | None:
    found = None if misses.ttl is None else cheaper_ttl(misses.ttl)
    return None if found is None else found[1]


def _change_of(cause: MissCause, misses: CacheMisses, currency: str, *, hosted: bool) -> AdvisedChange | None:
    """Return what to change about one cause; None where requests do not mend it."""
    lost = misses.by_cause[cause]
    saved, cache = None if lost.cost is None else Decimal(lost.cost), None
    event = max((each for each in misses.events if each.cause == cause), key=lambda each: each.tokens, default=None)
    if cause == "expired":
        text = cheaper_life(misses, currency, least=Decimal(0))
        saved = _saved_by_life(misses) if text else saved
        if not text:
            text = _longer_life(misses)
    elif cause == "compaction" and _has_paid(misses.compactions):
        return None
    elif cause == "evicted" and misses.hypothesis is not None and (cache := misses.hypothesis.cache) is not None:
        rates = f"{percent(misses.read / max(misses.prompt_tokens, 1))} -> {percent(cache.hit_rate)}"
        size = f"from {cache.blocks:,} to {cache.enough:,} blocks"
        text = f"Enlarge the KV cache of the server {size} (vLLM: --gpu-memory-utilization): hit rate {rates}"
    elif cause == "setting_changed" and event is not None:
        text = f"Keep {event.detail.removeprefix('changed: ')} the same in all requests of a session"
    elif cause == "key_changed" and not hosted:
        text = "Send one `cache_salt` per tenant"
    else:
        is_text = cause == "system_changed" and event is not None and not event.is_moved_to_front
        text = _CHANGES.get("prompt_changed" if is_text else cause, "")
        if text and event is not None and event.place is not None:
            text += f". The largest case: {event.place}"
    return AdvisedChange(cause, text, saved, lost.tokens, cache) if text else None


def _longer_life(misses: CacheMisses) -> str:
    """Return which setting of the provider keeps what expired, or to send sooner; empty where replays show that it costs more."""
    replayed = misses.ttl is not None  # a longer time to live of marks costs more than what was lost
    expired = [
        each
        for each in misses.events
        if each.cause == "expired" and each.place is None  # no change of the text blocks it, too
        if not (replayed and each.longer_life == HOUR)
    ]
    event = max(expired, key=lambda each: each.tokens, default=None)
    if event is None:
        return ""
    if event.longer_life is not None:
        return f"Set {event.longer_life}, or send the next request sooner"
    return "" if replayed else "Send the next request sooner: no time to live covers the gap"


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
