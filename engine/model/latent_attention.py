"""Projections around attention for layers with one latent vector a token (MLA, DeepSeek-V2, arXiv 2405.04434, section 2.1).

The expansion of latent vectors to keys and values is absorbed: queries are projected to latent vectors, and attention's result is
expanded. So all heads read one "key", which is its own "value", and prefill equals decode.
"""

from __future__ import annotations

import torch

from kvtool.engine.model.latent import LatentDims
from kvtool.engine.model.layer_weights import LatentWeights
from kvtool.engine.model.products import make_product
from kvtool.kernels.kv_quantization import Scale
from kvtool.kernels.protocol import Kernels

_EPS = 1e-6
"""Epsilon for the norms of compressed vectors; the model's other norms may use another."""


class LatentAttention:
    """Queries are [T, Hq, kv_rank + rope_dim], as latent vectors are, with the rotated numbers last."""

    def __init__(self, weights: LatentWeights, dims: LatentDims, kernels: Kernels) -> None:
        query, latent, latent_bias = weights.query, weights.latent, weights.latent_bias
        if dims.interleaved:
            query = _halves(query.view(-1, dims.query_dim, query.shape[1]), dims).flatten(0, 1)
            latent = _halves(latent[None], dims)[0]
            latent_bias = None if latent_bias is None else _halves(latent_bias[None], dims)[0]
        self._query_down = (
            None if weights.query_down is None else make_product(weights.query_down, weights.query_down_bias)
        )
        self._query_norm = weights.query_norm
        self._query = make_product(query)
        self._latent = make_product(latent, latent_bias)
        self._latent_norm = weights.latent_norm
        expand = weights.expand.view(-1, dims.nope_dim + dims.value_dim, dims.kv_rank)
        self._key, self._value = expand.split_with_sizes([dims.nope_dim, dims.value_dim], dim=1)  # [Hq, …, kv_rank]
        self._output = make_product(weights.output, weights.output_bias)
        self._dims = dims
        self._kernels = kernels

    def queries(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
        k_scale: Scale,
        v_scale: Scale,
    ) -> torch.Tensor:
        dims, kernels = self._dims, self._kernels
        compressed = self._latent.product(x)[:, None]  # [T, 1, kv_rank + rope]
        latent, key = compressed.split_with_sizes([dims.kv_rank, dims.rope_dim], dim=2)
        latent = kernels.rms_norm(latent, self._latent_norm, _EPS)
        kept = torch.cat([latent, kernels.rotary(key, cos, sin)], dim=2)
        kernels.store_kv(kept, kept, k_cache, v_cache, slot_mapping, k_scale, v_scale)
        if self._query_down is not None and self._query_norm is not None:
            x = kernels.rms_norm(self._query_down.product(x), self._query_norm, _EPS)
        queries = self._query.product(x).view(len(x), -1, dims.query_dim)
        nope, rotated = queries.split_with_sizes([dims.nope_dim, dims.rope_dim], dim=2)
        absorbed = (nope.transpose(0, 1) @ self._key).transpose(0, 1)  # [T, Hq, kv_rank]
        return torch.cat([absorbed, kernels.rotary(rotated, cos, sin)], dim=2)

    def output(self, attended: torch.Tensor) -> torch.Tensor:
        found = attended[:, :, : self._dims.kv_rank].transpose(0, 1)  # [Hq, T, kv_rank]
        return self._output.product((found @ self._value.mT).transpose(0, 1).flatten(1))


def _halves(weight: torch.Tensor, dims: LatentDims) -> torch.Tensor:
    """Return rows [n, … + rope_dim, …] with the first numbers of rotated pairs before the second ones, as `rotary` has them."""
    kept = weight.shape[1] - dims.rope_dim
    rotated = torch.arange(kept, weight.shape[1], device=weight.device).view(-1, 2).t().flatten()
    order = torch.cat([torch.arange(kept, device=weight.device), rotated])
    return weight.index_select(1, order)
