"""Measure the costs of attention on this CPU in a few milliseconds: the shortest prefix for which one shared read pays."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from kvtool.kernels.lse_attention import attend_lse, merge_lse

_TOKENS, _FEW_TOKENS = 512, 32
"""Lengths of the two measured prefixes in tokens: long enough to time, short enough for a few milliseconds in all."""
_REQUESTS = 8
"""Requests of the measured batch; enough to see the cost of one more request at the same read."""
_REPEATS = 5
"""Runs of each measurement; the least of them counts."""


@dataclass(frozen=True, slots=True)
class CpuCosts:
    """Seconds of a layer's decode attention: a call, a token that is read for a K/V head, and a result that is merged."""

    call: float
    token: float
    merge: float

    @property
    def least_tokens(self) -> int:
        """The shortest prefix of two requests for which one shared read saves more than its extra call costs."""
        return max(int(self.call / self.token), 1) if self.token > 0 else 1 << 30

    @property
    def part_tokens(self) -> float:
        """Tokens read in the time that merging one request's result takes."""
        return self.merge / self.token if self.token > 0 else float(1 << 30)


def measure_costs(num_heads: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype) -> CpuCosts:
    """Return the least of several runs each. Their noise decides only the path, never a result."""
    group = num_heads // num_kv_heads
    k, v = (torch.ones(1, num_kv_heads, _TOKENS, head_dim, dtype=dtype) for _ in range(2))

    def attention(requests: int, tokens: int) -> float:
        q = torch.ones(1, num_kv_heads, requests * group, head_dim, dtype=dtype)
        return _least(lambda: attend_lse(q, k[:, :, :tokens], v[:, :, :tokens]))

    out, lse = torch.zeros(num_kv_heads, _REQUESTS, group, head_dim), torch.zeros(num_kv_heads, _REQUESTS, group)
    merged = _least(lambda: merge_lse(out, lse, out.clone(), lse))
    one, many, few = attention(1, _TOKENS), attention(_REQUESTS, _TOKENS), attention(1, _FEW_TOKENS)
    # A token that one request reads costs its read and a product; one more request at the same read costs a product.
    product = max(many - one, 0.0) / ((_REQUESTS - 1) * _TOKENS)
    token = max((one - few) / (_TOKENS - _FEW_TOKENS) - product, 0.0)
    return CpuCosts(call=few + merged, token=token, merge=merged / _REQUESTS)


def _least(run: Callable[[], object]) -> float:
    times = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)
