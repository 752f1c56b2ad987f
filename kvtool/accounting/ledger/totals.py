"""Sums over requests: of a group, of a turn, of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

_MOST_LENGTHS = 4096
"""Distinct lengths that are counted for each group, a bound on memory; beyond it the rarest are dropped."""


@dataclass(slots=True)
class TurnTotals:
    """Sums over the requests that were the n-th turn of their session."""

    requests: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0


@dataclass(slots=True)
class TokenTotals:
    """Sums over requests; `request_rates` adds up their own hit rates."""

    requests: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    reachable_tokens: int = 0
    request_rates: float = 0.0

    def add(self, prompt_tokens: int, hit_tokens: int) -> None:
        """Add one request."""
        self.requests += 1
        self.prompt_tokens += prompt_tokens
        self.hit_tokens += hit_tokens
        self.request_rates += hit_tokens / prompt_tokens if prompt_tokens else 0.0

    def add_all(self, prompt_tokens: npt.NDArray[np.int64], hit_tokens: npt.NDArray[np.int64]) -> None:
        """Add requests, none of them empty: the same sums as one after the other, with their rates added in this order."""
        self.requests += len(prompt_tokens)
        self.prompt_tokens += int(prompt_tokens.sum())
        self.hit_tokens += int(hit_tokens.sum())
        rates = np.concatenate([[self.request_rates], hit_tokens / prompt_tokens])
        self.request_rates = float(np.add.accumulate(rates)[-1])

    @classmethod
    def of(cls, parts: Iterable[TokenTotals]) -> TokenTotals:
        """Return the sum of several."""
        total = cls()
        for part in parts:
            total.requests += part.requests
            total.prompt_tokens += part.prompt_tokens
            total.hit_tokens += part.hit_tokens
            total.reachable_tokens += part.reachable_tokens
            total.request_rates += part.request_rates
        return total

    @property
    def hit_rate(self) -> float:
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def reachable_rate(self) -> float:
        return self.reachable_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def mean_request_rate(self) -> float:
        return self.request_rates / self.requests if self.requests else 0.0


@dataclass(slots=True)
class GroupTotals(TokenTotals):
    """Sums over the requests of a group, and the ledger's other facts about it."""

    name: str = ""
    fates: Counter[str] = field(default_factory=Counter)
    shared_prefixes: Counter[int] = field(default_factory=Counter)
    turns: dict[int, TurnTotals] = field(default_factory=dict)

    def shared(self, tokens: int) -> None:
        """Add a request that shares so many tokens with earlier ones; of very many lengths the most usual are kept."""
        self.shared_prefixes[tokens] += 1
        if len(self.shared_prefixes) > _MOST_LENGTHS:
            self.shared_prefixes = Counter(dict(self.shared_prefixes.most_common(_MOST_LENGTHS // 4)))

    @property
    def in_part_blocks(self) -> int:
        """Tokens that shared text lost to blocks that are not full."""
        return self.fates["partial_block"] + self.fates["last_token"]

    def common_prefix(self) -> int:
        """Return the most usual length, in tokens, that a request shares with earlier ones (the longest of equals)."""
        return max(self.shared_prefixes.items(), key=lambda item: (item[1], item[0]), default=(0, 0))[0]
