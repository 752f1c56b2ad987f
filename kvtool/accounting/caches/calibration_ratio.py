"""Estimate a provider's tokens per token of ours: its tokenizer differs, and it adds text that no request shows."""

from __future__ import annotations

from collections import defaultdict


class TokenRatios:
    """The sums of reported and of own prompt tokens by model, over the requests so far."""

    def __init__(self) -> None:
        self._reported: dict[str, int] = defaultdict(int)
        self._own: dict[str, int] = defaultdict(int)

    def add(self, model: str, reported: int | None, own: int) -> None:
        """Enter a request; None if its log has no length."""
        if reported is not None and reported > 0 and own > 0:
            self._reported[model] += reported
            self._own[model] += own

    def scale(self, model: str) -> Scale:
        """Return the ratio of the requests so far; one to one without any."""
        reported, own = self._reported.get(model, 0), self._own.get(model, 0)
        return Scale(reported, own) if reported and own else Scale(1, 1)

    def told(self) -> dict[str, float]:
        """Return the ratio of each model with lengths in the log."""
        return {model: reported / self._own[model] for model, reported in self._reported.items()}


class Scale:
    """A ratio of whole numbers, applied both ways, rounded down."""

    __slots__ = ("own", "theirs")

    def __init__(self, theirs: int, own: int) -> None:
        self.theirs, self.own = theirs, own

    def theirs_of(self, tokens: int) -> int:
        """Convert our tokens to the provider's."""
        return tokens * self.theirs // self.own

    def own_of(self, tokens: int) -> int:
        """Convert the provider's tokens to ours."""
        return tokens * self.own // self.theirs
