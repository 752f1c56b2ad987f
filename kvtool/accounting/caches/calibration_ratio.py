"""Estimate a provider's tokens per token of ours: its tokenizer differs, and it adds text that no request shows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from kvtool.workload.turn import Turn

LEAST_TOKENS = 64
"""Tokens up to which a conversion is right: tokenizers differ by less."""
_LONGEST = 1 << 62
"""More tokens than any prompt has."""
_DENSER = 4
"""One in so many tokens of a part of a prompt may be before or after its place: JSON has up to a quarter more tokens than prose."""


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
    """A ratio of whole numbers; what it gives is rounded down.

    `points` are prefixes of one prompt whose tokens reports give, ours and the provider's. Between two of them a prefix grows in
    proportion: the ratio of tools differs from that of messages.
    """

    __slots__ = ("own", "points", "theirs")

    def __init__(self, theirs: int, own: int, points: Iterable[tuple[int, int]] = ()) -> None:
        self.theirs, self.own = theirs, own
        self.points = [(0, 0)]
        for point in sorted(points):
            if point[0] > self.points[-1][0] and point[1] >= self.points[-1][1]:
                self.points.append(point)

    def through(self, points: Iterable[tuple[int, int]]) -> Scale:
        """Return the scale of a prompt with these prefixes."""
        return Scale(self.theirs, self.own, points)

    def theirs_of(self, tokens: int) -> int:
        """Convert our tokens to the provider's."""
        (start, base), (stop, end) = self._around(tokens)
        return base + (tokens - start) * (end - base) // (stop - start)

    def error_of(self, tokens: int) -> int:
        """Return by how many tokens of the provider the conversion may be wrong: by none at a prefix that a report gives, else by a
        quarter of what lies between it and the nearest one."""
        if len(self.points) == 1:
            return 0
        (_, base), (_, end) = self._around(tokens)
        found = self.theirs_of(tokens)
        return min(found - base, end - found) // _DENSER

    def _around(self, tokens: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the points before and after a length; after the last one, one in proportion to the ratio."""
        at = bisect_right(self.points, (tokens, _LONGEST))
        before = self.points[at - 1]
        after = self.points[at] if at < len(self.points) else (before[0] + self.own, before[1] + self.theirs)
        return before, after
