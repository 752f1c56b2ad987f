"""What the kernels should compute, in float64 and with nothing shared with them: the yardstick of `checks`."""

from __future__ import annotations

import math

import torch

from kvtool.kernels.kv_quantization import Scale


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference over the norm of what is expected; NaN where anything found is none."""
    found, expected = found.double(), expected.double()
    size = float(torch.linalg.vector_norm(expected))
    return float(torch.linalg.vector_norm(found - expected)) / (size or 1.0)


def cached_tokens(cache: torch.Tensor, scale: Scale, blocks: torch.Tensor, length: int) -> torch.Tensor:
    """float64[length, Hkv, D]: the tokens of those blocks of a cache [num_blocks, Hkv, P, D], dequantized exactly."""
    kept = cache[blocks] if cache.dtype.itemsize > 1 else cache.view(torch.uint8)[blocks].view(cache.dtype)
    tokens = kept.float().double()
    tokens = tokens * (scale[blocks].double()[..., None] if isinstance(scale, torch.Tensor) else scale)
    return tokens.transpose(1, 2).flatten(0, 1)[:length]


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output [n, Hq, D] of queries [n, Hq, D] over tokens [L, Hkv, D], and log-sum-exps of base 2 [n, Hq].

    `seen` bool[n, L] says which tokens a query attends to; one that sees none gets 0 and -inf.
    """
    count, heads, dim = q.shape
    kv_heads = k.shape[1]
    grouped = q.double().view(count, kv_heads, heads // kv_heads, dim)
    scores = torch.einsum("nhgd,lhd->nhgl", grouped, k) / math.sqrt(dim)
    if seen is not None:
        scores = scores.masked_fill(~seen[:, None, None], -math.inf)
    lse = scores.logsumexp(dim=-1)
    shares = (scores - lse[..., None]).exp().nan_to_num(0.0)
    out = torch.einsum("nhgl,lhd->nhgd", shares, v)
    return out.reshape(count, heads, dim), (lse / math.log(2)).reshape(count, heads)


def causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, most_rows: int = 256) -> torch.Tensor:
    """float64[n, Hq, D]: the queries are the last n of the L tokens, each sees those up to its own."""
    count, length = len(q), len(k)
    position = torch.arange(length, device=q.device)
    tiles = []
    for first in range(0, count, most_rows):
        last = min(first + most_rows, count)
        own = torch.arange(length - count + first, length - count + last, device=q.device)
        seen = length - count + last
        tiles.append(attention(q[first:last], k[:seen], v[:seen], position[:seen] <= own[:, None])[0])
    return torch.cat(tiles)


def merged(outs: torch.Tensor, lses: torch.Tensor) -> torch.Tensor:
    """float64[Hq, D] of the parts' outputs [n, Hq, D] and log-sum-exps of base 2 [n, Hq]; 0 where all are -inf."""
    weights = torch.softmax(lses.double() * math.log(2), dim=0).nan_to_num(0.0)
    return (weights[..., None] * outs.double().nan_to_num(0.0)).sum(dim=0)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """float64, over the last dimension."""
    wide = x.double()
    return wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps) * weight.double()


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """float64[T, H, D]: with the signed sin of `engine.model.rope`, the first half of each head is rotated with the second."""
    wide = x.double()
    first, second = wide.chunk(2, dim=-1)
    return wide * cos.double() + torch.cat((second, first), dim=-1) * sin.double()


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    """float64[T, I] of [T, 2 I]"""
    gate, up = gate_up.double().chunk(2, dim=-1)
    return gate * torch.sigmoid(gate) * up
