"""What providers reported beside what their rules predict, and what it costs: parts of `kvtool.report/1`.

Amounts are decimal numbers as text, never rounded; tokens are as the provider counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from kvtool.results.document_base import Count, Model, Ratio
from kvtool.text.terminal.numbers import in_words

MORE_PREDICTED = {
    "below_minimum": "about the provider's minimum length",
    "setting_changed": "settings changed",
    "expired": "kept for less than the time to live",
    "parallel": "sent before the prefix was stored",
    "over_15_a_minute": "over 15 requests a minute per prefix and key",
    "caching_off": "caching is off on the server",
    "block_size": "the server's block size differs",
    "evicted_there": "evicted on the server only",
    "other_tokens": "the server's prompt has other tokens",
    "not_explained": "unexplained (routing or eviction)",
}
"""Why a provider or a server reads less than its rules say; a token has the first that applies."""
MORE_REPORTED = {
    "warm_before_the_log": "cached before the log began",
    "kept_longer": "kept longer than documented",
    "text_not_in_the_log": "text not in the log",
    "tokenizer": "tokenizer",
    "block_size_more": "the server's block size differs",
    "larger_cache": "evicted in the simulation only",
    "not_explained_more": "unexplained",
}
"""Why it reads more."""
LOST = {
    "parallel": "sent before the prefix was stored",
    "expired": "expired before reuse",
    "below_minimum": "below the provider's minimum",
    "not_marked": "no cache breakpoint",
    "setting_changed": "setting changed",
    "partial_block": "after the last whole step",
}
"""Why rules give less than all that was sent before."""

Amount = Annotated[str, Field(pattern=r"^-?[0-9]{1,30}(\.[0-9]{1,60})?$")]


def amount_text(amount: Decimal) -> str:
    """Return an amount as documents hold it: without an exponent, and without zeros at its end."""
    return format(amount.normalize(), "f")


def known_amount_text(amount: Decimal | None) -> str | None:
    """Return the same of an amount; None of one that is not known."""
    return None if amount is None else amount_text(amount)


"""A decimal number as text."""


class Reported(Model):
    """What providers said that they read, of all requests whose usage says so."""

    requests: Count
    prompt_tokens: Count
    cached_tokens: Count
    hit_rate: Ratio
    saved: Amount | None = None
    """The cost without a cache less what was paid, of priced requests."""


class Predicted(Model):
    """What their rules say of those requests whose models have rules; `lost` was sent before and is not read, by cause."""

    requests: Count
    prompt_tokens: Count
    cached_tokens: Count
    hit_rate: Ratio
    reachable_tokens: Count
    lost: dict[str, Count]
    most_a_minute: Count
    """Requests with one prefix and key in a minute, at most, where the rules tell a bound."""
    reported_tokens: Count | None = None
    """Cached tokens that the provider reported for the same requests."""
    tokens_per_own: dict[str, float]
    """By model, how many tokens the provider counts for each of ours."""


class MoneyParts(Model):
    """An amount by what it is for."""

    input: Amount
    written: Amount
    read: Amount
    output: Amount
    storage: Amount


class GroupMoney(Model):
    """Of one group, as in `Money`."""

    requests: Count
    paid: Amount | None
    predicted: Amount
    without_cache: Amount
    reported_hit_rate: Ratio | None
    predicted_hit_rate: Ratio | None


class CauseMoney(Model):
    """What tokens cost that were not read for one cause."""

    tokens: Count
    cost: Amount


class MarkPosition(Model):
    """A mark: its place in the body of a request, for how long it keeps a prefix, and the tokens of the longest one."""

    place: str
    ttl: str
    tokens: Count


class BlockSplit(Model):
    """A block of content that is two: it ends after a line of its text (from 1), where the shared text ends."""

    place: str
    line: Count


class MarkAdvice(Model):
    """The cheapest marks of some requests to a model, from a run with them."""

    model: str
    groups: list[str]
    requests: Count
    marks: list[MarkPosition]
    explicit: bool = False
    """Whether the provider sets marks of its own unless `prompt_cache_options.mode` is `explicit`."""
    splits: list[BlockSplit] = Field(default_factory=list)
    """Blocks that have to end earlier for these marks, by their places before that; those after them are numbered anew."""
    others_keep: bool = False
    """Whether requests of other groups keep their marks."""


_TIMES = {"5m": "5 minutes", "30m": "30 minutes", "1h": "1 hour"}
"""How long a prefix is kept, in words."""


def tier_of_marks(advice: Sequence[MarkAdvice]) -> str:
    """Return the tier of a change of marks: P1 where blocks end elsewhere, else P0, as no text changes."""
    return "P1" if any(each.splits for each in advice) else "P0"


_MOST_SPLITS = 2
"""Blocks to split that are named."""
_MOST_ADVICE = 4
"""Kinds of requests whose marks are named."""
_MOST_GROUPS = 3
"""Groups that are named of a kind."""


def marks_in_words(advice: Sequence[MarkAdvice]) -> str:
    """Return what to do, in the imperative; nothing without advice."""
    if not advice:
        return ""
    first = 'set prompt_cache_options.mode to "explicit" and ' if any(each.explicit for each in advice) else ""
    splits = dict.fromkeys(f"{split.place} after its line {split.line}" for each in advice for split in each.splits)
    if splits:
        few = in_words(splits) if len(splits) <= _MOST_SPLITS else "blocks where their shared text ends"
        first = f"{first}split {few}, and "
    marked = [each for each in advice if each.marks]
    if not marked:
        return f"{first}mark nothing: writes cost more than reads save"
    if len(advice) == 1 and not advice[0].others_keep:
        return f"{first}mark {_places(advice[0])}"
    ordered = sorted(advice, key=lambda each: -each.requests)
    named = [f"in {_requests_of(each, advice)}, {_places(each)}" for each in ordered[:_MOST_ADVICE]]
    left = len(advice) - _MOST_ADVICE
    more = f"; {left:,} more kinds of requests have others (--json has all)" if left > 0 else ""
    return f"{first}mark these places: {'; '.join(named)}{more}"


def _requests_of(advice: MarkAdvice, all_advice: Sequence[MarkAdvice]) -> str:
    """Name the requests of an advice: by their groups and, where others are of these groups too, by their model."""
    groups = in_words(advice.groups[:_MOST_GROUPS])
    if (left := len(advice.groups) - _MOST_GROUPS) > 0:
        groups += f" and {left:,} more groups"
    return groups if sum(each.groups == advice.groups for each in all_advice) == 1 else f"{groups} ({advice.model})"


def _places(advice: MarkAdvice) -> str:
    places = [
        mark.place if advice.explicit else f"{mark.place} for {_TIMES.get(mark.ttl, mark.ttl)}" for mark in advice.marks
    ]
    return in_words(places) or "none"


class GpuMoney(Model):
    """What prefill that the cache saves would cost on one's own accelerators: predicted."""

    hour: Amount
    saved_seconds: float
    saved: Amount


class Money(Model):
    """What the priced requests cost: as reported, by the rules, with the fixes, without a cache. None: not known."""

    currency: str
    requests: Count
    priced_requests: Count
    paid: Amount | None
    paid_parts: MoneyParts | None
    predicted: Amount | None
    with_fixes: Amount | None
    """With the fixes that were kept; where none was, with the cheapest cache breakpoints."""
    fixed_hit_rate: Ratio | None = None
    """The predicted hit rate with the fixes that were kept, in the provider's tokens."""
    with_marks: Amount | None
    """With the fixes that were kept and the cheapest cache breakpoints, where these save more."""
    without_cache: Amount | None
    logged: Amount | None
    """What the log itself says that the requests cost."""
    days: float | None
    """From the first request to the last one."""
    month: Amount | None
    """What the fixes save in a month of 30.4375 days, for logs of a day or more."""
    per_1k_requests: Amount | None
    """The cost of 1,000 requests."""
    by_group: dict[str, GroupMoney]
    by_cause: dict[str, CauseMoney]
    """What the rules say is not read."""
    by_difference: dict[str, CauseMoney] = Field(default_factory=dict)
    """What the rules say is read, and was not."""
    settings: list[str] = Field(default_factory=list)
    """The cache keys and times to live of `with_fixes`, where it has others than the log."""
    marks: list[MarkAdvice]
    """The marks of `with_fixes`, where it has others than the log."""
    unpriced: dict[str, Count]
    """Requests by model of which no price is known."""
    notices: list[str] = Field(default_factory=list)
    gpu: GpuMoney | None = None
