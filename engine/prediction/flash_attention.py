"""Time of a step's attention where vLLM attends with FlashAttention 2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from math import ceil

_TILE = 64
"""Tokens of a request that a block of threads attends for; fewer take as long."""
_BANDWIDTH_EFFICIENCY = 0.95
_RAMP = 50e-6
"""Seconds in each layer by which reading much takes longer than at that rate."""
_STREAMS = 65
"""Blocks of threads that it takes to use the memory's whole bandwidth: one alone reads at this part of it."""
_FILLED = 1.6
"""FlashAttention 2 cuts requests into parts until there are so many blocks of threads for each multiprocessor."""


@dataclass(frozen=True, slots=True)
class FlashAttention2:
    """One layer's kernel on one accelerator: a block of threads for each tile of a request's tokens and each head.

    Its constants were read off kernel times, as those of `LatencyModel`: in the same tables, attention of 1 to 256 requests over 16
    to 16,384 tokens, alone and beside a prompt's chunk.

    - Steps that only decode read keys and values once for the query heads that share them. With M the time at 0.95 of the peak
      bandwidth, `M + 50 µs · M / (M + 50 µs)` is within 13 % of 16 to 256 requests of 512 to 16,384 tokens on both cards, within
      2 % in the median.
    - With a prompt's chunk in the step, one call attends for all requests. It packs no heads together, so that a token that is
      decoded costs each query head a whole tile of 64 (vLLM's pull request 58013 says so, too, and mends it): 128 requests of 1,024
      tokens take 1.7 times (server card) and 2.5 times (RTX 4090) as long as without the chunk. What is told here is within 16 %
      in the median, and at worst off by half.
    - Where there are blocks enough for all multiprocessors, no request is cut into parts, and the longest ends last. One block
      alone reads 512 B in 22 ns (server card) and 32 ns (RTX 4090), a 70th and a 62nd of the bandwidth. Tokens that all blocks read
      at once are shared fairly; what is left when fewer run than the memory could serve takes as long as one block needs for it.
    """

    bandwidth: float
    """B/s at the peak."""
    flop_seconds: float
    """Of a floating-point operation, at the rate of the matrix products."""
    pair_flops: float
    """In all query heads, of a token and one that it attends to."""
    token_bytes: float
    """Keys and values of a token in one layer, on one accelerator."""
    kv_heads: int
    multiprocessors: int

    longest: int = field(init=False, repr=False, compare=False)
    """Requests whose blocks together use the memory's whole bandwidth."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "longest", ceil(_STREAMS / self.kv_heads))

    def layer_seconds(self, work: Sequence[tuple[int, int]]) -> float:
        """Seconds of one layer. `work` has, for each request, the tokens computed before and those computed now."""
        moved = pairs = 0
        decodes = True
        for before, new in work:
            moved += before + 2 * new
            tiles = -(-new // _TILE)
            pairs += _TILE * (tiles * before + _TILE * tiles * (tiles - 1) // 2 + new)
            decodes = decodes and new == 1
        return self._seconds(len(work), moved, pairs, (before + new for before, new in work), decodes=decodes)

    def mixed_seconds(
        self, chunks: Sequence[tuple[int, int]], requests: int, context: int, longest: Sequence[int]
    ) -> float:
        """The same of `chunks` and of `requests` that decode: they have computed `context` tokens in all, and `longest` are the
        `longest` longest contexts among them."""
        moved, pairs, decodes = context + 2 * requests, _TILE * (context + requests), True
        for before, new in chunks:
            tiles = -(-new // _TILE)
            moved += before + 2 * new
            pairs += _TILE * (tiles * before + _TILE * tiles * (tiles - 1) // 2 + new)
            decodes = decodes and new == 1
        lengths = [*(each + 1 for each in longest), *(before + new for before, new in chunks)]
        return self._seconds(requests + len(chunks), moved, pairs, lengths, decodes=decodes)

    def decode_growth(self, requests: int, context: int, longest: Sequence[int]) -> tuple[float, float, float]:
        """How the time of steps that only decode grows: by `growth + bend · (1 / (at + j - 1) - 1 / (at + j))` in the j-th after
        the first; returns these three."""
        token = self.token_bytes / (self.bandwidth * _BANDWIDTH_EFFICIENCY)
        each = requests * token
        at = ((context + 2 * requests) * token + _RAMP) / each
        growth = each
        if self._fills(requests):
            growth += self._alone() * (1 - min(len(longest), self.longest) / self.longest)
        return growth, _RAMP * _RAMP / each, at

    def _fills(self, requests: int) -> bool:
        """Return whether there are so many requests that none is cut into parts, and the longest ends last."""
        return requests * self.kv_heads >= _FILLED * self.multiprocessors

    def _seconds(self, requests: int, moved: int, pairs: int, lengths: Iterable[int], *, decodes: bool) -> float:
        least = moved * self.token_bytes / (self.bandwidth * _BANDWIDTH_EFFICIENCY)
        reading = least + least * _RAMP / (least + _RAMP)
        if not decodes:
            return reading + max(pairs * self.pair_flops * self.flop_seconds, self._wait(lengths))
        return reading + self._wait(lengths) if self._fills(requests) else reading

    def _wait(self, lengths: Iterable[int]) -> float:
        """For the longest request, beyond the time in which the memory could serve all.

        Blocks that read at once get equal parts of the bandwidth, and none more than it can take alone. With `n` as many as use all
        of it, lengths l₁ ≥ l₂ ≥ …, and `t` of one token alone: t · Σ (1 - m / n) · (lₘ - lₘ₊₁) for m < n, which is this.
        """
        longest = nlargest(self.longest, lengths)
        return self._alone() * (longest[0] - sum(longest) / self.longest)

    def _alone(self) -> float:
        """Seconds in which a block that runs alone reads its part of a token."""
        return self.token_bytes / self.kv_heads * _STREAMS / self.bandwidth
