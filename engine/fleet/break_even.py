"""Load keys and values from a tier, or compute them again: what takes less time, and from which length on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class PrefillSeconds(Protocol):
    """Seconds of a prompt that runs alone, by its tokens and those of them that are cached."""

    def __call__(self, prompt_tokens: int, cached_tokens: int, /) -> float: ...


def load_seconds(tokens: int, token_bytes: float, bandwidth: float, latency: float = 0.0) -> float:
    """latency + bytes / bandwidth, on a link that nobody shares."""
    return latency + tokens * token_bytes / bandwidth


def recompute_seconds(prefill: PrefillSeconds, cached: int, tokens: int, rest: int) -> float:
    """What a prompt's prefill takes longer if `tokens` behind the first `cached` ones are computed instead of cached.

    `rest`, at least 1, are computed behind them either way: a pass over the weights that happens anyhow is no price of the prefix.
    """
    whole = cached + tokens + rest
    return prefill(whole, cached) - prefill(whole, cached + tokens)


def break_even_tokens(
    load: Callable[[int], float], recompute: Callable[[int], float], *, step: int = 1, most: int = 1 << 20
) -> int | None:
    """Return the shortest prefix, in multiples of `step`, that is loaded in less time than it is computed; None: none up to `most`.

    Both are seconds by tokens. The search doubles, then halves: it is the shortest of all where the gain changes its sign once.
    """

    def gains(steps: int) -> bool:
        return load(steps * step) < recompute(steps * step)

    last = most // step
    low, high = 0, 1
    while high <= last and not gains(high):
        low, high = high, high * 2
    if high > last:
        if last <= low or not gains(last):
            return None
        high = last
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if gains(middle) else (middle, high)
    return high * step
