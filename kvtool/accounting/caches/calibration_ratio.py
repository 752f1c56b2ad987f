"""Estimate a provider's tokens per token of ours: its tokenizer differs, and it adds text that no request shows."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.workload.turn import Turn


class Alike(NamedTuple):
    """Requests whose text a provider's tokenizer divides alike: of one model and group, with tools or without, as providers write
    the schemas of tools in words of their own."""

    model: str
    group: str
    tools: bool

    @classmethod
    def of(cls, turn: Turn) -> Alike:
        """Return the kind of a request."""
        return cls(turn.call.model or "", turn.group, bool(turn.tools))


class TokenRatios:
    """The sums of reported and of own prompt tokens by kind of requests, over the requests so far."""

    def __init__(self) -> None:
        self._of: dict[Alike, Scale] = {}
        self._model: dict[str, Scale] = {}

    def add(self, alike: Alike, reported: int | None, own: int) -> None:
        """Enter a request; None if its log has no length."""
        if reported is not None and reported > 0 and own > 0:
            self._of[alike] = _sum(self._of.get(alike), reported, own)
            self._model[alike.model] = _sum(self._model.get(alike.model), reported, own)

    def scale(self, alike: Alike) -> Scale:
        """Return the ratio of the requests so far: of these, else of the model; one to one without any."""
        return self._of.get(alike) or self._model.get(alike.model) or Scale(1, 1)

    def told(self) -> dict[str, float]:
        """Return the ratio of each model with lengths in the log."""
        return {model: scale.theirs / scale.own for model, scale in self._model.items()}


def _sum(scale: Scale | None, reported: int, own: int) -> Scale:
    return Scale(reported, own) if scale is None else Scale(scale.theirs + reported, scale.own + own)


class Scale:
    """A ratio of whole numbers; what it gives is rounded down."""

    __slots__ = ("own", "theirs")

    def __init__(self, theirs: int, own: int) -> None:
        self.theirs, self.own = theirs, own

    def theirs_of(self, tokens: int) -> int:
        """Convert our tokens to the provider's."""
        return tokens * self.theirs // self.own
